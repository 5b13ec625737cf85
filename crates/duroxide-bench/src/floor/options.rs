//! The command line.

use std::path::PathBuf;

/// One part of the floor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Hello,
    Burst,
    Chain,
    FanOut,
    Queue,
    Drain,
    Incompatible,
    Idle,
}

impl Part {
    pub(crate) const ALL: [Self; 8] = [
        Self::Hello,
        Self::Burst,
        Self::Chain,
        Self::FanOut,
        Self::Queue,
        Self::Drain,
        Self::Incompatible,
        Self::Idle,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Hello => "hello",
            Self::Burst => "burst",
            Self::Chain => "chain",
            Self::FanOut => "fan-out",
            Self::Queue => "queue",
            Self::Drain => "drain",
            Self::Incompatible => "incompatible",
            Self::Idle => "idle",
        }
    }
}

/// What to measure, and where.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) dir: PathBuf,
    pub(crate) only: Option<Part>,
    pub(crate) scale: usize,
}

impl Options {
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut arguments = arguments;
        match arguments.next().as_deref() {
            Some("floor") => {}
            Some(other) => return Err(format!("unknown benchmark '{other}'")),
            None => return Err("which benchmark?".to_string()),
        }
        let mut options = Self { dir: std::env::temp_dir(), only: None, scale: 1 };
        while let Some(flag) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{flag} needs a value"))?;
            match flag.as_str() {
                "--dir" => options.dir = PathBuf::from(value),
                "--only" => {
                    let part = Part::ALL.into_iter().find(|part| part.name() == value);
                    options.only = Some(part.ok_or_else(|| format!("unknown part '{value}'"))?);
                }
                "--scale" => {
                    let scale = value.parse().ok().filter(|scale| *scale >= 1);
                    options.scale =
                        scale.ok_or_else(|| format!("--scale takes a whole number from 1, not '{value}'"))?;
                }
                _ => return Err(format!("unknown option '{flag}'")),
            }
        }
        Ok(options)
    }

    /// A size, divided for a quick look.
    pub(crate) fn sized(&self, size: usize) -> usize {
        (size / self.scale).max(10)
    }
}

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

/// Which store is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
}

impl Kind {
    pub(crate) fn parse(name: &str) -> Result<Self, String> {
        match name {
            "sqlite" => Ok(Self::Sqlite),
            "postgres" => Ok(Self::Postgres),
            _ => Err(format!("unknown store '{name}'")),
        }
    }
}

/// What to measure, and where.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) dir: PathBuf,
    pub(crate) store: Kind,
    pub(crate) only: Option<Part>,
    pub(crate) scale: usize,
}

impl Options {
    /// Reads what stands behind the benchmark's name.
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut arguments = arguments;
        let mut options = Self { dir: std::env::temp_dir(), store: Kind::Sqlite, only: None, scale: 1 };
        while let Some(flag) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{flag} needs a value"))?;
            match flag.as_str() {
                "--store" => options.store = Kind::parse(&value)?,
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

    /// The limit of a ratio, which depends on the store.
    pub(crate) fn limit(&self, sqlite: f64, postgres: f64) -> f64 {
        match self.store {
            Kind::Sqlite => sqlite,
            Kind::Postgres => postgres,
        }
    }

    /// A size, divided for a quick look.
    pub(crate) fn sized(&self, size: usize) -> usize {
        (size / self.scale).max(10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Options, String> {
        Options::parse(arguments.iter().map(ToString::to_string))
    }

    #[test]
    fn options_may_be_left_out_and_wrong_ones_are_named() {
        assert_eq!(parse(&[]).expect("all defaults").only, None);
        assert_eq!(parse(&["--only", "idle", "--scale", "4"]).expect("right").only, Some(Part::Idle));
        assert_eq!(parse(&["--only", "nap"]).expect_err("wrong"), "unknown part 'nap'");
        assert_eq!(parse(&["--store", "postgres"]).expect("right").store, Kind::Postgres);
        assert_eq!(parse(&["--store", "paper"]).expect_err("wrong"), "unknown store 'paper'");
        assert_eq!(parse(&["--only"]).expect_err("wrong"), "--only needs a value");
        assert_eq!(parse(&["--fast", "1"]).expect_err("wrong"), "unknown option '--fast'");
    }
}

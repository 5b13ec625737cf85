//! The command line of the kills.

use std::path::PathBuf;

/// How large the run is, and where its files are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) dir: PathBuf,
    pub(crate) count: usize,
    pub(crate) seconds: u64,
}

impl Options {
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self { dir: std::env::temp_dir(), count: 20_000, seconds: 600 };
        while let Some(flag) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{flag} needs a value"))?;
            let number = value.parse::<u64>().ok().filter(|number| *number >= 1);
            let number = number.ok_or_else(|| format!("{flag} takes a whole number from 1, not '{value}'"));
            match flag.as_str() {
                "--dir" => options.dir = PathBuf::from(value),
                "--count" => options.count = usize::try_from(number?).map_err(|cause| cause.to_string())?,
                "--seconds" => options.seconds = number?,
                _ => return Err(format!("unknown option '{flag}'")),
            }
        }
        Ok(options)
    }
}

//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use crate::floor::Kind;

/// What is hostile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Probe {
    Snapshot,
    LargeTurns,
    Recovery,
    LargeInbox,
}

/// Which probe, how long, and where.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) probe: Probe,
    pub(crate) store: Kind,
    pub(crate) dir: PathBuf,
    /// How long the hostile part lasts.
    pub(crate) lasts: Duration,
    /// The locks of turns and activities; those of the default options if there is none.
    pub(crate) lock: Option<Duration>,
}

impl Options {
    /// Reads what stands behind `hostile`.
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let probe = match arguments.next().as_deref() {
            Some("snapshot") => Probe::Snapshot,
            Some("large-turns") => Probe::LargeTurns,
            Some("recovery") => Probe::Recovery,
            Some("large-inbox") => Probe::LargeInbox,
            Some(other) => return Err(format!("unknown probe '{other}'")),
            None => return Err("which probe?".to_string()),
        };
        let (store, dir) = (Kind::Sqlite, std::env::temp_dir());
        let mut options = Self { probe, store, dir, lasts: Duration::from_secs(600), lock: None };
        while let Some(flag) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{flag} needs a value"))?;
            match flag.as_str() {
                "--store" => options.store = Kind::parse(&value)?,
                "--dir" => options.dir = PathBuf::from(value),
                "--seconds" => options.lasts = seconds(&flag, &value)?,
                "--lock" => options.lock = Some(seconds(&flag, &value)?),
                _ => return Err(format!("unknown option '{flag}'")),
            }
        }
        Ok(options)
    }
}

fn seconds(flag: &str, value: &str) -> Result<Duration, String> {
    let seconds = value.parse().ok().filter(|seconds| *seconds >= 1);
    let seconds = seconds.ok_or_else(|| format!("{flag} takes a whole number from 1, not '{value}'"))?;
    Ok(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Options, String> {
        Options::parse(arguments.iter().map(ToString::to_string))
    }

    #[test]
    fn a_probe_must_be_named_and_wrong_options_are_named() {
        assert_eq!(parse(&["snapshot"]).expect("right").lasts, Duration::from_secs(600));
        assert_eq!(parse(&["snapshot", "--seconds", "9"]).expect("right").lasts, Duration::from_secs(9));
        assert_eq!(parse(&["recovery", "--lock", "3"]).expect("right").lock, Some(Duration::from_secs(3)));
        assert_eq!(parse(&[]).expect_err("wrong"), "which probe?");
        assert_eq!(parse(&["nap"]).expect_err("wrong"), "unknown probe 'nap'");
        assert!(parse(&["snapshot", "--seconds", "0"]).is_err());
    }
}

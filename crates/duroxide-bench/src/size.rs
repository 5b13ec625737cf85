//! The command line of a run that has one size.

use std::path::PathBuf;

/// How large a run is, and where its files are made.
#[derive(Debug, Clone)]
pub(crate) struct Size {
    pub(crate) dir: PathBuf,
    pub(crate) count: usize,
}

impl Size {
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>, usual: usize) -> Result<Self, String> {
        let mut size = Self { dir: std::env::temp_dir(), count: usual };
        while let Some(flag) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{flag} needs a value"))?;
            match flag.as_str() {
                "--dir" => size.dir = PathBuf::from(value),
                "--count" => {
                    let count = value.parse().ok().filter(|count| *count >= 1);
                    size.count =
                        count.ok_or_else(|| format!("--count takes a whole number from 1, not '{value}'"))?;
                }
                _ => return Err(format!("unknown option '{flag}'")),
            }
        }
        Ok(size)
    }

    /// A directory for the files of one run, gone with the value.
    pub(crate) fn directory(&self) -> std::io::Result<tempfile::TempDir> {
        tempfile::Builder::new().prefix("duroxide-bench").tempdir_in(&self.dir)
    }
}

//! Where a store lies: the text given to `SqliteProvider::new`, taken apart.

use std::path::PathBuf;

use duroxide_provider::OpenMode;

/// Where a store lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Location {
    /// In memory, private to the provider.
    Memory,
    /// In a file.
    File { path: PathBuf, missing: WhenMissing },
}

/// What happens when there is no file yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WhenMissing {
    Create,
    Refuse,
}

impl WhenMissing {
    /// What the URL says, unless the mode forbids to create.
    pub(super) fn in_mode(self, mode: OpenMode) -> Self {
        match mode {
            OpenMode::CreateOrMigrate => self,
            OpenMode::Migrate | OpenMode::AsIs => Self::Refuse,
        }
    }
}

impl Location {
    /// Takes `sqlite:path`, `sqlite://path`, either with `?mode=rwc` or `?mode=rw`, or `sqlite::memory:` apart.
    pub(super) fn parse(url: &str) -> Result<Self, String> {
        const FORM: &str = "write it as sqlite:path/to/file.db or sqlite::memory:";
        let rest = url
            .strip_prefix("sqlite:")
            .ok_or_else(|| format!("'{url}' does not begin with 'sqlite:': {FORM}"))?;
        let rest = rest.strip_prefix("//").unwrap_or(rest);
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut missing = WhenMissing::Create;
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            missing = match parameter {
                "mode=rwc" => WhenMissing::Create,
                "mode=rw" => WhenMissing::Refuse,
                other => {
                    return Err(format!(
                        "unknown parameter '{other}' in '{url}': only mode=rwc and mode=rw are known"
                    ));
                }
            };
        }
        if path == ":memory:" {
            return Ok(Self::Memory);
        }
        if path.trim().is_empty() {
            return Err(format!("'{url}' names no file: {FORM}"));
        }
        Ok(Self::File { path: PathBuf::from(path), missing })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, expected: Result<Location, &str>) {
        match (Location::parse(url), expected) {
            (Ok(location), Ok(expected)) => assert_eq!(location, expected, "{url}"),
            (Err(text), Err(part)) => assert!(text.contains(part), "{url}: {text}"),
            (got, expected) => panic!("{url}: got {got:?}, expected {expected:?}"),
        }
    }

    fn file(path: &str, missing: WhenMissing) -> Result<Location, &'static str> {
        Ok(Location::File { path: path.into(), missing })
    }

    #[test]
    fn every_written_form_is_understood() {
        check("sqlite:a.db", file("a.db", WhenMissing::Create));
        check("sqlite:/x/a.db?mode=rwc", file("/x/a.db", WhenMissing::Create));
        check("sqlite:/x/a.db?mode=rw", file("/x/a.db", WhenMissing::Refuse));
        check("sqlite://a.db", file("a.db", WhenMissing::Create));
        check("sqlite:///x/a.db", file("/x/a.db", WhenMissing::Create));
        check("sqlite::memory:", Ok(Location::Memory));
        check("sqlite://:memory:", Ok(Location::Memory));
    }

    #[test]
    fn what_is_wrong_is_named() {
        check("sqlite:", Err("names no file"));
        check("sqlite:?mode=rwc", Err("names no file"));
        check("a.db", Err("does not begin with 'sqlite:'"));
        check("sqlite:a.db?cache=shared", Err("unknown parameter 'cache=shared'"));
    }
}

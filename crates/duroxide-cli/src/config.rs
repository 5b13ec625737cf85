//! Which store is meant: the argument, a profile, the environment, the program's own, the default profile.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use crate::failure::{Exit, Failed};

/// The variable that names the store.
const STORE_VARIABLE: &str = "DUROXIDE_STORE";
/// The variable that names the configuration file.
const FILE_VARIABLE: &str = "DUROXIDE_CONFIG";

/// The configuration file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The profile that is used where none is named.
    pub(crate) default: Option<String>,
    #[serde(default)]
    pub(crate) profiles: BTreeMap<String, Profile>,
}

/// One profile.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    pub(crate) store: String,
}

/// What names a store.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub(crate) store: Option<String>,
    pub(crate) profile: Option<String>,
    /// The store of the program that these commands are a part of.
    pub(crate) of_program: Option<String>,
}

/// Where the configuration file is, if there can be one.
pub(crate) fn path() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let in_directory = |directory: PathBuf| directory.join("duroxide").join("config.toml");
    set(FILE_VARIABLE)
        .or_else(|| set("XDG_CONFIG_HOME").map(in_directory))
        .or_else(|| set("HOME").map(|home| in_directory(home.join(".config"))))
}

impl Config {
    /// The configuration; an empty one where there is no file.
    pub(crate) fn read() -> Result<Self, Failed> {
        let Some(path) = path() else { return Ok(Self::default()) };
        let wrong = |cause: String| Failed::new(Exit::Usage, format!("'{}': {cause}", path.display()));
        match std::fs::read_to_string(&path) {
            Ok(text) => toml::from_str(&text).map_err(|error| wrong(error.to_string())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(wrong(error.to_string())),
        }
    }

    fn profile(&self, name: &str) -> Result<String, Failed> {
        if let Some(profile) = self.profiles.get(name) {
            return Ok(profile.store.clone());
        }
        let known: Vec<&str> = self.profiles.keys().map(String::as_str).collect();
        let known = if known.is_empty() {
            "there are none".to_string()
        } else {
            format!("there are: {}", known.join(", "))
        };
        Err(Failed::usage(format!("no profile is called '{name}'; {known}")).help("duroxide config"))
    }
}

impl Asked {
    /// The URL of the store.
    pub(crate) fn url(&self) -> Result<String, Failed> {
        if let Some(store) = &self.store {
            return Ok(store.clone());
        }
        if let Some(name) = &self.profile {
            return Config::read()?.profile(name);
        }
        if let Some(store) = std::env::var(STORE_VARIABLE).ok().filter(|store| !store.is_empty()) {
            return Ok(store);
        }
        if let Some(store) = &self.of_program {
            return Ok(store.clone());
        }
        let config = Config::read()?;
        match &config.default {
            Some(name) => config.profile(name),
            None => Err(Failed::usage("no store is named")
                .help("--store sqlite:PATH, --store postgres://USER@HOST/DATABASE, or DUROXIDE_STORE in the environment")),
        }
    }
}

/// A URL without its password.
pub(crate) fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_string() };
    let authority = rest.find(['/', '?']).unwrap_or(rest.len());
    let Some(at) = rest[..authority].rfind('@') else { return url.to_string() };
    let user = rest[..at].split(':').next().unwrap_or_default();
    let password = if rest[..at].contains(':') { ":***" } else { "" };
    format!("{scheme}://{user}{password}{}", &rest[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        assert_eq!(without_password("postgres://a:secret@h:5432/d?x=y"), "postgres://a:***@h:5432/d?x=y");
        assert_eq!(without_password("postgres://a@h/d"), "postgres://a@h/d");
        assert_eq!(without_password("sqlite:a:b@c.db"), "sqlite:a:b@c.db");
    }
}

//! What cargo built, as it says itself: one line of JSON for each.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::stage::cargo;

/// Everything that can be run.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) programs: Vec<Program>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) path: PathBuf,
    /// The directory of its package, where its tests expect to run.
    pub(super) package: PathBuf,
    /// Its main file.
    pub(super) source: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A harness with tests in it.
    Tests,
    Example,
    /// Any other program.
    Plain,
}

impl Built {
    /// Calls `cargo build` with these arguments. What it complains about goes to the terminal.
    pub(super) fn by_cargo(root: &Path, arguments: &[&str]) -> Result<Self, String> {
        let mut command = cargo(root);
        command.arg("build").args(arguments).arg("--message-format=json-render-diagnostics");
        let child = command.stdout(Stdio::piped()).spawn();
        let output = child
            .and_then(std::process::Child::wait_with_output)
            .map_err(|cause| format!("{command:?} did not run: {cause}"))?;
        if !output.status.success() {
            return Err(format!("{command:?} ended with {}", output.status));
        }
        let text = String::from_utf8(output.stdout).map_err(|cause| format!("cargo's answer: {cause}"))?;
        Ok(Self { programs: text.lines().filter_map(program).collect() })
    }

    pub(super) fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Program> {
        self.programs.iter().filter(move |program| program.kind == kind)
    }

    /// The program of this name that is neither a test nor an example.
    pub(super) fn plain(&self, name: &str) -> Result<&Program, String> {
        let found = self.of_kind(Kind::Plain).find(|program| program.name == name);
        found.ok_or_else(|| format!("cargo built no program called {name}"))
    }
}

/// What can be run of what this line tells.
fn program(line: &str) -> Option<Program> {
    let path = text_of(line, "executable")?;
    let manifest = PathBuf::from(text_of(line, "manifest_path")?);
    let kind = if line.contains(r#""test":true},"features""#) {
        Kind::Tests
    } else if line.contains(r#""kind":["example"]"#) {
        Kind::Example
    } else {
        Kind::Plain
    };
    Some(Program {
        name: text_of(line, "name")?,
        kind,
        path: path.into(),
        package: manifest.parent()?.to_path_buf(),
        source: text_of(line, "src_path")?.into(),
    })
}

/// The first text with this key. A text that contains the key has backslashes before its quotes, so it is not found.
fn text_of(line: &str, key: &str) -> Option<String> {
    let (_, rest) = line.split_once(&format!("\"{key}\":\""))?;
    let mut text = String::new();
    let mut characters = rest.chars();
    loop {
        match characters.next()? {
            '"' => return Some(text),
            // Paths have no other escapes than those of quotes and backslashes.
            '\\' => text.push(characters.next()?),
            other => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line as cargo writes it, with these parts.
    fn line(kind: &str, name: &str, test: bool, executable: &str) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","package_id":"path+file:///w/k#1.1.0","manifest_path":"/w/k/Cargo.toml","target":{{"kind":["{kind}"],"crate_types":["bin"],"name":"{name}","src_path":"/w/k/src/{name}.rs","edition":"2024","doc":false,"doctest":false,"test":true}},"profile":{{"opt_level":"0","debuginfo":"line-tables-only","debug_assertions":true,"overflow_checks":true,"test":{test}}},"features":["a"],"filenames":["/t/x"],"executable":{executable},"fresh":true}}"#
        )
    }

    #[test]
    fn harnesses_examples_and_plain_programs_are_told_apart() {
        let kind = |kind, test| program(&line(kind, "x", test, r#""/t/x""#)).expect("a program").kind;
        assert_eq!(kind("test", true), Kind::Tests);
        assert_eq!(kind("lib", true), Kind::Tests);
        assert_eq!(kind("example", false), Kind::Example);
        assert_eq!(kind("bin", false), Kind::Plain);
    }

    #[test]
    fn a_program_has_its_name_and_places() {
        let found = program(&line("bin", "n", false, r#""/t/a \"b\"""#));
        let expected = Program {
            name: "n".into(),
            kind: Kind::Plain,
            path: "/t/a \"b\"".into(),
            package: "/w/k".into(),
            source: "/w/k/src/n.rs".into(),
        };
        assert_eq!(found, Some(expected));
    }

    #[test]
    fn libraries_and_other_messages_are_no_programs() {
        assert_eq!(program(&line("lib", "n", false, "null")), None);
        assert_eq!(program(r#"{"reason":"build-finished","success":true}"#), None);
        assert_eq!(program("a line of somebody else"), None);
    }
}

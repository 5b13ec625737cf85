//! `cargo xtask two-builds [COMMIT]`: nodes of an earlier build and of this one on one store, both killed again and
//! again. Nothing may fail, and every history must replay.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::postgres::TestServer;
use crate::say;
use crate::test_run::{cargo, finish};

/// The commit of the release before this one: 1.1.0. That of 1.0.0 is c8440cb6b6592219cde13b9788cf0728e0212c4b.
const PREVIOUS_RELEASE: &str = "e0b32cb2eb54ab319b49f88c41aa33921b7a3bd4";
/// The test that both builds are made of.
const TEST: &str = "previous_build";
/// The packages that have it, one for each store.
const PACKAGES: [&str; 2] = ["duroxide", "duroxide-postgres"];
/// Is there in a checkout whose build has the typed API.
const TYPED_API: &str = "crates/duroxide/src/app";
/// Tells the test that it is built without the typed API: its programs are then those by text.
const WITHOUT_TYPES: &str = "--cfg duroxide_without_types";
/// Names the binary of the other build to the test.
const OTHER_BUILD_VARIABLE: &str = "DUROXIDE_OTHER_BUILD";

/// Builds the earlier one, and runs the test of each store with it; whether both passed.
pub(crate) fn run(root: &Path, commit: Option<&str>) -> bool {
    let commit = commit.unwrap_or(PREVIOUS_RELEASE);
    let outcome = check_out(root, commit).and_then(|other| {
        let server = TestServer::start()?;
        for package in PACKAGES {
            say(&format!("\n=== {package}: this build and {commit}"));
            let binary = build(&other, package)?;
            let mut test = cargo(root);
            test.args(["test", "--all-features", "--package", package, "--test", TEST]);
            test.args(["two_builds_work_on_one_store", "--", "--nocapture"]);
            finish(test.env(OTHER_BUILD_VARIABLE, binary).envs(server.variable()))?;
        }
        Ok(())
    });
    if let Err(reason) = &outcome {
        say(reason);
    }
    outcome.is_ok()
}

/// Puts the sources of a commit below `target`, with the test as it is now; where they are.
fn check_out(root: &Path, commit: &str) -> Result<PathBuf, String> {
    let directory = root.join("target/two-builds").join(commit);
    let failed = |cause: std::io::Error| format!("{}: {cause}", directory.display());
    std::fs::create_dir_all(&directory).map_err(failed)?;
    let archive = directory.join("sources.tar");
    let mut git = Command::new("git");
    finish(git.current_dir(root).args(["archive", "--format=tar", "--output"]).arg(&archive).arg(commit))?;
    finish(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&directory))?;
    for package in PACKAGES {
        let tests = |root: &Path| root.join("crates").join(package).join("tests");
        let copied = tests(&directory).join(TEST);
        if copied.exists() {
            std::fs::remove_dir_all(&copied).map_err(failed)?;
        }
        let mut copy = Command::new("cp");
        finish(copy.arg("-r").arg(tests(root).join(TEST)).arg(tests(&directory)))?;
    }
    Ok(directory)
}

/// Builds the test of another checkout; where its binary is.
fn build(checkout: &Path, package: &str) -> Result<PathBuf, String> {
    let mut command = cargo(checkout);
    command.args(["test", "--no-run", "--all-features", "--package", package, "--test", TEST]);
    command
        .args(["--message-format", "json-render-diagnostics"])
        .env("CARGO_TARGET_DIR", checkout.join("target"));
    if !checkout.join(TYPED_API).exists() {
        command.env("RUSTFLAGS", WITHOUT_TYPES);
    }
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|cause| format!("{command:?} did not start: {cause}"))?;
    if !output.status.success() {
        return Err(format!("{command:?} ended with {}", output.status));
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    executable(&messages).ok_or_else(|| format!("{command:?} built no binary"))
}

/// The binary of the test in cargo's messages, each a line of JSON.
fn executable(messages: &str) -> Option<PathBuf> {
    const FIELD: &str = "\"executable\":\"";
    let name = format!("\"name\":\"{TEST}\"");
    let line = messages.lines().find(|line| line.contains(&name) && line.contains(FIELD))?;
    let (_, rest) = line.split_once(FIELD)?;
    let (path, _) = rest.split_once('"')?;
    Some(PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binary_is_found_in_the_messages_of_cargo() {
        let messages = "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"serde\"},\"executable\":null}\n\
             {\"target\":{\"kind\":[\"test\"],\"name\":\"previous_build\"},\"executable\":\"/a/b-1\",\"fresh\":true}\n";
        assert_eq!(executable(messages), Some(PathBuf::from("/a/b-1")));
        assert_eq!(executable("{\"reason\":\"build-finished\",\"success\":true}"), None);
    }
}

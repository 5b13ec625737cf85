//! Starts programs: in front or beside others, with their output shown or kept until they end.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::table::seconds;
use crate::say;

/// How much `nice` lowers the priority: to about a ninth of the share of what runs in front, when both want to compute.
const NICENESS: &str = "10";

/// How often to look whether a program with a limit has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = plain(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// A command without the variables by which cargo tells xtask what package it is. Some dependencies are built anew when
/// these change, and would be each time that somebody calls cargo without xtask.
pub(super) fn plain(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_of_package) {
            command.env_remove(name);
        }
    }
    command
}

fn is_of_package(variable: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|start| variable.starts_with(start))
}

/// Runs it to its end with its output shown. It must end well.
pub(crate) fn finish(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|cause| format!("{command:?} did not start: {cause}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} ended with {status}")) }
}

/// The same, stopped when it takes longer than this.
fn finish_within(command: &mut Command, limit: Duration) -> Result<(), String> {
    let mut child = command.spawn().map_err(|cause| format!("{command:?} did not start: {cause}"))?;
    let started = Instant::now();
    loop {
        match child.try_wait().map_err(|cause| format!("{command:?} cannot be waited for: {cause}"))? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("{command:?} ended with {status}")),
            None if started.elapsed() < limit => std::thread::sleep(POLL_INTERVAL),
            None => {
                let stopped = child.kill().and_then(|()| child.wait());
                let limit = seconds(limit);
                return Err(format!("{command:?} did not end within {limit}; stopping it: {stopped:?}"));
            }
        }
    }
}

/// Where output goes.
#[derive(Clone, Copy)]
pub(super) enum Output {
    /// To the terminal, as it comes.
    Shown,
    /// Into a file, and to the terminal in one piece at the end: something else is writing there.
    Kept,
}

#[derive(Clone, Copy)]
pub(super) enum Priority {
    Normal,
    Low,
}

/// Where the programs of one part run.
#[derive(Clone, Copy)]
pub(super) struct Stage<'run> {
    pub(super) root: &'run Path,
    /// The part.
    pub(super) name: &'run str,
    pub(super) output: Output,
    pub(super) priority: Priority,
}

impl Stage<'_> {
    /// Runs it to its end. It must end well.
    pub(super) fn finish(&self, command: &mut Command) -> Result<(), String> {
        self.finish_as(self.name, command)
    }

    /// The same with a heading of its own.
    pub(super) fn finish_as(&self, heading: &str, command: &mut Command) -> Result<(), String> {
        self.finish_by(heading, command, finish)
    }

    /// The same, stopped when it takes longer than this.
    pub(super) fn finish_within(
        &self,
        limit: Duration,
        heading: &str,
        command: &mut Command,
    ) -> Result<(), String> {
        self.finish_by(heading, command, |command| finish_within(command, limit))
    }

    fn finish_by(
        &self,
        heading: &str,
        command: &mut Command,
        finish: impl FnOnce(&mut Command) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut lowered;
        let command = match self.priority {
            Priority::Normal => command,
            Priority::Low => {
                lowered = at_low_priority(command);
                &mut lowered
            }
        };
        match self.output {
            Output::Shown => {
                say(&format!("\n=== {heading}"));
                finish(command)
            }
            Output::Kept => self.finish_kept(heading, command, finish),
        }
    }

    fn finish_kept(
        &self,
        heading: &str,
        command: &mut Command,
        finish: impl FnOnce(&mut Command) -> Result<(), String>,
    ) -> Result<(), String> {
        let path = self.log(heading)?;
        let failed = |cause: std::io::Error| format!("{}: {cause}", path.display());
        let file = File::create(&path).map_err(failed)?;
        command.stdin(Stdio::null()).stdout(file.try_clone().map_err(failed)?).stderr(file);
        let outcome = finish(command);
        let text = std::fs::read(&path).map_err(failed)?;
        say(&format!("\n=== {heading}\n{}", String::from_utf8_lossy(&text).trim_end()));
        outcome.map_err(|reason| format!("{reason}; its output is above and in {}", path.display()))
    }

    /// The file for what is written under this heading.
    fn log(&self, heading: &str) -> Result<PathBuf, String> {
        let directory = self.root.join("target/test-output");
        std::fs::create_dir_all(&directory).map_err(|cause| format!("{}: {cause}", directory.display()))?;
        let plain = |character: char| if character.is_ascii_alphanumeric() { character } else { '-' };
        Ok(directory.join(heading.chars().map(plain).collect::<String>() + ".txt"))
    }
}

/// The same command, started through `nice`; on a system without it, just the same command.
fn at_low_priority(command: &Command) -> Command {
    let is_there = Command::new("nice").stdout(Stdio::null()).status().is_ok_and(|status| status.success());
    let mut lowered = if is_there {
        let mut nice = Command::new("nice");
        nice.args(["-n", NICENESS]).arg(command.get_program());
        nice
    } else {
        Command::new(command.get_program())
    };
    lowered.args(command.get_args());
    if let Some(directory) = command.get_current_dir() {
        lowered.current_dir(directory);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => lowered.env(name, value),
            None => lowered.env_remove(name),
        };
    }
    lowered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_keeps_its_arguments_place_and_variables_at_low_priority() {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            r#"test "$(pwd)" = / && test "$WORD" = word && test "$0" = argument"#,
            "argument",
        ]);
        command.current_dir("/").env("WORD", "word");
        assert_eq!(finish(&mut at_low_priority(&command)), Ok(()));
        command.env("WORD", "another");
        assert!(finish(&mut at_low_priority(&command)).is_err());
    }

    #[test]
    fn cargo_is_not_told_about_the_package_of_xtask() {
        // These tests are started by cargo as well, so the variables are there.
        assert!(std::env::vars().any(|(name, _)| is_of_package(&name)), "cargo sets them");
        let told = plain("env").output().expect("runs").stdout;
        let told = String::from_utf8(told).expect("text");
        assert!(told.contains("PATH=") && !told.lines().any(is_of_package), "{told}");
    }

    #[test]
    fn what_does_not_end_is_stopped() {
        let stopped = finish_within(Command::new("sleep").arg("600"), Duration::from_millis(50));
        assert!(stopped.expect_err("stopped").contains("did not end within 0.1 s"));
        assert_eq!(finish_within(&mut Command::new("true"), Duration::from_secs(600)), Ok(()));
        assert!(finish_within(&mut Command::new("false"), Duration::from_secs(600)).is_err());
    }

    #[test]
    fn what_fails_beside_others_says_where_its_output_is() {
        let root = std::env::temp_dir().join(format!("xtask-stage-{}", std::process::id()));
        let stage = Stage { root: &root, name: "a part", output: Output::Kept, priority: Priority::Normal };
        let mut command = Command::new("sh");
        let failed = stage.finish(command.args(["-c", "echo out; echo err >&2; exit 3"])).expect_err("fails");
        let kept = root.join("target/test-output/a-part.txt");
        let text = std::fs::read_to_string(&kept).expect("kept");
        std::fs::remove_dir_all(&root).expect("removed");
        assert_eq!(text, "out\nerr\n");
        assert!(failed.contains("exit status: 3") && failed.ends_with("a-part.txt"), "{failed}");
    }
}

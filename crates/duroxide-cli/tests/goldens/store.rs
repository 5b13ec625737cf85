//! The store of known content, and running a command on it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use duroxide::prelude::*;
use duroxide::{Builder, RuntimeOptions, open_store};
use expect_test::Expect;

/// An id that a terminal must not be given as it is.
pub(crate) const HOSTILE: &str = "it's \"quoted\"\nand \u{1b}[31mred";

const APPROVED: EventName<String> = EventName::new("approved");

async fn charge(_ctx: ActivityContext, cents: u64) -> Result<u64> {
    Ok(cents)
}

async fn order(ctx: OrchestrationContext, kind: String) -> Result<u64> {
    ctx.set_kv_value("kind", kind.clone());
    if let Some(number) = kind.strip_prefix("refused ") {
        return Err(format!("card 'visa-{number}' was refused after {number} s").into());
    }
    match kind.as_str() {
        "waits" => {
            ctx.set_custom_status("waiting for approval");
            ctx.wait(APPROVED).await;
        }
        "ships" => return Ok(ctx.child(ship, 7).with_id("ship-7").await?),
        _ => {}
    }
    Ok(ctx.call(charge, 250).await?)
}

async fn ship(ctx: OrchestrationContext, number: u64) -> Result<u64> {
    Ok(ctx.call(charge, number).await?)
}

pub(crate) fn program(url: &str) -> Builder {
    Duroxide::builder(url)
        .discover(false)
        .activity("Charge", charge)
        .orchestration("Order", order)
        .orchestration("Ship", ship)
}

/// A directory with the store in it.
pub(crate) struct Place {
    directory: tempfile::TempDir,
}

static BUILT: LazyLock<Place> = LazyLock::new(|| {
    // A test may be inside a runtime of its own.
    std::thread::spawn(|| tokio::runtime::Runtime::new().unwrap().block_on(build())).join().unwrap()
});

async fn build() -> Place {
    let place = Place::empty();
    drop(open_store(&place.url()).await.unwrap());
    let options = RuntimeOptions { worker_node_id: Some("node-1".to_string()), ..Default::default() };
    let app = program(&place.url()).options(options).start().await.unwrap();
    let orders = [
        ("order-1", "plain"),
        ("order-2", "ships"),
        ("order-3", "refused 17"),
        ("order-4", "refused 4"),
        ("with space", "waits"),
        (HOSTILE, "waits"),
    ];
    for (id, kind) in orders {
        let run = app.start(order, id, kind.to_string()).await.unwrap();
        match kind {
            "waits" => {
                let waiting =
                    app.client().wait_for_status_change(id, 0, Duration::from_millis(5), LONG).await;
                waiting.unwrap();
            }
            _ => drop(run.result_within(LONG).await),
        }
    }
    app.shutdown().await.unwrap();
    place
}

const LONG: Duration = Duration::from_secs(60);

impl Place {
    pub(crate) fn empty() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    /// The store of known content, which nothing may change.
    pub(crate) fn known() -> &'static Self {
        &BUILT
    }

    /// A copy of it.
    pub(crate) fn copy() -> Self {
        let place = Self::empty();
        std::fs::copy(Self::known().path(), place.path()).unwrap();
        place
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("store.db")
    }

    pub(crate) fn url(&self) -> String {
        format!("sqlite:{}", self.path().display())
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Runs a command on the store.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with_input(arguments, "")
    }

    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &str) -> Ran {
        let url = self.url();
        self.run_plain(&[&["--store", &url], arguments].concat(), input)
    }

    /// Runs a command without naming a store.
    pub(crate) fn run_plain(&self, arguments: &[&str], input: &str) -> Ran {
        let mut child = Command::new(env!("CARGO_BIN_EXE_duroxide"))
            .args(arguments)
            .env("TZ", "UTC")
            .env("DUROXIDE_CONFIG", self.directory.path().join("config.toml"))
            .env_remove("DUROXIDE_STORE")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        Ran {
            exit: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            directory: self.directory.path().display().to_string(),
        }
    }
}

/// What a command did.
pub(crate) struct Ran {
    pub(crate) exit: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    directory: String,
}

impl Ran {
    /// Compares the exit code and both outputs, without what differs in every run.
    #[track_caller]
    pub(crate) fn check(&self, expected: &Expect) {
        let text = format!("exit {}\n{}--\n{}", self.exit, self.stdout, self.stderr);
        assert!(!text.contains('\u{1b}'), "nothing of the store reaches the terminal as it is: {text:?}");
        expected.assert_eq(&without_times(&text.replace(&self.directory, "[DIR]")));
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap()
    }
}

/// The text with every time replaced, also one in ms since the epoch and how long the oldest of something waits.
fn without_times(text: &str) -> String {
    const EPOCH_MS: usize = 13;
    const PATTERN: &str = "dddd-dd-dd dd:dd:dd";
    let mut result = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let fits = rest.len() >= PATTERN.len()
            && rest.bytes().zip(PATTERN.bytes()).all(|(byte, pattern)| match pattern {
                b'd' => byte.is_ascii_digit(),
                b' ' => byte == b' ' || byte == b'T',
                other => byte == other,
            });
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits == EPOCH_MS {
            result.push_str("MS");
            rest = &rest[EPOCH_MS..];
        } else if fits {
            result.push_str("YYYY-MM-DD hh:mm:ss");
            rest = &rest[PATTERN.len()..];
        } else {
            result.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    result
}

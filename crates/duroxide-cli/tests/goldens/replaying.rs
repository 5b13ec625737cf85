//! Live histories against the handlers of a build.

use std::ffi::OsString;
use std::process::ExitCode;

use duroxide::prelude::*;
use duroxide_cli::Cli;

use crate::store::{Place, program};

/// Waits for another event than the store's program did.
async fn changed(ctx: OrchestrationContext, _kind: String) -> Result<u64> {
    ctx.set_kv_value("kind", "waits");
    ctx.wait(EventName::<String>::new("other")).await;
    Ok(0)
}

async fn replay(cli: Cli, place: &Place) -> ExitCode {
    let words = ["admin", "--store", &place.url(), "replay", "--running"].map(OsString::from);
    cli.run_from(words).await
}

/// An exit code has no comparison; its text has.
fn is(code: ExitCode, expected: u8) -> bool {
    format!("{code:?}") == format!("{:?}", ExitCode::from(expected))
}

#[tokio::test]
async fn a_build_that_fits_replays_every_live_history() {
    let place = Place::copy();
    let before = std::fs::read(place.path()).unwrap();
    assert!(is(replay(Cli::with(program("sqlite::memory:")), &place).await, 0));
    assert_eq!(std::fs::read(place.path()).unwrap(), before, "a replay changes nothing");
}

#[tokio::test]
async fn a_build_that_does_something_else_is_told() {
    let other = Duroxide::builder("sqlite::memory:").discover(false).orchestration("Order", changed);
    assert!(is(replay(Cli::with(other), &Place::copy()).await, 5));
    let none = Duroxide::builder("sqlite::memory:").discover(false);
    assert!(is(replay(Cli::with(none), &Place::copy()).await, 5));
}

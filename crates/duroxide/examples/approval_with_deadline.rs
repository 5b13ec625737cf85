//! Waiting for a person, but not forever: an event races a timer, and both ways to end are shown.
//!
//! Run it with `cargo run -p duroxide --example approval_with_deadline`.

use duroxide::prelude::*;

/// Carries the name of the person who approves.
const DECISION: EventName<String> = EventName::new("decision");

/// Waits for a decision, at most as long as the input says.
#[duroxide::orchestration]
async fn approval(ctx: OrchestrationContext, deadline: Duration) -> Result<String> {
    // The deadline is stored. It passes at the same moment even if every process restarts meanwhile.
    match ctx.timeout(deadline, ctx.wait(DECISION)).await {
        // The timer is cancelled: it does not stay behind.
        Ok(person) => Ok(format!("approved by {person}")),
        Err(Elapsed { .. }) => Ok("expired".to_string()),
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let app = Duroxide::open("sqlite::memory:").await?;

    say("approval-1 has a minute, and Ada decides at once");
    let run = app.start(approval, "approval-1", Duration::from_secs(60)).await?;
    let outcome = run.raise(DECISION, &"Ada".to_string()).await?;
    assert_eq!(outcome, SendOutcome::Delivered, "the instance can receive it");
    let approved = run.result().await?;
    say(&format!("approval-1: {approved}"));

    say("approval-2 has 300 ms, and no decision comes");
    let expired = app.run(approval, "approval-2", Duration::from_millis(300)).await?;
    say(&format!("approval-2: {expired}"));

    app.shutdown().await?;
    let as_expected = approved == "approved by Ada" && expired == "expired";
    if as_expected { Ok(()) } else { Err("an approval ended unexpectedly".into()) }
}

#[expect(clippy::print_stdout, reason = "an example shows what happens")]
fn say(line: &str) {
    println!("{line}");
}

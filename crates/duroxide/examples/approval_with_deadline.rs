//! Waiting for a person, but not forever: an event races a timer, and both ways to end are shown.
//!
//! Run it with `cargo run -p duroxide --example approval_with_deadline`.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{Client, Either2, OrchestrationContext, OrchestrationRegistry};

/// Waits for the event `decision`, at most as long as the input says.
async fn approval(ctx: OrchestrationContext, deadline_ms: u64) -> Result<String, String> {
    let decision = ctx.schedule_wait("decision");
    // The deadline is stored. It passes at the same moment even if every process restarts meanwhile.
    let deadline = ctx.schedule_timer(Duration::from_millis(deadline_ms));
    match ctx.select2(decision, deadline).await {
        // The loser is dropped, which cancels it: no timer stays behind.
        Either2::First(who) => Ok(format!("approved by {who}")),
        Either2::Second(()) => Ok("expired".to_string()),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let orchestrations = OrchestrationRegistry::builder().register_typed("Approval", approval).build();
    let store = Arc::new(SqliteProvider::new_in_memory().await?);
    let runtime = Runtime::start_with_store(store.clone(), ActivityRegistry::default(), orchestrations).await;
    let client = Client::new(store);

    say("approval-1 has a minute, and somebody decides at once");
    client.start_orchestration_typed("approval-1", "Approval", 60_000_u64).await?;
    client.raise_event("approval-1", "decision", "Ada").await?;
    let approved: String =
        client.wait_for_orchestration_typed("approval-1", Duration::from_secs(30)).await??;
    say(&format!("approval-1: {approved}"));

    say("approval-2 has 300 ms, and nobody decides");
    client.start_orchestration_typed("approval-2", "Approval", 300_u64).await?;
    let expired: String =
        client.wait_for_orchestration_typed("approval-2", Duration::from_secs(30)).await??;
    say(&format!("approval-2: {expired}"));

    runtime.shutdown(None).await;
    let as_expected = approved == "approved by Ada" && expired == "expired";
    if as_expected { Ok(()) } else { Err("an approval ended unexpectedly".into()) }
}

#[expect(clippy::print_stdout, reason = "an example shows what happens")]
fn say(line: &str) {
    println!("{line}");
}

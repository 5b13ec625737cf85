//! An orchestration that never ends, and a runtime that removes old executions and finished instances.
//!
//! Run it with `cargo run -p duroxide --example eternal_with_retention`.

use duroxide::InstanceQuery;
use duroxide::prelude::*;
use duroxide::runtime::RetentionPolicy;
use tokio::sync::mpsc;

/// How many executions there are before the program has seen enough.
const ROUNDS: u64 = 50;

/// Tells the program which round it is.
struct Looked(mpsc::Sender<u64>);

#[duroxide::activity]
async fn look(ctx: ActivityContext, round: u64) -> Result<()> {
    Ok(ctx.state::<Looked>().0.send(round).await?)
}

/// Looks at something, waits, and begins again with an empty history.
#[duroxide::orchestration]
async fn watch(ctx: OrchestrationContext, round: u64) -> Result<()> {
    ctx.call(look, round).await?;
    ctx.sleep(Duration::from_millis(5)).await;
    ctx.continue_as(watch, round + 1).await
}

#[tokio::main]
async fn main() -> Result<()> {
    let (looked, mut looks) = mpsc::channel(1);
    let options = RuntimeOptions {
        retention: Some(RetentionPolicy {
            finished_older_than: Some(Duration::from_millis(100)),
            keep_executions: Some(3),
            // Once a minute is enough for most; here it must show within a second.
            interval: Duration::from_millis(20),
        }),
        ..RuntimeOptions::default()
    };
    let app = Duroxide::builder("sqlite::memory:").state(Looked(looked)).options(options).start().await?;
    let run = app.start(watch, "watch", 1).await?;

    while looks.recv().await.is_some_and(|round| round < ROUNDS) {}
    let kept = app.client().list_executions("watch").await?;
    say(&format!("after {ROUNDS} executions these are kept: {kept:?}"));
    assert!(kept.len() < 20, "retention removes the old ones");

    let outcome = run.cancel("seen enough").await?;
    assert_eq!(outcome, SendOutcome::Delivered, "it runs");
    let ended = run.result().await;
    assert!(matches!(ended, Err(RunError::Call(CallError::Cancelled { .. }))), "{ended:?}");
    // Finished instances go as well, once they are old enough.
    while !app.client().list_instances_page(&InstanceQuery::default()).await?.instances.is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    say("and now the instance is gone");
    app.shutdown().await
}

#[expect(clippy::print_stdout, reason = "an example shows what happens")]
fn say(line: &str) {
    println!("{line}");
}

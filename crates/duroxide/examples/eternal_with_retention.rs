//! An orchestration that never ends, and a runtime that removes what nobody needs any more.
//!
//! Run it with `cargo run -p duroxide --example eternal_with_retention`.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{RetentionPolicy, Runtime};
use duroxide::{ActivityContext, InstanceQuery, OrchestrationContext, OrchestrationRegistry, RuntimeOptions};

/// How many old executions there may be before the program has seen enough.
const ROUNDS: u64 = 50;

/// Looks at something, waits, and begins again with an empty history.
async fn watch(ctx: OrchestrationContext, round: u64) -> Result<u64, String> {
    ctx.schedule_activity_typed::<_, ()>("Look", &round).await?;
    ctx.schedule_timer(Duration::from_millis(5)).await;
    ctx.continue_as_new_typed(&(round + 1)).await?;
    Ok(round)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (looked, mut looks) = tokio::sync::mpsc::channel(1);
    let activities = ActivityRegistry::builder()
        .register_typed("Look", move |_ctx: ActivityContext, round: u64| {
            let looked = looked.clone();
            async move { looked.send(round).await.map_err(|error| error.to_string()) }
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder().register_typed("Watch", watch).build();
    let options = RuntimeOptions {
        retention: Some(RetentionPolicy {
            finished_older_than: Some(Duration::from_millis(100)),
            keep_executions: Some(3),
            // Once a minute is enough for most; here it must show within a second.
            interval: Duration::from_millis(20),
        }),
        ..RuntimeOptions::default()
    };
    let store = Arc::new(SqliteProvider::new_in_memory().await?);
    let runtime = Runtime::start_with_options(store, activities, orchestrations, options).await;
    let client = runtime.client();
    client.start_orchestration_typed("watch", "Watch", 1_u64).await?;

    while looks.recv().await.is_some_and(|round| round < ROUNDS) {}
    let kept = client.list_executions("watch").await?;
    say(&format!("after {ROUNDS} executions these are kept: {kept:?}"));
    assert!(kept.len() < 20, "retention removes the old ones");

    client.cancel_instance("watch", "seen enough").await?;
    client.wait_for_orchestration("watch", Duration::from_secs(10)).await?;
    // Finished instances go as well, once they are old enough.
    while !client.list_instances_page(&InstanceQuery::default()).await?.instances.is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    say("and now the instance is gone");
    runtime.shutdown(None).await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what happens")]
fn say(line: &str) {
    println!("{line}");
}

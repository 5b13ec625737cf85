//! Progress: a long activity records how far it is, and the attempt after an interruption goes on from there.
//!
//! Run it with `cargo run -p duroxide --example progress`.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use tokio::sync::Notify;

const ROWS: u64 = 100;

async fn export(ctx: OrchestrationContext, table: String) -> Result<String, String> {
    ctx.schedule_activity("Copy", table).await
}

/// Counts the rows that were copied, by all attempts together.
#[derive(Default)]
struct Copied {
    rows: AtomicU64,
    half: Notify,
}

async fn copy(ctx: ActivityContext, table: String, copied: Arc<Copied>) -> Result<String, String> {
    let done: u64 = ctx.last_progress().and_then(|row| row.parse().ok()).unwrap_or(0);
    for row in done..ROWS {
        copied.rows.fetch_add(1, Ordering::SeqCst);
        // What was recorded is not done again. An error means that nobody waits any more, or that the store failed.
        ctx.heartbeat((row + 1).to_string()).await.map_err(|error| error.to_string())?;
        if row + 1 == ROWS / 2 && done == 0 {
            copied.half.notify_one();
            ctx.cancelled().await;
            return Err("interrupted".to_string());
        }
    }
    Ok(format!("{table}: {ROWS} rows, the last attempt began at row {done}"))
}

async fn node(store: Arc<SqliteProvider>, copied: Arc<Copied>) -> Arc<Runtime> {
    let activities = ActivityRegistry::builder()
        .register("Copy", move |ctx: ActivityContext, table: String| copy(ctx, table, copied.clone()))
        .build();
    let orchestrations = OrchestrationRegistry::builder().register("Export", export).build();
    Runtime::start_with_store(store, activities, orchestrations).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = Arc::new(SqliteProvider::new_in_memory().await?);
    let copied = Arc::new(Copied::default());
    let first = node(store.clone(), copied.clone()).await;
    let client = Client::new(store.clone());
    client.start_orchestration("export-1", "Export", "orders").await?;

    copied.half.notified().await;
    say("half is copied; the node is shut down in the middle of the activity");
    first.shutdown(Some(0)).await;

    let second = node(store, copied.clone()).await;
    let result: String = client.wait_for_orchestration_typed("export-1", Duration::from_secs(30)).await??;
    say(&result);
    second.shutdown(None).await;
    if copied.rows.load(Ordering::SeqCst) == ROWS { Ok(()) } else { Err("rows were copied twice".into()) }
}

#[expect(clippy::print_stdout, reason = "an example shows what happens")]
fn say(line: &str) {
    println!("{line}");
}

//! Progress: a long activity records how far it is, and the attempt after an interruption goes on from there.
//!
//! Run it with `cargo run -p duroxide --example progress`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use duroxide::Builder;
use duroxide::prelude::*;
use duroxide::providers::Provider;
use tokio::sync::Notify;

const ROWS: u64 = 100;

/// Counts the rows that were copied, by all attempts together.
#[derive(Default)]
struct Copied {
    rows: AtomicU64,
    half: Notify,
}

#[duroxide::activity]
async fn copy(ctx: ActivityContext, table: String) -> Result<String> {
    let copied = ctx.state::<Arc<Copied>>();
    let done: u64 = ctx.last_progress().and_then(|row| row.parse().ok()).unwrap_or(0);
    for row in done..ROWS {
        copied.rows.fetch_add(1, Ordering::SeqCst);
        // What was recorded is not done again. An error means that the result is not wanted any more, or that the store failed.
        ctx.heartbeat((row + 1).to_string()).await?;
        if row + 1 == ROWS / 2 && done == 0 {
            copied.half.notify_one();
            ctx.cancelled().await;
            return Err("interrupted".into());
        }
    }
    Ok(format!("{table}: {ROWS} rows, the last attempt began at row {done}"))
}

#[duroxide::orchestration]
async fn export(ctx: OrchestrationContext, table: String) -> Result<String> {
    Ok(ctx.call(copy, table).await?)
}

async fn node(store: Arc<dyn Provider>, copied: Arc<Copied>) -> Result<Duroxide, OpenError> {
    Builder::on_store(store).state(copied).start().await
}

#[tokio::main]
async fn main() -> Result<()> {
    let store = duroxide::open_store("sqlite::memory:").await?;
    let copied = Arc::new(Copied::default());
    let first = node(store.clone(), copied.clone()).await?;
    first.start(export, "export-1", "orders".to_string()).await?;

    copied.half.notified().await;
    say("half is copied; the node is shut down in the middle of the activity");
    if let Some(runtime) = first.runtime() {
        runtime.clone().shutdown(Some(0)).await;
    }

    let second = node(store, copied.clone()).await?;
    say(&second.handle(export, "export-1").result().await?);
    second.shutdown().await?;
    if copied.rows.load(Ordering::SeqCst) == ROWS { Ok(()) } else { Err("rows were copied twice".into()) }
}

#[expect(clippy::print_stdout, reason = "an example shows what happens")]
fn say(line: &str) {
    println!("{line}");
}

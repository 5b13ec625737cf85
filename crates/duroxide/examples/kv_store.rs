//! A counter in the KV store of an instance: it survives continue-as, and a client waits for it.
//!
//! Run it with `cargo run -p duroxide --example kv_store`.

use duroxide::prelude::*;

#[duroxide::orchestration]
async fn count(ctx: OrchestrationContext, rounds: u64) -> Result<u64> {
    let counted = ctx.get_kv_value_typed::<u64>("count")?.unwrap_or(0) + 1;
    ctx.set_kv_value_typed("count", &counted);
    ctx.set_custom_status(format!("counted {counted}"));
    if counted < rounds {
        return ctx.continue_as(count, rounds).await;
    }
    ctx.set_kv_value("done", "yes");
    Ok(counted)
}

#[tokio::main]
async fn main() -> Result<()> {
    let app = Duroxide::open("sqlite::memory:").await?;
    let run = app.start(count, "counter", 3).await?;
    let client = app.client();
    assert_eq!(client.wait_for_kv_value("counter", "done", Duration::from_secs(10)).await?, "yes");
    assert_eq!(client.get_kv_value_typed::<u64>("counter", "count").await?, Some(3));
    assert_eq!(run.result().await?, 3);
    app.shutdown().await
}

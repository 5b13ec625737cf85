//! A counter in the KV store of an instance: it survives continue-as-new, and a client waits for it.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{Client, OrchestrationContext, OrchestrationRegistry};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Count", |ctx: OrchestrationContext, _input: String| async move {
            let count: u64 = ctx.get_kv_value_typed("count")?.unwrap_or(0);
            ctx.set_kv_value_typed("count", &(count + 1));
            ctx.set_custom_status(format!("counted {}", count + 1));
            if count < 2 {
                ctx.continue_as_new("").await?;
            }
            ctx.set_kv_value("done", "yes");
            Ok(String::new())
        })
        .build();
    let store = Arc::new(SqliteProvider::new_in_memory().await?);
    let activities = ActivityRegistry::builder().build();
    let runtime = Runtime::start_with_store(store.clone(), activities, orchestrations).await;
    let client = Client::new(store);
    client.start_orchestration("counter", "Count", "").await?;
    assert_eq!(client.wait_for_kv_value("counter", "done", Duration::from_secs(10)).await?, "yes");
    assert_eq!(client.get_kv_value_typed::<u64>("counter", "count").await?, Some(3));
    runtime.shutdown(None).await;
    Ok(())
}

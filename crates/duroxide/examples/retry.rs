//! An activity that fails twice is tried again, with every attempt and delay in the history.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, BackoffStrategy, Client, OrchestrationContext, OrchestrationRegistry, RetryPolicy,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runs = Arc::new(AtomicU32::new(0));
    let activities = ActivityRegistry::builder()
        .register("Charge", move |_ctx: ActivityContext, amount: String| {
            let run = runs.fetch_add(1, Ordering::SeqCst) + 1;
            async move {
                if run < 3 { Err("the bank is busy".to_string()) } else { Ok(format!("charged {amount}")) }
            }
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("Order", |ctx: OrchestrationContext, amount: String| async move {
            let policy = RetryPolicy::new(5)
                .with_timeout(Duration::from_secs(30))
                .with_backoff(BackoffStrategy::Fixed { delay: Duration::from_millis(50) });
            ctx.schedule_activity_with_retry("Charge", amount, policy).await
        })
        .build();
    let store = Arc::new(SqliteProvider::new_in_memory().await?);
    let runtime = Runtime::start_with_store(store.clone(), activities, orchestrations).await;
    let client = Client::new(store);
    client.start_orchestration("order-1", "Order", "42").await?;
    let output = client.wait_for_orchestration_typed::<String>("order-1", Duration::from_secs(10)).await??;
    assert_eq!(output, "charged 42");
    runtime.shutdown(None).await;
    Ok(())
}

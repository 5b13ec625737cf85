//! A first program on every store: start, activity, timer, event, child, continue-as-new, done.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::memory::MemoryProvider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, Client, Either2, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
};

fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Greet", |_ctx: ActivityContext, name: String| async move { Ok(format!("hello {name}")) })
        .build()
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Child", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_activity("Greet", input).await
        })
        .register("Everything", |ctx: OrchestrationContext, input: String| async move {
            if input == "again" {
                let left = ctx.dequeue_event("q").await;
                return Ok(format!("second execution read {left}"));
            }
            let greeting = ctx.schedule_activity("Greet", input).await?;
            ctx.schedule_timer(Duration::from_millis(5)).await;
            let child = ctx.schedule_sub_orchestration("Child", "child").await?;
            let event =
                match ctx.select2(ctx.schedule_wait("go"), ctx.schedule_timer(Duration::from_secs(60))).await
                {
                    Either2::First(data) => data,
                    Either2::Second(()) => return Err("no event".to_string()),
                };
            assert_eq!(
                (greeting.as_str(), child.as_str(), event.as_str()),
                ("hello you", "hello child", "now")
            );
            ctx.continue_as_new("again").await
        })
        .build()
}

#[tokio::test]
async fn a_program_that_uses_everything_finishes_in_memory() {
    let provider = Arc::new(MemoryProvider::new());
    let runtime = Runtime::start_with_store(provider.clone(), activities(), orchestrations()).await;
    let client = Client::new(provider);
    client.enqueue_event("one", "q", "early").await.expect("an early message is kept");
    client.start_orchestration("one", "Everything", "you").await.expect("start");
    client.raise_event("one", "go", "now").await.expect("raise");
    let status = client.wait_for_orchestration("one", Duration::from_secs(10)).await.expect("wait");
    let OrchestrationStatus::Completed { output, .. } = status else { panic!("{status:?}") };
    assert_eq!(output, "second execution read early");
    runtime.shutdown(None).await;
}

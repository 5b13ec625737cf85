//! Activities that end only if all of them run at the same time, again after their process was killed.

use std::sync::Arc;
use std::time::Duration;

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
use tokio::sync::Barrier;

/// More than a process would run one by one in the time that the test allows.
const TOGETHER: usize = 40;
/// Completes when all of them have begun for the first time.
const BEGUN: &str = "all have begun";

pub(crate) fn activities() -> ActivityRegistry {
    let barrier = Arc::new(Barrier::new(TOGETHER));
    ActivityRegistry::builder()
        .register("Together", move |ctx: ActivityContext, _input: String| {
            let barrier = barrier.clone();
            async move {
                let met = barrier.wait().await;
                if ctx.attempt() > 1 {
                    return Ok("done".to_string());
                }
                if met.is_leader() {
                    ctx.get_client()
                        .start_orchestration(BEGUN, "Begun", "")
                        .await
                        .map_err(|e| e.to_string())?;
                }
                // Until the process is killed.
                std::future::pending().await
            }
        })
        .build()
}

pub(crate) fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Together", |ctx: OrchestrationContext, _input: String| async move {
            ctx.schedule_activity("Together", "").await
        })
        .register("Begun", |_ctx: OrchestrationContext, _input: String| async move { Ok(String::new()) })
        .build()
}

/// Starts all of them and waits until they run.
pub(crate) async fn begin(client: &Client) {
    for n in 0..TOGETHER {
        client.start_orchestration(format!("together-{n}"), "Together", "").await.expect("start");
    }
    client.wait_for_orchestration(BEGUN, Duration::from_secs(60)).await.expect("all of them begin");
}

/// Waits until all of them have ended.
pub(crate) async fn end(client: &Client) {
    for n in 0..TOGETHER {
        let status = client.wait_for_orchestration(&format!("together-{n}"), Duration::from_secs(60)).await;
        let status = status.expect("all of them run again at the same time");
        assert!(matches!(status, OrchestrationStatus::Completed { .. }), "{n}: {status:?}");
    }
}

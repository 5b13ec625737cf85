//! Healthy work beside one activity, or one orchestration, that aborts the process: that one is poisoned alone.

use std::time::Duration;

use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, ErrorDetails, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
    PoisonMessageType,
};

use crate::child;

const JOB: &str = "killer::worker_process";
/// The default.
const MAX_ATTEMPTS: u32 = 10;

fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Healthy", |_ctx: ActivityContext, _input: String| async move {
            tokio::time::sleep(Duration::from_millis(25)).await;
            Ok("well".to_string())
        })
        .register("Killer", |_ctx: ActivityContext, _input: String| async move {
            // Long enough for neighbours to be in progress when it strikes.
            tokio::time::sleep(Duration::from_millis(10)).await;
            std::process::abort()
        })
        .build()
}

fn orchestrations() -> OrchestrationRegistry {
    let call = |name: &'static str| {
        move |ctx: OrchestrationContext, _input: String| async move { ctx.schedule_activity(name, "").await }
    };
    OrchestrationRegistry::builder()
        .register("Healthy", call("Healthy"))
        .register("CallsKiller", call("Killer"))
        .register("Killer", |_ctx: OrchestrationContext, _input: String| async move { std::process::abort() })
        .build()
}

/// The child: runs what the file holds until it kills itself or is killed.
#[tokio::test(flavor = "multi_thread")]
async fn worker_process() {
    let Some(path) = child::store_of(JOB) else { return };
    let (provider, _client) = child::open(&path).await;
    let _runtime =
        Runtime::start_with_options(provider, activities(), orchestrations(), child::options()).await;
    std::future::pending::<()>().await;
}

/// Restarts the process as often as it dies. What the killer was poisoned as, once all healthy ones are done.
async fn crash_until_poisoned(killer: &str, healthy: usize) -> PoisonMessageType {
    let directory = tempfile::tempdir().expect("a directory for the file");
    let path = directory.path().join("store.db");
    let (_provider, client) = child::open(&path).await;
    for n in 0..healthy {
        client.start_orchestration(format!("healthy{n}"), "Healthy", "").await.expect("start");
    }
    client.start_orchestration("killer", killer, "").await.expect("start");
    let mut crashes = 0;
    let mut child = child::start(JOB, &path);
    let status = loop {
        let waited = client.wait_for_orchestration("killer", Duration::from_millis(20)).await;
        if let Ok(status) = waited {
            break status;
        }
        if let Some(exit) = child.try_wait().expect("the child can be asked") {
            assert!(!exit.success());
            crashes += 1;
            child = child::start(JOB, &path);
        }
    };
    assert_eq!(crashes, MAX_ATTEMPTS, "max_attempts crashes, then poison");
    for n in 0..healthy {
        let instance = format!("healthy{n}");
        let status =
            client.wait_for_orchestration(&instance, Duration::from_secs(60)).await.expect("it ends");
        assert!(matches!(status, OrchestrationStatus::Completed { .. }), "{instance}: {status:?}");
    }
    child.kill().expect("the child runs");
    child.wait().expect("the child ends");
    let OrchestrationStatus::Failed { details, .. } = status else { panic!("{status:?}") };
    let ErrorDetails::Poison { attempt_count, max_attempts, message_type, .. } = details else {
        panic!("{details:?}")
    };
    assert_eq!((attempt_count, max_attempts), (MAX_ATTEMPTS + 1, MAX_ATTEMPTS));
    message_type
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_activity_that_kills_the_process_is_poisoned() {
    let poisoned = crash_until_poisoned("CallsKiller", 1_000).await;
    let expected = PoisonMessageType::Activity {
        instance: "killer".to_string(),
        execution_id: 1,
        activity_name: "Killer".to_string(),
        activity_id: 2,
    };
    assert_eq!(poisoned, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_orchestration_that_kills_the_process_is_poisoned() {
    let poisoned = crash_until_poisoned("Killer", 100).await;
    let expected = PoisonMessageType::Orchestration { instance: "killer".to_string(), execution_id: 1 };
    assert_eq!(poisoned, expected);
}

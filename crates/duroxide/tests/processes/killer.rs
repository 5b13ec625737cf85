//! 200 slow healthy activities beside one that aborts the process: the one is poisoned, none of the 200 is.

use std::time::Duration;

use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, ErrorDetails, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
    PoisonMessageType,
};

use crate::child;

const JOB: &str = "killer::worker_process";
const HEALTHY: usize = 200;

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
        .register("Killer", call("Killer"))
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

#[tokio::test(flavor = "multi_thread")]
async fn only_the_activity_that_kills_the_process_is_poisoned() {
    let directory = tempfile::tempdir().expect("a directory for the file");
    let path = directory.path().join("store.db");
    let (_provider, client) = child::open(&path).await;
    for n in 0..HEALTHY {
        client.start_orchestration(format!("healthy{n}"), "Healthy", "").await.expect("start");
    }
    client.start_orchestration("killer", "Killer", "").await.expect("start");
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
    assert_eq!(crashes, 10, "max_attempts crashes, then poison");
    let OrchestrationStatus::Failed { details, .. } = status else { panic!("{status:?}") };
    let ErrorDetails::Poison { attempt_count, message_type, .. } = details else { panic!("{details:?}") };
    assert_eq!(attempt_count, 11);
    assert!(
        matches!(message_type, PoisonMessageType::Activity { ref activity_name, .. } if activity_name == "Killer")
    );
    for n in 0..HEALTHY {
        let instance = format!("healthy{n}");
        let status =
            client.wait_for_orchestration(&instance, Duration::from_secs(60)).await.expect("it ends");
        assert!(matches!(status, OrchestrationStatus::Completed { .. }), "{instance}: {status:?}");
    }
    child.kill().expect("the child runs");
    child.wait().expect("the child ends");
}

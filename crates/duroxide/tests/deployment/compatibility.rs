//! Versions that a node replays, and the second defence against those that it does not.

use std::time::Duration;

use duroxide::{ConfigErrorKind, ErrorDetails, OrchestrationContext, OrchestrationStatus, RuntimeOptions};
use duroxide::{SemverRange, current_build_version};

use crate::common::{Faulty, World, activities, options, orchestrations};
use crate::log::Log;
use crate::pinned::{begin, go, range, waits_on};

const GIVEN_BACK: &str = "abandon_orchestration_item";

/// Longer than any backoff: whatever would be fetched has been.
const LONG: Duration = Duration::from_secs(600);

fn supporting(range: SemverRange) -> RuntimeOptions {
    RuntimeOptions { supported_replay_versions: Some(range), ..options() }
}

#[tokio::test(start_paused = true)]
async fn runtime_abandons_incompatible_execution() {
    let world = World::with(Faulty::ignoring_filter);
    begin(&world, "later", "99.0.0").await;
    let orchs = orchestrations().register("Wait", |_ctx: OrchestrationContext, _input: String| {
        std::future::poll_fn(|_| panic!("its code is not run"))
    });
    let runtime = world.start(activities(), orchs, options()).await;
    go(&world, "later").await;
    for attempt in 1..=3_u32 {
        while world.store.given_back(GIVEN_BACK).len() < usize::try_from(attempt).expect("small") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(world.memory.max_attempt_count("later"), attempt);
    }
    let status = world.client.get_orchestration_status("later").await.expect("status");
    assert!(matches!(status, OrchestrationStatus::Running { .. }), "{status:?}");
    assert_eq!(world.client.read_execution_history("later", 1).await.expect("read").len(), 1);
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn runtime_processes_compatible_execution_normally() {
    let log = Log::listen();
    let world = World::with(Faulty::ignoring_filter);
    let runtime = world.start(activities(), waits_on("here"), options()).await;
    world.client.start_orchestration("i", "Wait", "").await.expect("start");
    go(&world, "i").await;
    assert_eq!(world.output("i").await, "here");
    assert_eq!(world.store.given_back(GIVEN_BACK), []);
    assert_eq!(log.lines("WARN"), Vec::<String>::new());
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn runtime_abandon_reaches_max_attempts_and_poisons() {
    for max_attempts in [1, 3, 10] {
        let world = World::with(Faulty::ignoring_filter);
        begin(&world, "later", "99.0.0").await;
        let runtime =
            world.start(activities(), waits_on("here"), RuntimeOptions { max_attempts, ..options() }).await;
        go(&world, "later").await;
        let failure = world.failure("later").await;
        let ErrorDetails::Configuration { kind, message, .. } = &failure else { panic!("{failure:?}") };
        assert_eq!(*kind, ConfigErrorKind::UnsupportedReplayVersion);
        let expected = format!(
            "the execution is pinned to 99.0.0, this node replays >=0.0.0, <={}",
            current_build_version()
        );
        assert_eq!(message.as_ref(), Some(&expected));
        assert_eq!(failure.display_message(), format!("unsupported replay version: {expected}"));
        assert_eq!(world.store.given_back(GIVEN_BACK).len(), usize::try_from(max_attempts).expect("small"));
        let counted = runtime.metrics_snapshot().expect("always there");
        assert_eq!(counted.orch_dispatcher_items_fetched, u64::from(max_attempts) + 1);
        assert_eq!((counted.orch_configuration_errors, counted.orch_poison), (1, 0));
        assert_eq!(world.client.get_instance_info("later").await.expect("read").status, "Failed");
        runtime.shutdown(None).await;
    }
}

#[tokio::test(start_paused = true)]
async fn runtime_abandon_uses_short_delay() {
    let world = World::with(Faulty::ignoring_filter);
    begin(&world, "later", "99.0.0").await;
    let runtime = world.start(activities(), waits_on("here"), options()).await;
    go(&world, "later").await;
    world.failure("later").await;
    let given_back = world.store.given_back(GIVEN_BACK);
    assert_eq!(given_back.len(), 10);
    let second = Duration::from_secs(1);
    for pair in given_back.windows(2) {
        assert_eq!((pair[0].delay, pair[0].ignore_attempt), (Some(second), false));
        let again_after = pair[1].at - pair[0].at;
        assert!(again_after >= second && again_after < second * 11 / 10, "{again_after:?}");
    }
    runtime.shutdown(None).await;
}

/// Which of these executions a node processes within ten minutes. The store hides nothing from it if told so.
async fn processed(pinned: &[&'static str], node: RuntimeOptions, world: &World) -> Vec<&'static str> {
    for version in pinned {
        begin(world, version, version).await;
    }
    let runtime = world.start(activities(), waits_on("here"), node).await;
    for version in pinned {
        go(world, version).await;
    }
    tokio::time::sleep(LONG).await;
    let mut processed = Vec::new();
    for version in pinned {
        let status = world.client.get_orchestration_status(version).await.expect("status");
        if matches!(status, OrchestrationStatus::Completed { .. }) {
            processed.push(*version);
        } else {
            let is_left_alone = matches!(status, OrchestrationStatus::Running { .. });
            assert!(
                is_left_alone && world.memory.max_attempt_count(version) == 0,
                "{version}: never fetched"
            );
        }
    }
    runtime.shutdown(None).await;
    processed
}

#[tokio::test(start_paused = true)]
async fn default_supported_range_includes_current_and_older_versions() {
    let current: &'static str = env!("CARGO_PKG_VERSION");
    assert_eq!(current, current_build_version().to_string());
    let all = ["0.0.1", "0.5.0", current];
    assert_eq!(processed(&all, options(), &World::new()).await, all);
}

#[tokio::test(start_paused = true)]
async fn default_supported_range_excludes_future_versions() {
    assert_eq!(processed(&["99.0.0", "0.5.0"], options(), &World::new()).await, ["0.5.0"]);
    // Where the store does not filter, the node gives it back itself.
    let world = World::with(Faulty::ignoring_filter);
    begin(&world, "later", "99.0.0").await;
    let runtime = world.start(activities(), waits_on("here"), options()).await;
    go(&world, "later").await;
    assert_eq!(world.failure("later").await.category(), "configuration");
    assert_eq!(world.store.given_back(GIVEN_BACK).len(), 10);
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn custom_supported_replay_versions_narrows_range() {
    let narrow = supporting(range("1.0.0", "1.9.999"));
    let seen = processed(&["0.9.0", "1.5.0", "2.0.0"], narrow, &World::new()).await;
    assert_eq!(seen, ["1.5.0"]);
}

#[tokio::test(start_paused = true)]
async fn runtime_logs_warning_on_incompatible_abandon() {
    let log = Log::listen();
    let world = World::with(Faulty::ignoring_filter);
    begin(&world, "later", "99.0.0").await;
    let node = RuntimeOptions { max_attempts: 2, ..supporting(range("1.0.0", "1.9.999")) };
    let runtime = world.start(activities(), waits_on("here"), node).await;
    go(&world, "later").await;
    world.failure("later").await;
    let warnings = log.lines("WARN");
    assert_eq!(warnings.len(), 2, "{warnings:#?}");
    for line in warnings {
        for part in [
            "duroxide::runtime",
            "instance=later",
            "instance_id=later",
            "execution_id=1",
            "orchestration_name=",
            "pinned_version=99.0.0",
            "supported_range=>=1.0.0, <=1.9.999",
        ] {
            assert!(line.contains(part), "'{part}' in {line}");
        }
    }
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn runtime_logs_capability_declaration_at_startup() {
    let log = Log::listen();
    let world = World::new();
    let declared = |line: &String| {
        line.contains("duroxide::runtime") && line.contains("supported_range=>=1.0.0, <=1.9.999")
    };
    let runtime = world.start(activities(), orchestrations(), supporting(range("1.0.0", "1.9.999"))).await;
    assert_eq!(log.lines("INFO").iter().filter(|line| declared(line)).count(), 1, "{:#?}", log.lines("INFO"));
    runtime.shutdown(None).await;
}

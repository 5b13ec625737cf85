//! What the metrics tell about versions that a node does not replay.

use std::time::Duration;

use duroxide::RuntimeOptions;
use duroxide::runtime::ObservabilityConfig;
use duroxide::runtime::process::ProcessScope;

use crate::common::{Faulty, World, activities, options};
use crate::pinned::{begin, go, range, waits_on};
use crate::recorder::Recorded;

#[tokio::test(start_paused = true)]
async fn what_a_node_does_not_get_shows_by_version_and_goes_to_zero() {
    let recorded = Recorded::default();
    let _guard = ::metrics::set_default_local_recorder(&recorded);
    let world = World::new();
    let instances = [("a", "42.0.0"), ("b", "99.0.0"), ("c", "99.0.0"), ("fits", "0.0.1")];
    for (instance, version) in instances {
        begin(&world, instance, version).await;
    }
    for (instance, _) in instances {
        go(&world, instance).await;
    }
    let often =
        ObservabilityConfig { gauge_poll_interval: Duration::from_secs(1), ..ObservabilityConfig::default() };
    let usual = world
        .start(activities(), waits_on("usual"), RuntimeOptions { observability: often, ..options() })
        .await;
    let gauge = |version: &str| {
        recorded.gauge(&format!("duroxide_filtered_out_instances{{pinned_version={version}}}"))
    };
    assert_eq!(world.output("fits").await, "usual");
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!((gauge("42.0.0"), gauge("99.0.0"), gauge("0.0.1")), (Some(1.0), Some(2.0), None));
    let wide = RuntimeOptions {
        supported_replay_versions: Some(range("0.0.0", "99.0.0")),
        process: ProcessScope::simulated(2),
        ..options()
    };
    let wide = world.start(activities(), waits_on("wide"), wide).await;
    for instance in ["a", "b", "c"] {
        assert_eq!(world.output(instance).await, "wide");
    }
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!((gauge("42.0.0"), gauge("99.0.0")), (Some(0.0), Some(0.0)));
    usual.shutdown(None).await;
    wide.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn every_incompatible_execution_that_is_given_back_is_counted() {
    let recorded = Recorded::default();
    let _guard = ::metrics::set_default_local_recorder(&recorded);
    let world = World::with(Faulty::ignoring_filter);
    begin(&world, "later", "99.0.0").await;
    let limited = RuntimeOptions { max_attempts: 3, ..options() };
    let runtime = world.start(activities(), waits_on("here"), limited).await;
    go(&world, "later").await;
    world.failure("later").await;
    // The counters follow the commit that the client has seen.
    runtime.shutdown(None).await;
    assert_eq!(recorded.counter("duroxide.orchestration.incompatible_version_abandoned"), 3);
    assert_eq!(recorded.counter("duroxide_orchestration_failures_total{category=configuration}"), 1);
    assert_eq!(recorded.counter("duroxide_poison_detected_total{type=orchestration}"), 0);
}

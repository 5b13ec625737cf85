//! Fault 26: a gauge goes below zero, a duration covers the last turn only, a counter counts twice.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::process::ProcessScope;
use duroxide::runtime::registry::ActivityRegistryBuilder;
use duroxide::runtime::{ObservabilityConfig, Runtime};
use duroxide::{
    ActivityContext, Client, OrchestrationContext, OrchestrationRegistryBuilder, RuntimeOptions, TagFilter,
};
use tokio::sync::Notify;

use crate::common::{Fault, Faulty, World, activities, options, orchestrations};
use crate::recorder::Recorded;

const SECOND: Duration = Duration::from_secs(1);
const TOOK: &str = "duroxide_orchestration_duration_seconds";

fn node(seed: u64, gauges: Duration) -> RuntimeOptions {
    RuntimeOptions {
        process: ProcessScope::simulated(seed),
        observability: ObservabilityConfig { gauge_poll_interval: gauges, ..Default::default() },
        ..options()
    }
}

fn depth(recorded: &Recorded, queue: &str) -> Option<f64> {
    recorded.gauge(&format!("duroxide_queue_depth{{queue={queue}}}"))
}

fn age(recorded: &Recorded, queue: &str) -> Option<f64> {
    recorded.gauge(&format!("duroxide_oldest_ready_age_seconds{{queue={queue}}}"))
}

fn check_none_below_zero(recorded: &Recorded) {
    let gauges = recorded.all_gauges();
    assert!(gauges.len() >= 5, "some were computed: {gauges:?}");
    for (name, value) in gauges {
        assert!(value >= 0.0 && value.is_finite(), "{name} was {value}");
    }
}

/// `Work` takes ten minutes, and tells when it begins.
fn slow(begun: &Arc<Notify>) -> ActivityRegistryBuilder {
    let begun = begun.clone();
    activities().register("Work", move |_ctx: ActivityContext, _input: String| {
        let begun = begun.clone();
        async move {
            begun.notify_one();
            tokio::time::sleep(600 * SECOND).await;
            Ok("worked".to_string())
        }
    })
}

fn programs() -> OrchestrationRegistryBuilder {
    orchestrations()
        .register("Work", |ctx: OrchestrationContext, _input: String| async move {
            ctx.schedule_activity("Work", "").await
        })
        .register("Tagged", |ctx: OrchestrationContext, _input: String| async move {
            ctx.schedule_activity("Work", "").with_tag("gpu").await
        })
        .register("Sleep", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_timer(Duration::from_secs(input.parse().map_err(|_| "a number".to_string())?)).await;
            Ok(String::new())
        })
        .register("Rounds", |ctx: OrchestrationContext, input: String| async move {
            let round: u64 = input.parse().map_err(|_| "a number".to_string())?;
            ctx.schedule_timer(60 * SECOND).await;
            if round > 1 {
                return ctx.continue_as_new((round - 1).to_string()).await;
            }
            Ok("over".to_string())
        })
        .register("Fail", |ctx: OrchestrationContext, _input: String| async move {
            ctx.trace_info("failing");
            ctx.schedule_timer(10 * SECOND).await;
            Err::<String, _>("no".to_string())
        })
        .register("Wait", |ctx: OrchestrationContext, _input: String| async move {
            Ok(ctx.schedule_wait("never").await)
        })
}

#[tokio::test(start_paused = true)]
async fn gauges_tell_what_waits_and_for_how_long_and_never_go_below_zero() {
    let recorded = Recorded::default();
    let _guard = metrics::set_default_local_recorder(&recorded);
    let world = World::new();
    let begun = Arc::new(Notify::new());
    let first = world.start(slow(&begun), programs(), node(1, SECOND)).await;
    let start = async |id: &str, name: &str, input: &str| {
        world.client.start_orchestration(id, name, input).await.expect("start");
    };
    start("work", "Work", "").await;
    start("tagged", "Tagged", "").await;
    start("tagged too", "Tagged", "").await;
    start("sleep", "Sleep", "3600").await;
    start("unknown", "nobody has it", "").await;
    begun.notified().await;
    tokio::time::sleep(30 * SECOND + SECOND / 2).await;
    assert_eq!(depth(&recorded, "worker"), Some(3.0), "two wait, one runs");
    assert_eq!(depth(&recorded, "timer"), Some(1.0));
    assert_eq!(age(&recorded, "worker"), Some(30.0), "what runs is not waiting");
    let metrics = world.client.get_system_metrics().await.expect("metrics");
    // The one that nobody has was poisoned in the meantime, or it is still given back again and again.
    assert_eq!(metrics.running_instances + metrics.failed_instances, 5);
    assert_eq!(age(&recorded, "orchestrator"), Some(0.0), "what is given back with a delay is not ready");

    // Another node ends what the first one fetched: nobody counts down what another has counted up.
    first.kill();
    first.wait_until_ended().await;
    let accepting = RuntimeOptions { worker_tag_filter: TagFilter::any(), ..node(2, SECOND) };
    let second = world.start(slow(&begun), programs(), accepting).await;
    for id in ["work", "tagged", "tagged too", "sleep", "unknown"] {
        world.ended(id).await;
    }
    tokio::time::sleep(2 * SECOND).await;
    for queue in ["orchestrator", "worker", "timer"] {
        assert_eq!(depth(&recorded, queue), Some(0.0), "{queue}");
    }
    for queue in ["orchestrator", "worker"] {
        assert_eq!(age(&recorded, queue), Some(0.0), "{queue}");
    }
    let metrics = world.client.get_system_metrics().await.expect("metrics");
    assert_eq!((metrics.running_instances, metrics.completed_instances, metrics.failed_instances), (0, 4, 1));
    check_none_below_zero(&recorded);
    second.shutdown(None).await;
}

#[tokio::test]
async fn gauges_are_right_on_a_file_too() {
    let recorded = Recorded::default();
    let _guard = metrics::set_default_local_recorder(&recorded);
    let directory = tempfile::tempdir().expect("a directory for the file");
    let url = format!("sqlite:{}", directory.path().join("store.db").display());
    let store = Arc::new(SqliteProvider::new(&url, None).await.expect("the file opens"));
    let client = Client::new(store.clone());
    let often = Duration::from_millis(10);
    let quick =
        || activities().register("Work", |_ctx: ActivityContext, _input: String| async { Ok(String::new()) });
    let until = async |is: &dyn Fn() -> bool| {
        let wait = async {
            while !is() {
                tokio::time::sleep(often).await;
            }
        };
        let waited = tokio::time::timeout(30 * SECOND, wait).await;
        waited.unwrap_or_else(|_| panic!("not within half a minute: {:?}", recorded.all_gauges().pop()));
    };
    let first =
        Runtime::start_with_options(store.clone(), quick().build(), programs().build(), node(1, often)).await;
    for id in ["a", "b", "c"] {
        client.start_orchestration(id, "Tagged", "").await.expect("start");
    }
    client.start_orchestration("sleep", "Sleep", "3600").await.expect("start");
    until(&|| depth(&recorded, "worker") == Some(3.0) && depth(&recorded, "timer") == Some(1.0)).await;
    until(&|| age(&recorded, "worker") >= Some(0.2)).await;
    let accepting = RuntimeOptions { worker_tag_filter: TagFilter::any(), ..node(2, often) };
    let second =
        Runtime::start_with_options(store.clone(), quick().build(), programs().build(), accepting).await;
    for id in ["a", "b", "c"] {
        client.wait_for_orchestration(id, 30 * SECOND).await.expect("it ends");
    }
    client.cancel_instance("sleep", "enough").await.expect("cancel");
    until(&|| ["orchestrator", "worker", "timer"].iter().all(|queue| depth(&recorded, queue) == Some(0.0)))
        .await;
    until(&|| age(&recorded, "worker") == Some(0.0)).await;
    check_none_below_zero(&recorded);
    first.shutdown(None).await;
    second.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn a_duration_is_recorded_once_from_the_first_start_to_the_end() {
    let recorded = Recorded::default();
    let _guard = metrics::set_default_local_recorder(&recorded);
    let world = World::new();
    let runtime = world.start(activities(), programs(), options()).await;
    // Failed commits, and one that succeeds unheard.
    world.store.plan("ack_orchestration_item", [Fault::FailBefore, Fault::LoseAnswer, Fault::FailBefore]);
    for (id, name) in
        [("rounds", "Rounds"), ("fails", "Fail"), ("waits", "Wait"), ("poison", "nobody has it")]
    {
        world.client.start_orchestration(id, name, "3").await.expect("start");
    }
    world.output("rounds").await;
    world.failure("fails").await;
    world.failure("poison").await;
    tokio::time::sleep(1000 * SECOND).await;
    let before = tokio::time::Instant::now();
    world.client.cancel_instance("waits", "enough").await.expect("cancel");
    world.failure("waits").await;
    assert!(before.elapsed() < SECOND);
    runtime.shutdown(None).await;
    let completed = recorded.histogram(&format!("{TOOK}{{outcome=completed}}"));
    assert_eq!(completed.len(), 1, "{completed:?}");
    assert!((180.0..182.0).contains(&completed[0]), "three executions: {completed:?}");
    let mut failed = recorded.histogram(&format!("{TOOK}{{outcome=failed}}"));
    failed.sort_by(f64::total_cmp);
    assert_eq!(failed.len(), 3, "{failed:?}");
    let fails = failed.iter().filter(|took| (10.0..12.0).contains(*took)).count();
    assert!(fails >= 1, "from the start, not from the last turn: {failed:?}");
    assert!(failed[2] >= 1000.0, "a cancelled one too: {failed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_counter_counts_once_also_when_answers_are_lost() {
    for method in ["ack_orchestration_item", "ack_work_item"] {
        // Each of the commits in turn is the one whose answer is lost.
        for unheard in 0..6 {
            let recorded = Recorded::default();
            let _guard = metrics::set_default_local_recorder(&recorded);
            let world = World::new();
            let acts = activities()
                .register("Work", |_ctx: ActivityContext, _input: String| async { Ok(String::new()) })
                .register("Fail", |_ctx: ActivityContext, _input: String| async {
                    Err::<String, _>("no".to_string())
                });
            let orchs = orchestrations()
                .register("Two", |ctx: OrchestrationContext, _input: String| async move {
                    ctx.schedule_activity("Work", "").await?;
                    let failed = ctx.schedule_activity("Fail", "").await;
                    assert!(failed.is_err());
                    ctx.schedule_sub_orchestration("Child", "").await
                })
                .register("Child", |_ctx: OrchestrationContext, _input: String| async {
                    Err::<String, _>("no".to_string())
                });
            let runtime = world.start(acts, orchs, options()).await;
            // A failure that the plan spends in place of a success says nothing about the count.
            let faults = (0..unheard).map(|_| Fault::FailBefore).chain([Fault::LoseAnswer]);
            world.store.plan(method, faults);
            world.client.start_orchestration("two", "Two", "").await.expect("start");
            world.failure("two").await;
            runtime.clone().shutdown(None).await;
            let counted = runtime.metrics_snapshot().expect("always there");
            let what = format!("{method}, answer {unheard} lost: {counted:?}");
            assert_eq!((counted.orch_starts, counted.suborchestration_calls), (2, 1), "{what}");
            assert_eq!((counted.orch_failures, counted.orch_application_errors), (2, 2), "{what}");
            assert_eq!((counted.activity_success, counted.activity_app_errors), (1, 1), "{what}");
            let facade = |name: &str| recorded.counter(&format!("{name}{{category=application}}"));
            assert_eq!(facade("duroxide_orchestration_failures_total"), 2, "{what}");
            assert_eq!(facade("duroxide_activity_failures_total"), 1, "{what}");
            assert_eq!(recorded.histogram(&format!("{TOOK}{{outcome=failed}}")).len(), 2, "{what}");
        }
    }
}

/// The first node ends the activity while it cannot reach the store; another one runs it again.
#[tokio::test(start_paused = true)]
async fn an_activity_that_another_runtime_completes_is_counted_there_alone() {
    for fails in [false, true] {
        let recorded = Recorded::default();
        let _guard = metrics::set_default_local_recorder(&recorded);
        let world = World::new();
        let (begun, end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let acts = || {
            let (begun, end) = (begun.clone(), end.clone());
            activities().register("Work", move |_ctx: ActivityContext, _input: String| {
                let (begun, end) = (begun.clone(), end.clone());
                async move {
                    begun.notify_one();
                    end.notified().await;
                    if fails { Err("no".to_string()) } else { Ok("worked".to_string()) }
                }
            })
        };
        let link = Arc::new(Faulty::new(world.memory.clone()));
        let hasty = RuntimeOptions { dispatcher_long_poll_timeout: SECOND, ..node(1, SECOND) };
        let first =
            Runtime::start_with_options(link.clone(), acts().build(), programs().build(), hasty).await;
        world.client.start_orchestration("work", "Work", "").await.expect("start");
        begun.notified().await;
        link.set_away(true);
        end.notify_one();
        let second = world.start(acts(), programs(), node(2, SECOND)).await;
        begun.notified().await;
        end.notify_one();
        world.ended("work").await;
        link.set_away(false);
        tokio::time::sleep(60 * SECOND).await;
        first.clone().shutdown(None).await;
        second.clone().shutdown(None).await;
        let count = |runtime: &Runtime| {
            let counted = runtime.metrics_snapshot().expect("always there");
            counted.activity_success + counted.activity_app_errors
        };
        assert_eq!((count(&first), count(&second)), (0, 1));
        let failures = recorded.counter("duroxide_activity_failures_total{category=application}");
        assert_eq!(failures, u64::from(fails));
        check_none_below_zero(&recorded);
    }
}

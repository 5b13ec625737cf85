//! Deleting, pruning and retention: what lives is never removed, and what is counted is counted once.

use std::time::Duration;

use duroxide::runtime::RetentionPolicy;
use duroxide::{
    ActivityContext, ClientError, Cursor, InstanceFilter, InstanceQuery, OrchestrationContext, PruneOptions,
    RuntimeOptions,
};

use crate::common::{Fault, World, activities, options, orchestrations};

fn echo() -> duroxide::runtime::registry::ActivityRegistryBuilder {
    activities().register("Echo", |_ctx: ActivityContext, input: String| async move { Ok(input) })
}

fn programs() -> duroxide::OrchestrationRegistryBuilder {
    orchestrations()
        .register("Echo", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_activity("Echo", input).await
        })
        .register("Fail", |_ctx: OrchestrationContext, _input: String| async move {
            Err::<String, _>("no".to_string())
        })
        .register("Parent", |ctx: OrchestrationContext, _input: String| async move {
            ctx.schedule_sub_orchestration_with_id("Echo", "child", "x").await
        })
        .register("Rounds", |ctx: OrchestrationContext, input: String| async move {
            let round: u64 = input.parse().map_err(|_| "a number".to_string())?;
            ctx.schedule_timer(Duration::from_secs(60)).await;
            if round > 1 {
                return ctx.continue_as_new((round - 1).to_string()).await;
            }
            Ok("over".to_string())
        })
}

#[tokio::test(start_paused = true)]
async fn deleting_what_is_finished_never_removes_a_live_instance_between_two_executions() {
    let world = World::new();
    let first = || {
        orchestrations().register("Live", |ctx: OrchestrationContext, _input: String| async move {
            ctx.continue_as_new_versioned("2.0.0", "next").await
        })
    };
    let second = || {
        first().register_versioned("Live", "2.0.0", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_activity("Echo", input).await
        })
    };
    // The first execution ends here; what the second needs is not here.
    let runtime = world.start(echo(), first(), options()).await;
    world.client.start_orchestration_versioned("live", "Live", "1.0.0", "").await.expect("start");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let client = &world.client;
    let ended = client.get_execution_info("live", 1).await.expect("read");
    assert_eq!(ended.status, "ContinuedAsNew");
    for completed_before in [None, Some(u64::MAX)] {
        let filter = InstanceFilter { completed_before, ..Default::default() };
        let deleted = client.delete_instance_bulk(filter.clone()).await.expect("delete");
        assert_eq!(deleted.instances_deleted, 0);
        let named = InstanceFilter { instance_ids: Some(vec!["live".to_string()]), ..filter };
        assert_eq!(client.delete_instance_bulk(named).await.expect("delete").instances_deleted, 0);
    }
    let refused = client.delete_instance("live", false).await;
    assert!(matches!(refused, Err(ClientError::InstanceStillRunning { .. })), "{refused:?}");
    let all = InstanceFilter::default();
    let pruned = client.prune_executions_bulk(all.clone(), PruneOptions::default()).await.expect("prune");
    assert_eq!(pruned.executions_deleted, 1);
    runtime.shutdown(None).await;
    let runtime = world.start(echo(), second(), options()).await;
    assert_eq!(world.output("live").await, "next");
    assert_eq!(client.delete_instance_bulk(all).await.expect("delete").instances_deleted, 1);
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn retention_removes_what_is_old_and_nothing_else() {
    let world = World::new();
    let policy = RetentionPolicy {
        finished_older_than: Some(Duration::from_secs(3600)),
        keep_executions: Some(2),
        interval: Duration::from_secs(60),
    };
    let options = RuntimeOptions { retention: Some(policy), ..options() };
    let runtime = world.start(echo(), programs(), options).await;
    let start = async |id: &str, name: &str, input: &str| {
        world.client.start_orchestration(id, name, input).await.expect("start");
    };
    start("old", "Parent", "").await;
    start("rounds", "Rounds", "100").await;
    assert_eq!(world.output("old").await, "x");
    tokio::time::sleep(Duration::from_secs(3500)).await;
    assert_eq!(world.client.get_instance_tree("old").await.expect("not old enough").size(), 2);
    start("young", "Echo", "x").await;
    world.output("young").await;
    // A round that fails is made up for by the next one.
    world.store.plan("ack_orchestration_item", [Fault::FailBefore]);
    tokio::time::sleep(Duration::from_secs(300)).await;
    let mut left = world.client.list_all_instances().await.expect("read");
    left.sort();
    assert_eq!(left, ["rounds", "young"], "the old one is gone with its child");
    let kept = world.client.list_executions("rounds").await.expect("read");
    assert!(kept.len() <= 4 && kept.last() > Some(&60), "{kept:?}");
    assert_eq!(world.output("rounds").await, "over");
    tokio::time::sleep(Duration::from_secs(2 * 3600)).await;
    assert_eq!(world.client.list_all_instances().await.expect("read"), Vec::<String>::new());
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_continues_as_new_quickly_is_pruned_between_two_rounds_of_retention() {
    let world = World::new();
    let policy = RetentionPolicy {
        keep_executions: Some(20),
        interval: Duration::from_secs(24 * 3600),
        ..RetentionPolicy::default()
    };
    let options = RuntimeOptions { retention: Some(policy), ..options() };
    let orchs = programs().register("Quick", |ctx: OrchestrationContext, input: String| async move {
        let round: u32 = input.parse().map_err(|_| "not a number".to_string())?;
        if round == 500 { Ok("over".to_string()) } else { ctx.continue_as_new((round + 1).to_string()).await }
    });
    let runtime = world.start(echo(), orchs, options).await;
    world.client.start_orchestration("quick", "Quick", "1").await.expect("start");
    assert_eq!(world.output("quick").await, "over");
    // What was begun in the last moment ends in the next.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let kept = world.client.list_executions("quick").await.expect("read");
    assert!(kept.len() <= 22 && kept.len() >= 20 && kept.last() == Some(&500), "{kept:?}");
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn times_are_real_and_cover_all_executions() {
    let world = World::new();
    let runtime = world.start(echo(), programs(), options()).await;
    world.client.start_orchestration("timed", "Rounds", "3").await.expect("start");
    world.output("timed").await;
    let info = world.client.get_instance_info("timed").await.expect("read");
    assert!(info.created_at >= 1_700_000_000_000, "{info:?}");
    assert!(info.updated_at >= info.created_at + 180_000, "{info:?}");
    let mut begin = info.created_at;
    for execution_id in 1..=3 {
        let execution = world.client.get_execution_info("timed", execution_id).await.expect("read");
        assert!(execution.started_at >= begin, "{execution:?}");
        begin = execution.completed_at.expect("ended");
        assert!(begin >= execution.started_at + 60_000, "{execution:?}");
    }
    assert_eq!(begin, info.updated_at);
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn a_counter_counts_once_however_often_the_store_fails() {
    let world = World::new();
    let runtime = world.start(echo(), programs(), options()).await;
    for method in ["ack_orchestration_item", "ack_work_item", "fetch_turns", "fetch_work"] {
        world.store.plan(method, [Fault::FailBefore, Fault::FailBefore]);
    }
    for (id, name) in [("ok", "Parent"), ("bad", "Fail"), ("rounds", "Rounds")] {
        world.client.start_orchestration(id, name, "2").await.expect("start");
        world.ended(id).await;
    }
    runtime.clone().shutdown(None).await;
    let counted = runtime.metrics_snapshot().expect("always there");
    assert_eq!(counted.orch_starts, 4);
    assert_eq!((counted.orch_completions, counted.orch_failures), (3, 1));
    assert_eq!((counted.orch_application_errors, counted.orch_poison), (1, 0));
    assert_eq!((counted.orch_continue_as_new, counted.suborchestration_calls), (1, 1));
    assert_eq!((counted.activity_success, counted.activity_app_errors), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn the_client_refuses_what_makes_no_sense_and_names_what_is_unknown() {
    let world = World::new();
    let client = &world.client;
    let refused = |query: InstanceQuery| async move {
        let refused = client.list_instances_page(&query).await;
        assert!(matches!(refused, Err(ClientError::InvalidInput { .. })), "{refused:?}");
    };
    refused(InstanceQuery { status: Some("Sleeping".to_string()), ..Default::default() }).await;
    refused(InstanceQuery { limit: Some(0), ..Default::default() }).await;
    refused(InstanceQuery { after: Some(Cursor::new("?")), ..Default::default() }).await;
    let unknown = client.prune_executions("nobody", PruneOptions::default()).await;
    assert!(matches!(unknown, Err(ClientError::InstanceNotFound { .. })), "{unknown:?}");
}

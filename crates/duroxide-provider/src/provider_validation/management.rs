//! The management calls that only read.

use std::time::Duration;

use super::ProviderFactory;
use super::fixture::{Commit, Store, activity, cancel, event, expect_not_found, start, start_child, timer};
use crate::{QueueDepths, SystemMetrics};

/// Instances are listed latest first, all or by status.
pub async fn instances_are_listed_latest_first(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    assert_eq!(store.admin().list_instances().await.expect("read"), Vec::<String>::new());
    store.finish("c").await;
    store.begin("a").await;
    store.finish("b").await;
    store.begin_with("d", |commit| commit.fails("x")).await;
    assert_eq!(store.admin().list_instances().await.expect("read"), vec!["d", "b", "a", "c"]);
    let by_status = |status| store.admin().list_instances_by_status(status);
    assert_eq!(by_status("Completed").await.expect("read"), vec!["b", "c"]);
    assert_eq!(by_status("Running").await.expect("read"), vec!["a"]);
    assert_eq!(by_status("Failed").await.expect("read"), vec!["d"]);
    assert_eq!(by_status("Nonsense").await.expect("read"), Vec::<String>::new());
}

/// The times in the answers are those at which things happened.
pub async fn times_are_really_set(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send(start("a")).await;
    let created = store.admin().get_instance_info("a").await.expect("read");
    assert!(created.created_at > 0);
    assert_eq!(created.updated_at, created.created_at);
    factory.advance(Duration::from_millis(25)).await;
    let turn = store.turn_of("a").await;
    store.pass(&turn).await;
    let updated = store.admin().get_instance_info("a").await.expect("read");
    assert_eq!(updated.created_at, created.created_at);
    assert!(updated.updated_at >= created.created_at + 25);
    factory.advance(Duration::from_millis(25)).await;
    store.send(event("a", "go")).await;
    let turn = store.turn_of("a").await;
    store.commit(&turn, Commit::of(&turn).completes("out")).await;
    let execution = store.admin().get_execution_info("a", 1).await.expect("read");
    assert_eq!(execution.started_at, created.created_at);
    assert!(execution.completed_at.expect("it has ended") >= created.created_at + 50);
    assert_eq!(store.admin().get_instance_info("a").await.expect("read").output.as_deref(), Some("out"));
}

/// What is unknown is a permanent error that says so.
pub async fn unknown_ids_are_not_found(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let admin = store.admin();
    expect_not_found(admin.get_instance_info("x").await);
    expect_not_found(admin.get_execution_info("x", 1).await);
    expect_not_found(admin.list_executions("x").await);
    expect_not_found(admin.latest_execution_id("x").await);
    expect_not_found(admin.read_history("x").await);
    expect_not_found(admin.read_history_with_execution_id("x", 1).await);
    expect_not_found(admin.list_children("x").await);
    expect_not_found(admin.get_parent_id("x").await);
    expect_not_found(admin.get_instance_tree("x").await);
    expect_not_found(admin.delete_instance("x", true).await);
    expect_not_found(admin.prune_executions("x", Default::default()).await);
    store.begin("a").await;
    expect_not_found(admin.get_execution_info("a", 2).await);
    expect_not_found(admin.read_history_with_execution_id("a", 2).await);
}

/// The counts over the store.
pub async fn system_metrics_count_everything(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    assert_eq!(store.admin().get_system_metrics().await.expect("read"), Default::default());
    store.finish("completed").await;
    store.begin_with("failed", |commit| commit.fails("x")).await;
    store.begin("running").await;
    store.send(event("running", "go")).await;
    let turn = store.turn_of("running").await;
    store.commit(&turn, Commit::of(&turn).continues_as_new("running")).await;
    let metrics = store.admin().get_system_metrics().await.expect("read");
    assert_eq!((metrics.total_instances, metrics.total_executions, metrics.total_events), (3, 4, 4));
    assert_eq!(
        (metrics.running_instances, metrics.completed_instances, metrics.failed_instances),
        (1, 1, 1),
        "an instance between two executions is running"
    );
}

/// The counts are right after each kind of change.
pub async fn system_metrics_follow_every_change(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let check = async |what: &str, instances: [u64; 3], executions: u64, events: u64| {
        let seen = store.admin().get_system_metrics().await.expect("read");
        let [running_instances, completed_instances, failed_instances] = instances;
        let expected = SystemMetrics {
            total_instances: instances.iter().sum(),
            total_executions: executions,
            running_instances,
            completed_instances,
            failed_instances,
            total_events: events,
        };
        assert_eq!(seen, expected, "after {what}");
    };
    store.send(start("a")).await;
    check("a start", [1, 0, 0], 1, 0).await;
    store.send(start("a")).await;
    check("a second start of the id", [1, 0, 0], 1, 0).await;
    let turn = store.turn_of("a").await;
    check("a fetch", [1, 0, 0], 1, 0).await;
    store.commit(&turn, Commit::of(&turn).events([super::fixture::started("a", 1)])).await;
    check("a turn", [1, 0, 0], 1, 1).await;
    store.send(event("a", "go")).await;
    let turn = store.turn_of("a").await;
    store.commit(&turn, Commit::of(&turn).continues_as_new("a")).await;
    check("a continue-as-new", [1, 0, 0], 2, 1).await;
    let turn = store.turn_of("a").await;
    let end = [super::fixture::started("a", 2), super::fixture::completed_event(2, "a", 2, "x")];
    store.commit(&turn, Commit::of(&turn).events(end).completes("x")).await;
    check("a completion", [0, 1, 0], 2, 3).await;
    store.send(event("a", "late")).await;
    check("a late event", [0, 1, 0], 2, 3).await;
    store.begin_with("b", |commit| commit.fails("x")).await;
    check("a failure", [0, 1, 1], 3, 4).await;
    store.admin().prune_executions("a", Default::default()).await.expect("pruned");
    check("a prune", [0, 1, 1], 2, 3).await;
    store.admin().delete_instance("a", false).await.expect("deleted");
    check("a deletion", [0, 0, 1], 1, 1).await;
    store.admin().delete_instance_bulk(Default::default()).await.expect("deleted");
    check("a bulk deletion", [0, 0, 0], 0, 0).await;
}

/// What waits in the queues, locked or not; timers are counted apart.
pub async fn queue_depths_count_what_waits(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let depths = |orchestrator_queue, worker_queue, timer_queue| QueueDepths {
        orchestrator_queue,
        worker_queue,
        timer_queue,
    };
    assert_eq!(store.admin().get_queue_depths().await.expect("read"), depths(0, 0, 0));
    store
        .begin_with("a", |commit| {
            commit
                .work([activity("a", 2), activity("a", 3)])
                .messages([timer("a", 4, u64::MAX), timer("a", 5, 0)])
        })
        .await;
    store.send_all([event("a", "1"), cancel("a"), event("unknown", "early")]).await;
    assert_eq!(store.admin().get_queue_depths().await.expect("read"), depths(2, 2, 2));
    let turn = store.turn_of("a").await;
    store.work().await;
    assert_eq!(store.admin().get_queue_depths().await.expect("read"), depths(2, 2, 2), "locked is not gone");
    store.pass(&turn).await;
    assert_eq!(store.admin().get_queue_depths().await.expect("read"), depths(0, 2, 1));
}

/// Parents, children and whole trees.
pub async fn trees_are_listed_parents_first(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("root").await;
    store.begin("other").await;
    store
        .send_all([start_child("b", "root", 2), start_child("a", "root", 3), start_child("c", "b", 2)])
        .await;
    let admin = store.admin();
    assert_eq!(admin.list_children("root").await.expect("read"), vec!["b", "a"]);
    assert_eq!(admin.list_children("c").await.expect("read"), Vec::<String>::new());
    assert_eq!(admin.get_parent_id("c").await.expect("read").as_deref(), Some("b"));
    assert_eq!(admin.get_parent_id("root").await.expect("read"), None);
    let tree = admin.get_instance_tree("root").await.expect("read");
    assert_eq!(tree.all_ids, vec!["root", "b", "a", "c"]);
    assert_eq!((tree.root_id.as_str(), tree.size(), tree.is_root_only()), ("root", 4, false));
    assert!(admin.get_instance_tree("other").await.expect("read").is_root_only());
}

/// Histories of single executions can be read, the latest by default.
pub async fn each_execution_has_its_own_history(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    store.send(event("a", "go")).await;
    let turn = store.turn_of("a").await;
    store.commit(&turn, Commit::of(&turn).continues_as_new("a")).await;
    let turn = store.turn_of("a").await;
    store.commit(&turn, Commit::of(&turn).events([super::fixture::started("a", 2)])).await;
    let admin = store.admin();
    let first = admin.read_history_with_execution_id("a", 1).await.expect("read");
    let second = admin.read_history_with_execution_id("a", 2).await.expect("read");
    assert_eq!((first[0].execution_id, second[0].execution_id), (1, 2));
    assert_eq!(admin.read_history("a").await.expect("read"), second);
    assert_eq!(admin.latest_execution_id("a").await.expect("read"), 2);
}

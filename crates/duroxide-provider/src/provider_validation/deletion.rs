//! Deleting instances and old executions.

use std::time::Duration;

use super::ProviderFactory;
use super::fixture::{
    Commit, Store, activity, completed, event, expect_invalid, expect_lock_lost, expect_not_found, happened,
    start, start_child, timer,
};
use crate::EventKind;
use crate::{DeleteInstanceResult, InstanceFilter, ProviderError, PruneOptions, PruneResult};

fn refused_naming(result: Result<DeleteInstanceResult, ProviderError>, name: &str) {
    let text = result.clone().expect_err("refused").to_string();
    assert!(text.contains(name), "{text}");
    expect_invalid(result);
}

fn ids(list: &[&str]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

/// Everything of a deleted instance is gone, and the result says how much that was.
pub async fn a_deleted_instance_is_gone_with_all_it_had(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let set = EventKind::KeyValueSet { key: "k".into(), value: "v".into(), last_updated_at_ms: 5 };
    let custom = EventKind::CustomStatusUpdated { status: Some("busy".into()) };
    store
        .begin_with("a", |commit| {
            commit
                .events([happened(2, "a", set), happened(3, "a", custom)])
                .work([activity("a", 4)])
                .messages([timer("a", 5, u64::MAX)])
        })
        .await;
    store.begin_with("b", |commit| commit.work([activity("b", 2)])).await;
    store.send(event("a", "waiting")).await;
    let result = store.admin().delete_instance("a", true).await.expect("deleted");
    let expected = DeleteInstanceResult {
        instances_deleted: 1,
        executions_deleted: 1,
        events_deleted: 3,
        queue_messages_deleted: 3,
    };
    assert_eq!(result, expected);
    expect_not_found(store.admin().get_instance_info("a").await);
    assert_eq!(store.admin().list_instances().await.expect("read"), vec!["b"]);
    assert_eq!(store.history("a").await, vec![]);
    assert_eq!(store.provider.get_kv_value("a", "k").await.expect("read"), None);
    assert_eq!(store.provider.get_custom_status("a", 0).await.expect("read"), None);
    store.expect_no_turn().await;
    assert_eq!(store.work().await.item, activity("b", 2));
    store.expect_no_work().await;
    expect_not_found(store.admin().delete_instance("a", true).await);
}

/// A running instance is only deleted by force; the refusal names it.
pub async fn a_running_instance_is_only_deleted_by_force(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("runs").await;
    refused_naming(store.admin().delete_instance("runs", false).await, "runs");
    refused_naming(store.admin().delete_instances_atomic(&ids(&["runs"]), false).await, "runs");
    store.send(event("runs", "go")).await;
    let turn = store.turn_of("runs").await;
    store.commit(&turn, Commit::of(&turn).continues_as_new("runs")).await;
    refused_naming(store.admin().delete_instance("runs", false).await, "runs");
    store.admin().delete_instance("runs", true).await.expect("by force");
    store.finish("done").await;
    store.admin().delete_instance("done", false).await.expect("it has ended");
}

/// Whoever holds the lock of an instance that is deleted has lost it, and so has its worker.
pub async fn a_deletion_takes_the_locks_away(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_with("a", |commit| commit.work([activity("a", 2)])).await;
    store.send(event("a", "go")).await;
    let (turn, work) = (store.turn_of("a").await, store.work().await);
    store.admin().delete_instance("a", true).await.expect("by force");
    store.send(start("a")).await;
    expect_lock_lost(store.try_commit(&turn, Commit::of(&turn)).await);
    expect_lock_lost(store.provider.renew_orchestration_item_lock(&turn.token, store.lock).await);
    expect_lock_lost(store.provider.abandon_orchestration_item(&turn.token, None, false).await);
    expect_lock_lost(store.provider.ack_work_item(&work.token, Some(completed("a", 2))).await);
    let fresh = store.turn_of("a").await;
    assert_eq!((fresh.item.messages, fresh.item.history), (vec![start("a")], vec![]));
    assert_eq!(fresh.attempts, 1);
}

/// A child is never deleted alone; its root takes it along, and all below it.
pub async fn a_tree_is_deleted_from_its_root(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.finish("root").await;
    store
        .send_all([start_child("child", "root", 2), start_child("grandchild", "child", 2), start("other")])
        .await;
    refused_naming(store.admin().delete_instance("child", true).await, "child");
    refused_naming(store.admin().delete_instance("root", false).await, "child");
    let result = store.admin().delete_instance("root", true).await.expect("by force");
    assert_eq!(result.instances_deleted, 3);
    assert_eq!(store.admin().list_instances().await.expect("read"), vec!["other"]);
}

/// A deletion of several is of all or of none, and leaves no child without its parent.
pub async fn a_deletion_of_several_is_all_or_nothing(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.finish("root").await;
    store.finish("other").await;
    store.send(start_child("the child", "root", 2)).await;
    let turn = store.turn_of("the child").await;
    store.commit(&turn, Commit::of(&turn).completes("x")).await;
    store.begin("runs").await;
    let admin = store.admin();
    refused_naming(admin.delete_instances_atomic(&ids(&["other", "root"]), false).await, "the child");
    refused_naming(admin.delete_instances_atomic(&ids(&["other", "root"]), true).await, "the child");
    refused_naming(admin.delete_instances_atomic(&ids(&["other", "runs"]), false).await, "runs");
    assert_eq!(admin.list_instances().await.expect("read").len(), 4);
    let all = ids(&["other", "the child", "root", "unknown", "other"]);
    let result = admin.delete_instances_atomic(&all, false).await.expect("deleted");
    assert_eq!((result.instances_deleted, result.events_deleted), (3, 4));
    assert_eq!(admin.list_instances().await.expect("read"), vec!["runs"]);
    assert_eq!(
        admin.delete_instances_atomic(&[], true).await.expect("nothing"),
        DeleteInstanceResult::default()
    );
}

/// Many are deleted by a filter: finished roots only, with their trees.
pub async fn finished_roots_are_deleted_in_bulk(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    for instance in ["old", "busy tree", "young"] {
        store.finish(instance).await;
        factory.advance(Duration::from_millis(20)).await;
    }
    store.begin("runs").await;
    store.begin("between").await;
    store.send(event("between", "go")).await;
    let turn = store.turn_of("between").await;
    store.commit(&turn, Commit::of(&turn).continues_as_new("between")).await;
    store.send(start_child("child", "busy tree", 2)).await;
    let admin = store.admin();
    let ended = admin.get_execution_info("young", 1).await.expect("read").completed_at.expect("ended");
    let filter = InstanceFilter { completed_before: Some(ended), ..Default::default() };
    assert_eq!(admin.delete_instance_bulk(filter).await.expect("deleted").instances_deleted, 1);
    expect_not_found(admin.get_instance_info("old").await);
    let filter = InstanceFilter { instance_ids: Some(ids(&["runs", "unknown"])), ..Default::default() };
    assert_eq!(admin.delete_instance_bulk(filter).await.expect("deleted").instances_deleted, 0);
    let filter = InstanceFilter { limit: Some(0), ..Default::default() };
    assert_eq!(admin.delete_instance_bulk(filter).await.expect("deleted").instances_deleted, 0);
    let result = admin.delete_instance_bulk(InstanceFilter::default()).await.expect("deleted");
    assert_eq!(result.instances_deleted, 1, "a tree with a running member stays whole");
    let mut left = admin.list_instances().await.expect("read");
    left.sort();
    assert_eq!(left, vec!["between", "busy tree", "child", "runs"]);
}

/// The limit of a bulk deletion counts roots.
pub async fn a_bulk_deletion_keeps_its_limit(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    for n in 0..5 {
        store.finish(&format!("i{n}")).await;
    }
    let filter = InstanceFilter { limit: Some(2), ..Default::default() };
    let result = store.admin().delete_instance_bulk(filter.clone()).await.expect("deleted");
    assert_eq!((result.instances_deleted, result.executions_deleted, result.events_deleted), (2, 2, 4));
    assert_eq!(store.admin().list_instances().await.expect("read").len(), 3);
    let some = InstanceFilter {
        instance_ids: Some(ids(&["i4", "i3", "i2"])),
        limit: Some(9),
        completed_before: None,
    };
    assert_eq!(store.admin().delete_instance_bulk(some).await.expect("deleted").instances_deleted, 3);
}

/// A bulk deletion begins with what ended first, whenever it was started.
pub async fn those_that_ended_first_are_deleted_first(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("started first").await;
    store.finish("ended first").await;
    factory.advance(Duration::from_millis(10)).await;
    store.send(event("started first", "go")).await;
    let turn = store.turn_of("started first").await;
    store.commit(&turn, Commit::of(&turn).completes("done")).await;
    let one = InstanceFilter { limit: Some(1), ..Default::default() };
    assert_eq!(store.admin().delete_instance_bulk(one).await.expect("deleted").instances_deleted, 1);
    assert_eq!(store.admin().list_instances().await.expect("read"), vec!["started first"]);
}

/// Whoever deletes or prunes what is finished leaves alone an instance whose execution has ended and whose next
/// one has not begun.
pub async fn bulk_calls_never_remove_an_instance_between_two_executions(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    executions(&store, 2).await;
    factory.advance(Duration::from_millis(10)).await;
    let admin = store.admin();
    let all = InstanceFilter { completed_before: Some(u64::MAX), ..Default::default() };
    for filter in [
        InstanceFilter::default(),
        all.clone(),
        InstanceFilter { instance_ids: Some(ids(&["a"])), ..Default::default() },
        InstanceFilter { instance_ids: Some(ids(&["a"])), ..all.clone() },
    ] {
        let result = admin.delete_instance_bulk(filter).await.expect("nothing to delete");
        assert_eq!(result, DeleteInstanceResult::default());
    }
    refused_naming(admin.delete_instance("a", false).await, "a");
    refused_naming(admin.delete_instances_atomic(&ids(&["a"]), false).await, "a");
    let result = admin.prune_executions_bulk(all, PruneOptions::default()).await.expect("pruned");
    assert_eq!(result, PruneResult::default(), "it has not ended");
    let result = admin.prune_executions("a", PruneOptions::default()).await.expect("pruned");
    assert_eq!(result.executions_deleted, 1);
    assert_eq!(admin.get_instance_info("a").await.expect("read").status, "Running");
    let turn = store.turn_of("a").await;
    assert_eq!((turn.item.execution_id, turn.item.messages.len()), (2, 1), "it goes on");
}

/// Lets `a` go through this many executions; the last one runs.
async fn executions(store: &Store<'_>, count: u64) {
    store.begin("a").await;
    store.send(event("a", "go")).await;
    for execution_id in 1..count {
        let turn = store.turn_of("a").await;
        assert_eq!(turn.item.execution_id, execution_id);
        store.factory.advance(Duration::from_millis(20)).await;
        store.commit(&turn, Commit::of(&turn).continues_as_new("a")).await;
    }
}

/// Old executions are pruned, the current one never.
pub async fn the_current_execution_is_never_pruned(factory: &dyn ProviderFactory) {
    for keep_last in [None, Some(0), Some(1)] {
        let store = Store::new(factory).await;
        executions(&store, 4).await;
        let options = PruneOptions { keep_last, completed_before: None };
        let result = store.admin().prune_executions("a", options.clone()).await.expect("pruned");
        let expected = PruneResult { instances_processed: 1, executions_deleted: 3, events_deleted: 1 };
        assert_eq!(result, expected, "{keep_last:?}");
        assert_eq!(store.admin().list_executions("a").await.expect("read"), vec![4]);
        let again = store.admin().prune_executions("a", options).await.expect("pruned");
        assert_eq!(again.executions_deleted, 0);
        assert_eq!(store.turn_of("a").await.item.execution_id, 4, "it goes on");
    }
}

/// The latest executions are kept, as many as asked for, and those that ended late enough.
pub async fn pruning_keeps_what_it_is_told_to_keep(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    executions(&store, 5).await;
    let admin = store.admin();
    let ended = admin.get_execution_info("a", 2).await.expect("read").completed_at.expect("ended");
    let options = PruneOptions { keep_last: None, completed_before: Some(ended) };
    assert_eq!(admin.prune_executions("a", options).await.expect("pruned").executions_deleted, 1);
    assert_eq!(admin.list_executions("a").await.expect("read"), vec![2, 3, 4, 5]);
    let options = PruneOptions { keep_last: Some(2), completed_before: None };
    assert_eq!(admin.prune_executions("a", options).await.expect("pruned").executions_deleted, 2);
    assert_eq!(admin.list_executions("a").await.expect("read"), vec![4, 5]);
    assert_eq!(store.provider.read_with_execution("a", 1).await.expect("read"), vec![]);
    let options = PruneOptions { keep_last: Some(100), completed_before: None };
    assert_eq!(admin.prune_executions("a", options).await.expect("pruned").executions_deleted, 0);
}

/// Old executions of many instances are pruned, also of running ones: those are the ones that grow.
pub async fn executions_are_pruned_in_bulk(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.finish("b").await;
    executions(&store, 3).await;
    let admin = store.admin();
    let none = InstanceFilter { instance_ids: Some(ids(&["unknown"])), ..Default::default() };
    let result = admin.prune_executions_bulk(none, PruneOptions::default()).await.expect("pruned");
    assert_eq!(result, PruneResult::default());
    let result = admin
        .prune_executions_bulk(InstanceFilter::default(), PruneOptions::default())
        .await
        .expect("pruned");
    assert_eq!((result.executions_deleted, result.events_deleted), (2, 1));
    assert_eq!(admin.list_executions("a").await.expect("read"), vec![3]);
    assert_eq!(admin.list_executions("b").await.expect("read"), vec![1]);
}

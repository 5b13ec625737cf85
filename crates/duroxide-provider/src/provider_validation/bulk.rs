//! Large calls: more rows in one call than a database accepts variables.

use super::ProviderFactory;
use super::fixture::{Commit, Store, activity, event, happened, named, queue_message, start, start_child};
use crate::EventKind;
use crate::TagFilter;

/// Rows in one call. SQLite accepts 32,766 variables in one statement, PostgreSQL 65,535.
const MANY: u64 = 50_000;

/// One turn may append any number of events.
pub async fn a_turn_appends_fifty_thousand_events(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    store.send(event("a", "go")).await;
    let turn = store.turn_of("a").await;
    let status = |n: u64| happened(n, "a", EventKind::CustomStatusUpdated { status: Some(n.to_string()) });
    store.commit(&turn, Commit::of(&turn).events((2..2 + MANY).map(status))).await;
    store.send(event("a", "go")).await;
    let history = store.turn_of("a").await.item.history;
    assert_eq!(history.len() as u64, MANY + 1);
    assert!((1..).zip(&history).all(|(id, event)| event.event_id == id));
    let (status, version) = store.provider.get_custom_status("a", 0).await.expect("read").expect("set");
    assert_eq!((status, version), (Some((MANY + 1).to_string()), MANY));
}

/// One turn may schedule any number of activities, and give them all up again.
pub async fn a_turn_schedules_and_cancels_fifty_thousand_activities(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_with("a", |commit| commit.work((2..2 + MANY).map(|id| activity("a", id)))).await;
    let queued = store.admin().get_queue_depths().await.expect("read").worker_queue;
    assert_eq!(queued as u64, MANY);
    let runs = store.work().await;
    store.send(event("a", "go")).await;
    let turn = store.turn_of("a").await;
    store.commit(&turn, Commit::of(&turn).cancels((2..1 + MANY).map(|id| named("a", id)))).await;
    assert_eq!(store.admin().get_queue_depths().await.expect("read").worker_queue, 1);
    super::fixture::expect_lock_lost(store.provider.renew_work_item_lock(&runs.token, store.lock).await);
    assert_eq!(
        store.fetch_tagged(&TagFilter::Any).await.expect("the last one").item,
        activity("a", 1 + MANY)
    );
}

/// One turn may send any number of messages, and put any number back.
pub async fn a_turn_sends_fifty_thousand_messages(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("b").await;
    store.begin("a").await;
    store.send(event("a", "go")).await;
    let turn = store.turn_of("a").await;
    let to_b = (0..MANY).map(|n| queue_message("b", &n.to_string()));
    let put_back = (0..MANY).map(|n| queue_message("a", &n.to_string()));
    store.commit(&turn, Commit::of(&turn).messages(to_b).messages(put_back)).await;
    let mut seen = [0_u64; 2];
    while let Some(turn) = store.fetch().await {
        let count = &mut seen[usize::from(turn.item.instance == "b")];
        for message in &turn.item.messages {
            assert_eq!(*message, queue_message(&turn.item.instance, &count.to_string()));
            *count += 1;
        }
        store.pass(&turn).await;
    }
    assert_eq!(seen, [MANY, MANY]);
}

/// One turn may start any number of instances; any number is deleted in one call.
pub async fn a_turn_starts_many_instances_and_one_call_deletes_them(factory: &dyn ProviderFactory) {
    const INSTANCES: u64 = 5_000;
    let store = Store::new(factory).await;
    let ids: Vec<String> = (0..INSTANCES).map(|n| format!("i{n}")).collect();
    store.begin_with("a", |commit| commit.messages(ids.iter().map(|id| start(id)))).await;
    assert_eq!(store.admin().get_system_metrics().await.expect("read").total_instances, INSTANCES + 1);
    let mut doomed = ids.clone();
    doomed.extend((0..MANY).map(|n| format!("unknown {n}")));
    let result = store.admin().delete_instances_atomic(&doomed, true).await.expect("deleted");
    assert_eq!((result.instances_deleted, result.queue_messages_deleted), (INSTANCES, INSTANCES));
    assert_eq!(store.admin().list_instances().await.expect("read"), vec!["a"]);
}

/// A root goes with all of its tree, in one call; one child that runs keeps it.
pub async fn a_root_is_deleted_with_two_thousand_children(factory: &dyn ProviderFactory) {
    const CHILDREN: u64 = 2_000;
    let store = Store::new(factory).await;
    let starts = (0..CHILDREN).map(|n| match n {
        // A chain among them, so that the tree is deep as well as wide.
        1..=100 => start_child(&format!("c{n}"), &format!("c{}", n - 1), 2),
        _ => start_child(&format!("c{n}"), "root", 2 + n),
    });
    store.begin_with("root", |commit| commit.messages(starts).completes("done")).await;
    assert_eq!(store.admin().get_instance_tree("root").await.expect("read").size() as u64, CHILDREN + 1);
    super::fixture::expect_invalid(store.admin().delete_instance("root", false).await);
    for _ in 0..CHILDREN {
        let turn = store.fetch().await.expect("a child is ready");
        store.commit(&turn, Commit::of(&turn).completes("done")).await;
    }
    let result = store.admin().delete_instance("root", false).await.expect("deleted");
    assert_eq!((result.instances_deleted, result.executions_deleted), (CHILDREN + 1, CHILDREN + 1));
    assert_eq!(store.admin().get_system_metrics().await.expect("read"), Default::default());
}

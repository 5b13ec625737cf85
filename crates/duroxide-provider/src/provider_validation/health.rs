//! A store tells what its queues hold and what nobody takes, and puts back what is missing. One without the extension
//! tells nothing and repairs nothing.

use std::time::Duration;

use duroxide_core::ItemKind;
use duroxide_core::health::QueuedMessage;

use super::ProviderFactory;
use super::fixture::{
    Store, activity, event, expect_invalid, expect_not_found, scheduled, start, start_child, timer,
};
use crate::{RepairInstance, WorkItem};

fn note() -> WorkItem {
    WorkItem::Repaired { instance: "a".to_string(), put_back: 3, by: "ops".to_string(), at_ms: 5 }
}

fn request() -> RepairInstance {
    RepairInstance {
        instance: "a".to_string(),
        execution_id: 1,
        last_event_id: 2,
        activities: vec![activity("a", 2)],
        messages: vec![timer("a", 3, 0), start_child("b", "a", 4)],
        note: note(),
    }
}

/// `a` has begun and scheduled activity 2.
async fn begin(store: &Store<'_>) {
    store.begin_with("a", |commit| commit.events([scheduled(2, "a")]).work([activity("a", 2)])).await;
}

/// What the queues hold is told together with the place in the history at which they hold it.
pub async fn the_queues_of_an_instance_are_told(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    begin(&store).await;
    store.send_all([event("a", "x"), timer("a", 3, u64::MAX)]).await;
    let Some(queued) = store.admin().queued_for("a").await.expect("it can be asked") else {
        assert!(store.admin().health_facts(0).await.expect("it can be asked").is_none());
        return;
    };
    assert_eq!((queued.execution_id, queued.last_event_id, queued.is_locked), (1, 2, false));
    assert_eq!(queued.work.into_iter().collect::<Vec<_>>(), [(1, 2)]);
    let timer = QueuedMessage { kind: ItemKind::Timer, execution_id: Some(1), event_id: Some(3) };
    let message = QueuedMessage { kind: ItemKind::Event, execution_id: None, event_id: None };
    assert_eq!(queued.messages.len(), 2);
    assert!(queued.messages.contains(&timer) && queued.messages.contains(&message));
    let turn = store.turn_of("a").await;
    let queued = store.admin().queued_for("a").await.expect("it can be asked");
    assert!(queued.is_some_and(|queued| queued.is_locked));
    store.pass(&turn).await;
    store.finish("ended").await;
    assert_eq!(store.admin().queued_for("ended").await.expect("it can be asked"), None);
    assert_eq!(store.admin().queued_for("unknown").await.expect("it can be asked"), None);
}

/// What is ready is counted once it has been for as long as was asked for.
pub async fn what_is_overdue_is_counted(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    begin(&store).await;
    store.send_all([event("a", "x"), event("early", "x")]).await;
    let Some(facts) = store.admin().health_facts(0).await.expect("it can be asked") else { return };
    let counts = (facts.overdue_turns.count, facts.overdue_work.count, facts.early_messages.count);
    assert_eq!(counts, (1, 1, 1));
    assert_eq!((facts.expired_turn_locks.count, facts.expired_work_locks.count), (0, 0));
    assert!(facts.overdue_turns.oldest_ms.is_some_and(|oldest| oldest > 0));
    let hour = 60 * 60 * 1000;
    let facts = store.admin().health_facts(hour).await.expect("it can be asked").expect("it can tell");
    assert_eq!((facts.overdue_turns.count, facts.overdue_work.count), (0, 0));
    let (_turn, _work) = (store.turn_of("a").await, store.work().await);
    store.expire_locks().await;
    let facts = store.admin().health_facts(0).await.expect("it can be asked").expect("it can tell");
    assert_eq!((facts.expired_turn_locks.count, facts.expired_work_locks.count), (1, 1));
    assert_eq!((facts.overdue_turns.count, facts.overdue_work.count), (0, 0));
}

/// A repair puts back what is not there, once, and the note with it.
pub async fn a_repair_puts_back_what_is_missing(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    begin(&store).await;
    let work = store.work().await;
    store.provider.ack_work_item(&work.token, None).await.expect("the work item is gone");
    if store.admin().queued_for("a").await.expect("it can be asked").is_none() {
        store.admin().repair(request()).await.expect_err("the store cannot do it");
        return;
    }
    assert_eq!(store.admin().repair(request()).await.expect("repaired"), 3);
    assert_eq!(store.admin().repair(request()).await.expect("nothing to do"), 0);
    let work = store.work().await;
    assert_eq!((&work.item, work.attempts), (&activity("a", 2), 1));
    let mut turns = [store.fetch().await.expect("ready"), store.fetch().await.expect("ready")];
    turns.sort_by(|one, other| one.item.instance.cmp(&other.item.instance));
    assert_eq!(turns[0].item.messages, [timer("a", 3, 0), note()]);
    assert_eq!(turns[1].item.messages, [start_child("b", "a", 4)]);
}

/// Nothing is put back into an instance that is not as it was looked at.
pub async fn a_repair_of_something_else_changes_nothing(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    begin(&store).await;
    if store.admin().queued_for("a").await.expect("it can be asked").is_none() {
        return;
    }
    store.finish("ended").await;
    for wrong in [
        RepairInstance { instance: "ended".to_string(), ..request() },
        RepairInstance { execution_id: 2, ..request() },
        RepairInstance { last_event_id: 1, ..request() },
        RepairInstance { activities: vec![event("a", "no work item")], ..request() },
        RepairInstance { messages: vec![activity("a", 2)], ..request() },
    ] {
        expect_invalid(store.admin().repair(wrong).await);
    }
    let unknown = RepairInstance { instance: "unknown".to_string(), ..request() };
    expect_not_found(store.admin().repair(unknown).await);
    store.expect_no_turn().await;
    store.send(event("a", "x")).await;
    let turn = store.turn_of("a").await;
    expect_invalid(store.admin().repair(request()).await);
    store.pass(&turn).await;
    store.provider.enqueue_for_orchestrator(start("c"), Some(Duration::ZERO)).await.expect("taken");
    assert_eq!(store.turn_of("c").await.item.messages, [start("c")]);
}

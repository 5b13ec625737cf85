//! Every call does all it says, or nothing.

use super::ProviderFactory;
use super::fixture::{
    Commit, Store, activity, cancel, completed, event, expect_invalid, expect_lock_lost, happened, named,
    scheduled, start, started,
};
use crate::EventKind;
use crate::WorkItem;

/// A turn's events, work items, messages and state are there at once, and its messages are gone.
pub async fn a_turn_commits_all_its_parts_together(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("other").await;
    store.send(start("a")).await;
    let turn = store.turn_of("a").await;
    let set = EventKind::KeyValueSet { key: "k".into(), value: "v".into(), last_updated_at_ms: 5 };
    let custom = EventKind::CustomStatusUpdated { status: Some("busy".into()) };
    let events = vec![started("a", 1), scheduled(2, "a"), happened(3, "a", set), happened(4, "a", custom)];
    let commit =
        Commit::of(&turn).events(events.clone()).work([activity("a", 2)]).messages([event("other", "hello")]);
    store.commit(&turn, commit).await;

    assert_eq!(store.history("a").await, events);
    assert_eq!(store.provider.get_kv_value("a", "k").await.expect("read"), Some("v".to_string()));
    let custom = store.provider.get_custom_status("a", 0).await.expect("read");
    assert_eq!(custom, Some((Some("busy".to_string()), 1)));
    assert_eq!(store.work().await.item, activity("a", 2));
    assert_eq!(store.turn_of("other").await.item.messages, vec![event("other", "hello")]);
    store.expect_no_turn().await;
}

/// A turn that is refused for one part leaves no part behind, and may be committed once it is right.
pub async fn a_refused_turn_changes_nothing(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("other").await;
    store.begin_with("a", |commit| commit.work([activity("a", 9)])).await;
    store.send(event("a", "go")).await;
    let turn = store.turn_of("a").await;
    let set = EventKind::KeyValueSet { key: "k".into(), value: "v".into(), last_updated_at_ms: 5 };
    let good = Commit::of(&turn)
        .events([scheduled(2, "a"), happened(3, "a", set)])
        .work([activity("a", 2)])
        .messages([event("other", "hello"), start("new")])
        .cancels([named("a", 9)])
        .completes("done");
    let wrong = [
        ("an event that is stored", good.clone().events([started("a", 1)])),
        ("an event given twice", good.clone().events([scheduled(2, "a")])),
        ("a message as work", good.clone().work([event("a", "x")])),
        ("work as a message", good.clone().messages([activity("a", 4)])),
        ("work without an instance", good.clone().work([activity("", 4)])),
        ("a message without an instance", good.clone().messages([event("", "x")])),
    ];
    for (what, commit) in wrong {
        let refused = store.try_commit(&turn, commit).await;
        let error = refused.expect_err(what);
        assert_eq!(error.kind(), crate::ProviderErrorKind::Invalid, "{what}: {error}");
        assert_eq!(store.history("a").await.len(), 1, "{what}");
        assert_eq!(store.provider.get_kv_value("a", "k").await.expect("read"), None, "{what}");
        assert_eq!(store.history("new").await, vec![], "{what}");
        store.expect_no_turn().await;
        let queued = store.admin().get_queue_depths().await.expect("read");
        assert_eq!((queued.worker_queue, queued.orchestrator_queue), (1, 1), "{what}");
        assert_eq!(store.admin().get_instance_info("a").await.expect("read").status, "Running", "{what}");
    }
    store.commit(&turn, good).await;
    assert_eq!(store.history("a").await.len(), 3);
    assert_eq!(store.turn_of("other").await.item.messages, vec![event("other", "hello")]);
}

/// The completion of an activity and the deletion of its work item are one step.
pub async fn a_work_item_is_replaced_by_its_completion(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_with("a", |commit| commit.work([activity("a", 2)])).await;
    let work = store.work().await;
    store.expect_no_turn().await;
    store.complete(&work).await;
    assert_eq!(store.turn_of("a").await.item.messages, vec![completed("a", 2)]);
    store.expire_locks().await;
    store.expect_no_work().await;
}

/// Whatever is not a completion is refused in the place of one; the work item stays locked and whole.
pub async fn a_work_item_is_completed_by_completions_only(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_with("a", |commit| commit.work([activity("a", 2)])).await;
    let work = store.work().await;
    let nameless = WorkItem::ActivityCompleted {
        instance: String::new(),
        execution_id: 1,
        id: 2,
        result: String::new(),
    };
    for wrong in [activity("a", 3), start("b"), event("a", "x"), cancel("a"), nameless] {
        expect_invalid(store.provider.ack_work_item(&work.token, Some(wrong)).await);
    }
    store.expect_no_turn().await;
    store.complete(&work).await;
    assert_eq!(store.turn_of("a").await.item.messages, vec![completed("a", 2)]);
}

/// The queues take only what belongs into them.
pub async fn each_queue_refuses_what_belongs_into_the_other(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    expect_invalid(store.try_send(activity("a", 2)).await);
    expect_invalid(store.try_send(event("", "x")).await);
    expect_invalid(store.try_send(start("")).await);
    for wrong in [start("a"), event("a", "x"), completed("a", 2), cancel("a"), activity("", 2)] {
        expect_invalid(store.provider.enqueue_for_worker(wrong).await);
    }
    store.expect_no_turn().await;
    store.expect_no_work().await;
}

/// A turn whose answer was lost was committed once; to commit it again finds the lock gone.
pub async fn a_repeated_ack_is_a_lost_lock_and_changes_nothing(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send(start("a")).await;
    let turn = store.turn_of("a").await;
    let commit = Commit::of(&turn).events([started("a", 1), scheduled(2, "a")]).work([activity("a", 2)]);
    store.commit(&turn, commit.clone()).await;
    expect_lock_lost(store.try_commit(&turn, commit).await);
    assert_eq!(store.history("a").await.len(), 2);
    let work = store.work().await;
    store.expect_no_work().await;
    store.complete(&work).await;
    expect_lock_lost(store.provider.ack_work_item(&work.token, Some(completed("a", 2))).await);
    assert_eq!(store.turn_of("a").await.item.messages.len(), 1);
}

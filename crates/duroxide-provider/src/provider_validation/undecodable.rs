//! Nothing undecodable is dropped, and nothing undecodable blocks.

use duroxide_core::{ErrorDetails, ItemKind};

use super::ProviderFactory;
use super::fixture::{
    Commit, Store, activity, cancel, completed, event, expect_kind, failed_event, queue_message, scheduled,
    start, start_child, timer,
};
use crate::{ProviderErrorKind, WorkItem};

/// An undecodable history comes as an item without history that says where and why.
pub async fn an_undecodable_history_is_delivered_as_such(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    factory.corrupt_instance_history("a").await;
    store.send_all([event("a", "1"), event("a", "2")]).await;
    let turn = store.turn_of("a").await;
    assert_eq!(turn.item.history, vec![]);
    assert_eq!(turn.item.messages, vec![event("a", "1"), event("a", "2")]);
    assert_eq!((turn.item.execution_id, turn.item.orchestration_name.as_str()), (1, "Validate"));
    let error = turn.item.history_error.expect("the history does not decode");
    assert!(
        error.starts_with("event at position 1: ") && error.len() > "event at position 1: ".len(),
        "{error}"
    );
}

/// A backoff for an undecodable history is a backoff like any other.
pub async fn an_undecodable_history_backs_off_like_any_other(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    factory.corrupt_instance_history("a").await;
    store.send(event("a", "go")).await;
    for attempt in 1..=4 {
        let turn = store.turn_of("a").await;
        assert_eq!(turn.attempts, attempt);
        store.abandon(&turn, Some(store.lock)).await;
        store.send(event("a", "more")).await;
        store.expect_no_turn().await;
        factory.advance(store.lock).await;
    }
}

/// An instance with an undecodable history can be ended: its failure is appended and its status readable.
pub async fn an_undecodable_instance_can_be_ended(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    factory.corrupt_instance_history("a").await;
    store.send(event("a", "go")).await;
    let turn = store.turn_of("a").await;
    let details = ErrorDetails::orchestration_failed("cannot be read");
    let commit = Commit::of(&turn).events([failed_event(2, "a", &details)]).fails("cannot be read");
    store.commit(&turn, commit).await;
    let info = store.admin().get_instance_info("a").await.expect("read");
    assert_eq!((info.status.as_str(), info.output.as_deref()), ("Failed", Some("cannot be read")));
    store.expect_no_turn().await;
    store.admin().delete_instance("a", false).await.expect("it has ended");
}

/// Where the extension is there, the event id and the parent to end it with come from columns.
pub async fn the_facts_of_an_undecodable_instance_come_from_columns(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.provider.separates_suspects() {
        return;
    }
    store.begin("parent").await;
    store.send(start_child("a", "parent", 3)).await;
    let turn = store.turn_of("a").await;
    store.commit(&turn, Commit::of(&turn).events([super::fixture::started("a", 1), scheduled(2, "a")])).await;
    factory.corrupt_instance_history("a").await;
    store.send(event("a", "go")).await;
    let request = crate::TurnRequest {
        lock_timeout: store.lock,
        poll_timeout: std::time::Duration::ZERO,
        filter: None,
        handlers: None,
        max_items: 5,
        suspects: crate::Suspects::AtMost(1),
        holder: crate::LockHolder::UNKNOWN,
        held: std::sync::Arc::new(crate::NothingHeld),
    };
    let turns = store.provider.fetch_turns(request).await.expect("a fetch does not fail");
    assert_eq!(turns.len(), 1);
    assert!(turns[0].item.history_error.is_some());
    let facts = turns[0].facts.clone().expect("told");
    assert_eq!(facts.last_event_id, 2);
    assert_eq!(facts.parent.map(|link| (link.instance, link.event_id)), Some(("parent".to_string(), 3)));
}

/// To read an undecodable history is an error that says where, never a shorter history.
pub async fn reading_an_undecodable_history_is_an_error(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("broken one").await;
    factory.corrupt_instance_history("broken one").await;
    let read = store.provider.read("broken one").await;
    let error = read.clone().expect_err("it does not decode").to_string();
    assert!(error.contains("broken one"), "{error}");
    expect_kind(read, ProviderErrorKind::Corrupt);
    expect_kind(store.provider.read_with_execution("broken one", 1).await, ProviderErrorKind::Corrupt);
    expect_kind(store.admin().read_history("broken one").await, ProviderErrorKind::Corrupt);
    expect_kind(
        store.admin().read_history_with_execution_id("broken one", 1).await,
        ProviderErrorKind::Corrupt,
    );
    assert_eq!(store.admin().get_instance_info("broken one").await.expect("a column").status, "Running");
}

/// An undecodable instance keeps no other one waiting.
pub async fn an_undecodable_instance_blocks_no_other(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("broken").await;
    factory.corrupt_instance_history("broken").await;
    store.begin("whole").await;
    store.send_all([event("broken", "go"), event("whole", "go")]).await;
    let broken = store.turn_of("broken").await;
    let whole = store.turn_of("whole").await;
    assert_eq!(whole.item.history_error, None);
    store.pass(&whole).await;
    store.abandon(&broken, Some(store.lock)).await;
    store.send(event("whole", "go on")).await;
    store.turn_of("whole").await;
}

/// An undecodable event, queue message or cancel is set aside; the instance goes on with the rest.
pub async fn an_undecodable_event_is_set_aside(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    store.send_all([event("a", "bad"), queue_message("a", "bad"), cancel("a"), completed("a", 2)]).await;
    if !store.corrupt_messages("a", ItemKind::Event).await
        || !store.corrupt_messages("a", ItemKind::Cancel).await
    {
        return;
    }
    store.send(event("a", "good")).await;
    let turn = store.turn_of("a").await;
    assert_eq!(turn.item.messages, vec![completed("a", 2), event("a", "good")]);
    assert_eq!((turn.item.history_error, turn.attempts), (None, 1));
    assert_eq!(turn.item.history.len(), 1);
}

/// When nothing is left to admit, the instance is not returned, and the next one is.
pub async fn an_inbox_of_nothing_but_undecodable_events_is_passed_over(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    store.begin("b").await;
    store.send_all([event("a", "bad"), event("a", "bad too"), event("b", "go")]).await;
    if !store.corrupt_messages("a", ItemKind::Event).await {
        return;
    }
    store.turn_of("b").await;
    store.expect_no_turn().await;
    store.expire_locks().await;
    assert_eq!(store.turn_of("b").await.attempts, 2);
    store.send(event("a", "good")).await;
    let turn = store.turn_of("a").await;
    assert_eq!((turn.item.messages, turn.attempts), (vec![event("a", "good")], 1));
}

/// The same for an instance whose lock expired meanwhile: it is passed over, and what comes later reaches it.
pub async fn an_expired_turn_of_nothing_but_undecodable_events_is_passed_over(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    store.send(event("a", "bad")).await;
    store.turn_of("a").await;
    if !store.corrupt_messages("a", ItemKind::Event).await {
        return;
    }
    store.send_after(event("a", "good"), store.lock * 2).await;
    store.expire_locks().await;
    store.expect_no_turn().await;
    store.expire_locks().await;
    assert_eq!(store.turn_of("a").await.item.messages, vec![event("a", "good")]);
}

/// A start that does not decode cannot be done without: the item says so, counted each time.
pub async fn an_undecodable_start_is_delivered_as_such(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send_all([start("a"), event("a", "good")]).await;
    if !store.corrupt_messages("a", ItemKind::Start).await {
        return;
    }
    for attempt in 1..=3 {
        let turn = store.turn_of("a").await;
        let error = turn.item.history_error.as_deref().expect("the start does not decode");
        assert!(error.starts_with("message at position 1: "), "{error}");
        assert_eq!(turn.item.messages, vec![event("a", "good")]);
        assert_eq!(turn.attempts, attempt);
        store.abandon(&turn, None).await;
    }
}

/// The same for a completion and a timer, wherever they stand; what decodes comes along.
pub async fn an_undecodable_completion_is_delivered_as_such(factory: &dyn ProviderFactory) {
    for (bad, kind) in [(completed("a", 2), ItemKind::Completion), (timer("a", 2, 1), ItemKind::Timer)] {
        let store = Store::new(factory).await;
        store.begin("a").await;
        store.send(event("a", "good")).await;
        store.send(bad).await;
        if !store.corrupt_messages("a", kind).await {
            return;
        }
        let turn = store.turn_of("a").await;
        let error = turn.item.history_error.as_deref().expect("the message does not decode");
        assert!(error.starts_with("message at position "), "{error}");
        assert_eq!((turn.item.history, turn.item.messages), (vec![], vec![event("a", "good")]));
        let details = ErrorDetails::orchestration_failed("cannot be read");
        let commit = Commit { execution_id: 1, ..Commit::default() };
        let commit = commit.events([failed_event(2, "a", &details)]).fails("cannot be read");
        let ended = store
            .provider
            .ack_orchestration_item(&turn.token, 1, commit.events, vec![], vec![], commit.metadata, vec![])
            .await;
        ended.expect("it can be ended");
        assert_eq!(store.admin().get_queue_depths().await.expect("read").orchestrator_queue, 0);
    }
}

/// An undecodable work item fails its activity and keeps no other waiting.
pub async fn an_undecodable_work_item_fails_its_activity(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_with("a", |commit| commit.work([activity("a", 2)])).await;
    if factory.corrupt_work_item("a").await.is_none() {
        return;
    }
    store.queue_work(activity("b", 3)).await;
    assert_eq!(store.work().await.item, activity("b", 3));
    store.expire_locks().await;
    assert_eq!(store.work().await.item, activity("b", 3));
    let messages = store.turn_of("a").await.item.messages;
    let [WorkItem::ActivityFailed { execution_id, id, details, .. }] = messages.as_slice() else {
        panic!("the activity has failed, but got {messages:?}");
    };
    assert_eq!((*execution_id, *id, details.is_retryable()), (1, 2, false));
    let text = details.display_message();
    assert!(text.starts_with("the stored work item of activity 'Act' cannot be decoded: "), "{text}");
}

/// An undecodable work item whose instance is gone fails nothing and blocks nothing.
pub async fn an_undecodable_work_item_of_nobody_is_passed_over(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.queue_work(activity("nobody", 2)).await;
    if factory.corrupt_work_item("nobody").await.is_none() {
        return;
    }
    store.expect_no_work().await;
    store.expect_no_turn().await;
    assert_eq!(store.admin().get_queue_depths().await.expect("read").worker_queue, 0);
}

/// An undecodable suspect is set aside, not run: it does not take the place of the suspect behind it.
pub async fn an_undecodable_suspect_hides_no_other(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("bad").await;
    store.begin("good").await;
    for instance in ["bad", "good"] {
        store.queue_work(activity(instance, 2)).await;
        store.send(event(instance, "go")).await;
        store.work().await;
        store.turn_of(instance).await;
    }
    store.expire_locks().await;
    let corrupted = factory.corrupt_work_item("bad").await.is_some();
    if !corrupted || !store.corrupt_messages("bad", ItemKind::Event).await {
        return;
    }
    let work = store.work().await;
    assert_eq!((work.item, work.attempts), (activity("good", 2), 2));
    let turn = store.fetch().await.expect("ready");
    if turn.item.instance == "bad" {
        // The failure of its activity has reached it.
        store.turn_of("good").await;
    } else {
        assert_eq!(turn.item.instance, "good");
    }
}

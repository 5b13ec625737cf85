//! Turns: locks, attempts, put-backs, and what a large turn costs.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{
    ExecutionMetadata, HeldHistories, HeldHistory, HistoryPart, Provider, ProviderAdmin, ProviderErrorKind,
    ScheduledActivityIdentifier, Suspects, WorkItem,
};
use duroxide::{DispatcherCapabilityFilter, EventKind, SemverRange};
use semver::Version;

use crate::fixture::{
    Ack, LONG, NOW, activity, assert_kind, completed, enqueue, event, fetch, fetch_nothing, fetch_turn,
    in_memory, raised, scheduled, start, timer, turn_request,
};

#[tokio::test]
async fn fifty_thousand_activities_are_scheduled_and_cancelled_in_one_ack_each() {
    const MANY: u64 = 50_000;
    let (store, _) = in_memory().await;
    enqueue(&store, start("a")).await;
    let (_, token, _) = fetch(&store).await;
    let work: Vec<WorkItem> = (1..=MANY).map(|id| activity("a", id)).collect();
    Ack { work, ..Ack::default() }.commit(&store, &token).await.unwrap();
    assert_eq!(store.get_queue_depths().await.unwrap().worker_queue, 50_000);
    enqueue(&store, raised("a", "x")).await;
    let (_, token, _) = fetch(&store).await;
    let cancelled = (1..=MANY)
        .map(|activity_id| ScheduledActivityIdentifier {
            instance: "a".to_string(),
            execution_id: 1,
            activity_id,
        })
        .collect();
    store
        .ack_orchestration_item(&token, 1, vec![], vec![], vec![], ExecutionMetadata::default(), cancelled)
        .await
        .unwrap();
    assert_eq!(store.get_queue_depths().await.unwrap().worker_queue, 0);
}

#[tokio::test]
async fn messages_that_arrive_during_a_turn_wait_for_the_next() {
    let (store, clock) = in_memory().await;
    enqueue(&store, start("a")).await;
    let (_, token, _) = fetch(&store).await;
    clock.advance(Duration::from_millis(5));
    enqueue(&store, raised("a", "meanwhile")).await;
    // Due long ago: it stands before the locked start in the inbox, and is not part of the turn all the same.
    enqueue(&store, timer("a", 2, 5)).await;
    fetch_nothing(&store).await;
    Ack::default().commit(&store, &token).await.unwrap();
    let (item, _, attempts) = fetch(&store).await;
    assert_eq!(item.messages, [timer("a", 2, 5), raised("a", "meanwhile")]);
    assert_eq!(attempts, 1);
}

#[tokio::test]
async fn attempts_are_counted_per_message_and_taken_back_when_ignored() {
    let (store, clock) = in_memory().await;
    enqueue(&store, start("a")).await;
    let (_, token, attempts) = fetch(&store).await;
    assert_eq!((attempts, store.max_attempt_count("a").await.unwrap()), (1, 1));
    store.abandon_orchestration_item(&token, None, true).await.unwrap();
    assert_eq!(store.max_attempt_count("a").await.unwrap(), 0);
    let (_, _, attempts) = fetch(&store).await;
    assert_eq!(attempts, 1);
    enqueue(&store, raised("a", "x")).await;
    clock.advance(LONG);
    let turn = fetch_turn(&store).await;
    assert_eq!((turn.attempts, turn.item.messages.len()), (2, 2));
    assert!(turn.facts.unwrap().suspect);
    // Given back uncounted, it is a suspect still.
    store.abandon_orchestration_item(&turn.lock_token, None, true).await.unwrap();
    let mut refusing = turn_request(1, NOW);
    refusing.suspects = Suspects::Refuse;
    assert!(store.fetch_turns(refusing).await.unwrap().is_empty());
    let turn = fetch_turn(&store).await;
    assert_eq!((turn.attempts, turn.facts.unwrap().suspect), (2, true));
    store.abandon_orchestration_item(&turn.lock_token, None, false).await.unwrap();
    assert!(!fetch_turn(&store).await.facts.unwrap().suspect);
}

#[tokio::test]
async fn an_expired_lock_commits_nothing() {
    let (store, clock) = in_memory().await;
    enqueue(&store, start("a")).await;
    let (_, token, _) = fetch(&store).await;
    clock.advance(LONG);
    let late = Ack { events: vec![scheduled("a", 1)], work: vec![activity("a", 1)], ..Ack::default() };
    assert_kind(late.commit(&store, &token).await, ProviderErrorKind::LockLost, "");
    assert_kind(store.renew_orchestration_item_lock(&token, LONG).await, ProviderErrorKind::LockLost, "");
    assert!(store.read("a").await.unwrap().is_empty());
    assert_eq!(store.get_queue_depths().await.unwrap().worker_queue, 0);
}

#[tokio::test]
async fn a_backoff_holds_until_its_end_or_a_cancel() {
    let cancel = || WorkItem::CancelInstance { instance: "a".to_string(), reason: "r".to_string() };
    let (store, clock) = in_memory().await;
    enqueue(&store, start("a")).await;
    let (_, token, _) = fetch(&store).await;
    store.abandon_orchestration_item(&token, Some(Duration::from_secs(30)), false).await.unwrap();
    enqueue(&store, raised("a", "x")).await;
    fetch_nothing(&store).await;
    enqueue(&store, cancel()).await;
    let (item, token, _) = fetch(&store).await;
    assert_eq!(item.messages.len(), 3);
    // A cancel that arrives while the turn is under way ends the backoff that the turn asks for.
    enqueue(&store, cancel()).await;
    store.abandon_orchestration_item(&token, Some(Duration::from_secs(30)), false).await.unwrap();
    let (_, token, _) = fetch(&store).await;
    store.abandon_orchestration_item(&token, Some(Duration::from_secs(30)), false).await.unwrap();
    fetch_nothing(&store).await;
    clock.advance(Duration::from_secs(30));
    fetch(&store).await;
}

#[tokio::test]
async fn continue_as_new_puts_unread_events_before_what_arrived_meanwhile() {
    let (store, _) = in_memory().await;
    enqueue(&store, start("a")).await;
    enqueue(&store, raised("a", "1")).await;
    let (_, token, _) = fetch(&store).await;
    enqueue(&store, raised("a", "3")).await;
    let next = WorkItem::ContinueAsNew {
        instance: "a".to_string(),
        orchestration: "Flow".to_string(),
        input: String::new(),
        version: None,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        carry_forward_events: Vec::new(),
        initial_custom_status: None,
    };
    let messages = vec![next.clone(), raised("a", "1"), raised("a", "2")];
    Ack { messages, ..Ack::default() }.status("ContinuedAsNew").commit(&store, &token).await.unwrap();
    let (item, ..) = fetch(&store).await;
    assert_eq!(item.execution_id, 2);
    assert_eq!(item.messages, [next, raised("a", "1"), raised("a", "2"), raised("a", "3")]);
    assert_eq!(store.list_executions("a").await.unwrap(), [1, 2]);
    assert_eq!(store.get_instance_info("a").await.unwrap().status, "Running");
}

#[tokio::test]
async fn the_filter_decides_before_anything_is_locked() {
    let (store, _) = in_memory().await;
    for (instance, version) in [("old", Version::new(1, 0, 0)), ("new", Version::new(2, 5, 0))] {
        enqueue(&store, start(instance)).await;
        let (_, token, _) = fetch(&store).await;
        let metadata = ExecutionMetadata { pinned_duroxide_version: Some(version), ..Default::default() };
        Ack { metadata, ..Ack::default() }.commit(&store, &token).await.unwrap();
    }
    for instance in ["old", "new"] {
        enqueue(&store, raised(instance, "x")).await;
    }
    enqueue(&store, start("unpinned")).await;
    let fetch = async |ranges: Vec<SemverRange>| {
        let filter = DispatcherCapabilityFilter { supported_duroxide_versions: ranges };
        let mut request = turn_request(9, NOW);
        request.filter = Some(filter);
        let turns = store.fetch_turns(request).await.unwrap();
        for turn in &turns {
            store.abandon_orchestration_item(&turn.lock_token, None, true).await.unwrap();
        }
        turns.into_iter().map(|turn| turn.item.instance).collect::<Vec<_>>()
    };
    let two = SemverRange::below(Version::new(2, 0, 0), Version::new(3, 0, 0));
    let one = SemverRange::new(Version::new(1, 0, 0), Version::new(1, 0, 0));
    assert_eq!(fetch(vec![]).await, Vec::<String>::new());
    assert_eq!(fetch(vec![two.clone()]).await, ["new", "unpinned"]);
    assert_eq!(fetch(vec![two, one]).await, ["old", "new", "unpinned"]);
}

#[tokio::test]
async fn a_history_that_the_node_holds_is_not_read_again() {
    struct Holds(HeldHistory);
    impl HeldHistories for Holds {
        fn held(&self, _instance: &str) -> Option<HeldHistory> {
            Some(self.0)
        }
    }
    let (store, _) = in_memory().await;
    enqueue(&store, start("a")).await;
    let turn = fetch_turn(&store).await;
    let facts = turn.facts.unwrap();
    assert_eq!((facts.last_event_id, facts.history), (0, HistoryPart::Whole));
    let events = vec![scheduled("a", 1), scheduled("a", 2)];
    Ack { events, ..Ack::default() }.commit(&store, &turn.lock_token).await.unwrap();
    enqueue(&store, raised("a", "x")).await;
    let held = HeldHistory { incarnation: facts.incarnation, execution_id: 1, last_event_id: 2 };
    for (held, part, length) in [
        (held, HistoryPart::Held, 0),
        (HeldHistory { last_event_id: 1, ..held }, HistoryPart::Whole, 2),
        (HeldHistory { incarnation: held.incarnation ^ 1, ..held }, HistoryPart::Whole, 2),
    ] {
        let mut request = turn_request(1, NOW);
        request.held = Arc::new(Holds(held));
        let turn = store.fetch_turns(request).await.unwrap().pop().unwrap();
        assert_eq!((turn.facts.unwrap().history, turn.item.history.len()), (part, length));
        store.abandon_orchestration_item(&turn.lock_token, None, true).await.unwrap();
    }
}

#[tokio::test]
async fn cancelled_timers_leave_the_inbox() {
    let (store, _) = in_memory().await;
    enqueue(&store, start("a")).await;
    let (_, token, _) = fetch(&store).await;
    let messages = vec![timer("a", 2, 2_000_000), timer("a", 3, 3_000_000)];
    Ack { messages, ..Ack::default() }.commit(&store, &token).await.unwrap();
    assert_eq!(store.get_queue_depths().await.unwrap().timer_queue, 2);
    enqueue(&store, raised("a", "x")).await;
    let (_, token, _) = fetch(&store).await;
    let cancelled =
        event("a", 4, Some(2), EventKind::TimerCancelled { reason: "dropped_future".to_string() });
    Ack { events: vec![cancelled], ..Ack::default() }.commit(&store, &token).await.unwrap();
    assert_eq!(store.get_queue_depths().await.unwrap().timer_queue, 1);
    assert_eq!(store.get_instance_stats("a").await.unwrap().unwrap().queue_pending_count, 1);
}

#[tokio::test]
async fn messages_for_the_finished_and_the_unknown_are_dropped_and_counted() {
    let (store, _) = in_memory().await;
    enqueue(&store, start("a")).await;
    let (_, token, _) = fetch(&store).await;
    enqueue(&store, raised("a", "never admitted")).await;
    Ack::default().status("Failed").commit(&store, &token).await.unwrap();
    enqueue(&store, raised("a", "too late")).await;
    enqueue(&store, completed("nobody", 1)).await;
    assert_eq!(store.statistics().dropped_messages, 3);
    fetch_nothing(&store).await;
    assert_eq!(store.get_queue_depths().await.unwrap().orchestrator_queue, 0);
}

#[tokio::test]
async fn a_start_of_a_taken_id_tells_the_parent_that_asked() {
    let (store, _) = in_memory().await;
    enqueue(&store, start("child")).await;
    enqueue(&store, start("parent")).await;
    let mut turns = store.fetch_turns(turn_request(2, NOW)).await.unwrap();
    let parent = turns.pop().unwrap();
    let WorkItem::StartOrchestration { instance, orchestration, input, version, execution_id, .. } =
        start("child")
    else {
        unreachable!("`start` makes starts")
    };
    let child = WorkItem::StartOrchestration {
        instance,
        orchestration,
        input,
        version,
        execution_id,
        parent_instance: Some("parent".to_string()),
        parent_id: Some(2),
        parent_execution_id: Some(1),
    };
    Ack { messages: vec![child], ..Ack::default() }.commit(&store, &parent.lock_token).await.unwrap();
    let (item, ..) = fetch(&store).await;
    assert_eq!(item.instance, "parent");
    assert!(format!("{:?}", item.messages).contains("sub-orchestration instance id 'child' already exists"));
}

#[tokio::test]
async fn deleting_a_tree_leaves_nothing_and_a_new_start_is_another_incarnation() {
    let (store, _) = in_memory().await;
    enqueue(&store, start("a")).await;
    let first = fetch_turn(&store).await;
    let ack = Ack { events: vec![scheduled("a", 1)], work: vec![activity("a", 1)], ..Ack::default() };
    ack.commit(&store, &first.lock_token).await.unwrap();
    assert_kind(store.delete_instance("a", false).await, ProviderErrorKind::Invalid, "'a' is still running");
    let deleted = store.delete_instance("a", true).await.unwrap();
    assert_eq!(
        (deleted.instances_deleted, deleted.events_deleted, deleted.queue_messages_deleted),
        (1, 1, 1)
    );
    assert_kind(store.get_instance_info("a").await, ProviderErrorKind::NotFound, "not found");
    enqueue(&store, start("a")).await;
    let again = fetch_turn(&store).await;
    assert_ne!(first.facts.unwrap().incarnation, again.facts.unwrap().incarnation);
}

//! An instance that failed may go on: its messages were kept, and the next execution begins where the failed one
//! stopped. A store without the extension keeps nothing and says that it cannot.

use duroxide_core::{ErrorDetails, OrchestrationStatus, PoisonMessageType};

use super::ProviderFactory;
use super::fixture::{
    Commit, Store, activity, cancel, child_failed, completed_event, event, expect_invalid, expect_not_found,
    failed_event, filter, queue_message, range, scheduled, semver, start, start_child, started, timer,
};
use crate::{RedriveInstance, WorkItem};

fn poison() -> ErrorDetails {
    ErrorDetails::Poison {
        attempt_count: 11,
        max_attempts: 10,
        message_type: PoisonMessageType::Orchestration { instance: "a".to_string(), execution_id: 1 },
        message: "[]".to_string(),
    }
}

/// Fails `a` at event 2, with these messages taken by the turn and those come since.
async fn failed(store: &Store<'_>, details: &ErrorDetails, taken: &[WorkItem], since: &[WorkItem]) {
    store.begin("a").await;
    store.send_all(taken.iter().cloned()).await;
    let turn = store.turn_of("a").await;
    store.send_all(since.iter().cloned()).await;
    let failed = failed_event(2, "a", details);
    store.commit(&turn, Commit::of(&turn).events([failed]).fails("failed")).await;
}

async fn poisoned(store: &Store<'_>, taken: &[WorkItem], since: &[WorkItem]) {
    failed(store, &poison(), taken, since).await;
}

fn goes_on(messages: Vec<WorkItem>) -> RedriveInstance {
    RedriveInstance {
        instance: "a".to_string(),
        failed_execution_id: 1,
        last_event_id: 2,
        events: vec![started("a", 1), scheduled(2, "a")],
        pinned: Some(semver("1.2.3")),
        activities: vec![activity("a", 2)],
        messages,
        kept_seen: 1,
    }
}

/// What was in the inbox of an instance that was poisoned is kept in its order, timers excepted.
pub async fn messages_of_a_poisoned_instance_are_kept(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let (first, second, third) = (event("a", "1"), event("a", "2"), event("a", "3"));
    let later = timer("a", 9, 0);
    poisoned(&store, &[first.clone(), second.clone()], &[later, third.clone()]).await;
    let kept = store.provider.kept_messages("a").await.expect("kept messages can be read");
    let expected = if store.provider.redrives() { vec![first, second, third] } else { Vec::new() };
    assert_eq!(kept, expected);
    assert_eq!(store.provider.kept_messages("unknown").await.expect("nothing is kept"), []);
}

/// An instance that failed of itself, or completed, leaves nothing behind.
pub async fn messages_of_an_ordinary_end_are_dropped(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    failed(&store, &ErrorDetails::orchestration_failed("no"), &[event("a", "1")], &[]).await;
    assert_eq!(store.provider.kept_messages("a").await.expect("nothing is kept"), []);
}

/// Events that come after such a failure are kept behind what was there; what else comes is dropped.
pub async fn events_sent_after_a_failure_are_kept(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    poisoned(&store, &[event("a", "1")], &[event("a", "2")]).await;
    store
        .send_all([event("a", "3"), cancel("a"), timer("a", 9, 0), start("a"), queue_message("a", "4")])
        .await;
    store.expect_no_turn().await;
    let all = vec![event("a", "1"), event("a", "2"), event("a", "3"), queue_message("a", "4")];
    let expected = if store.provider.redrives() { all.clone() } else { Vec::new() };
    assert_eq!(store.provider.kept_messages("a").await.expect("kept messages can be read"), expected);
    if !store.provider.redrives() {
        return;
    }
    let one = RedriveInstance { kept_seen: all.len(), ..goes_on(all.clone()) };
    store.provider.redrive(vec![one]).await.expect("it goes on");
    assert_eq!(store.provider.kept_messages("a").await.expect("nothing is kept"), []);
    assert_eq!(store.turn_of("a").await.item.messages, all);
}

/// Events that come at the time of the failure are kept, whichever is first and whether or not the store commits them
/// together.
pub async fn events_sent_beside_the_failing_commit_are_kept(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.provider.redrives() {
        return;
    }
    store.begin("a").await;
    store.send(event("a", "0")).await;
    let turn = store.turn_of("a").await;
    let failed = Commit::of(&turn).events([failed_event(2, "a", &poison())]).fails("poison");
    // A store that commits in groups is busy with the first one while the others come.
    let busy = store.send(event("somebody", "else"));
    let sends = futures_util::future::join_all((1..9).map(|n| store.send(event("a", &n.to_string()))));
    tokio::join!(busy, store.commit(&turn, failed), sends);
    let mut kept = store.provider.kept_messages("a").await.expect("kept messages can be read");
    kept.sort_by_key(|item| format!("{item:?}"));
    assert_eq!(kept, (0..9).map(|n| event("a", &n.to_string())).collect::<Vec<_>>());
}

/// A start that was kept with the instance that has its id is answered in its place among the messages.
pub async fn the_answer_to_a_kept_start_stands_in_its_place(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.provider.redrives() {
        return;
    }
    poisoned(&store, &[event("a", "1")], &[]).await;
    let messages = vec![event("a", "1"), start_child("a", "a", 7), event("a", "2")];
    store.provider.redrive(vec![goes_on(messages)]).await.expect("it goes on");
    let found = store.turn_of("a").await.item.messages;
    let answer = child_failed("a", 7, "sub-orchestration instance id 'a' already exists");
    assert_eq!(found, [event("a", "1"), answer, event("a", "2")]);
}

/// A turn's message for an instance that has failed so is kept like a client's.
pub async fn a_turn_s_event_after_a_failure_is_kept(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    poisoned(&store, &[event("a", "1")], &[]).await;
    store.begin("b").await;
    store.send(event("b", "go")).await;
    let turn = store.turn_of("b").await;
    store.commit(&turn, Commit::of(&turn).messages([event("a", "from b"), event("a", "again")])).await;
    let all = vec![event("a", "1"), event("a", "from b"), event("a", "again")];
    let expected = if store.provider.redrives() { all } else { Vec::new() };
    assert_eq!(store.provider.kept_messages("a").await.expect("kept messages can be read"), expected);
}

/// Events that come after an end that is final are dropped.
pub async fn events_sent_after_an_ordinary_end_are_dropped(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    failed(&store, &ErrorDetails::orchestration_failed("no"), &[event("a", "1")], &[]).await;
    store.finish("b").await;
    for id in ["a", "b"] {
        store.send(event(id, "late")).await;
        assert_eq!(store.provider.kept_messages(id).await.expect("nothing is kept"), []);
    }
    store.expect_no_turn().await;
}

/// What was kept after the caller looked is not lost: it follows what the caller puts into the inbox.
pub async fn events_kept_while_a_redrive_was_planned_follow(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.provider.redrives() {
        return;
    }
    poisoned(&store, &[event("a", "1")], &[]).await;
    let planned = goes_on(vec![event("a", "1")]);
    store.send_all([event("a", "2"), event("a", "3")]).await;
    store.provider.redrive(vec![planned]).await.expect("it goes on");
    assert_eq!(store.provider.kept_messages("a").await.expect("nothing is kept"), []);
    let expected = [event("a", "1"), event("a", "2"), event("a", "3")];
    assert_eq!(store.turn_of("a").await.item.messages, expected);
}

/// The next execution has the events, the work items and the messages given, none of them attempted.
pub async fn a_redriven_instance_runs_again(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    poisoned(&store, &[event("a", "1")], &[]).await;
    let one = goes_on(vec![event("a", "1"), event("a", "2")]);
    let events = one.events.clone();
    let redriven = store.provider.redrive(vec![one]).await;
    if !store.provider.redrives() {
        redriven.expect_err("the store cannot do it");
        return;
    }
    redriven.expect("it goes on");
    let status = store.provider.orchestration_status("a").await.expect("the status can be read");
    assert!(matches!(status, OrchestrationStatus::Running { .. }), "{status:?}");
    assert_eq!(store.provider.kept_messages("a").await.expect("nothing is kept"), []);
    let turn = store.turn_of("a").await;
    assert_eq!((turn.item.execution_id, turn.attempts), (2, 1));
    assert_eq!(turn.item.messages, [event("a", "1"), event("a", "2")]);
    assert_eq!(turn.item.history, events);
    let work = store.work().await;
    assert_eq!((&work.item, work.attempts), (&activity("a", 2), 1));
    let commit = Commit::of(&turn).events([completed_event(3, "a", 2, "end")]);
    store.commit(&turn, commit.completes("end")).await;
    let failed = store.provider.read_with_execution("a", 1).await.expect("the history can be read");
    assert_eq!(failed.len(), 2, "the failed execution stays as it was");
    assert!(failed[1].is_terminal());
    let info = store.admin().get_instance_info("a").await.expect("the instance is known");
    assert_eq!((info.status.as_str(), info.current_execution_id), ("Completed", 2));
}

/// The next execution is pinned to what the redrive says.
pub async fn a_redriven_execution_keeps_its_pinned_version(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    poisoned(&store, &[event("a", "1")], &[]).await;
    if !store.provider.redrives() {
        return;
    }
    store.provider.redrive(vec![goes_on(vec![event("a", "1")])]).await.expect("it goes on");
    assert!(store.fetch_matching(Some(&filter([range("2.0.0", "3.0.0")]))).await.is_none());
    assert!(store.fetch_matching(Some(&filter([range("1.0.0", "2.0.0")]))).await.is_some());
}

/// Nothing changes unless every instance is as the caller has seen it.
pub async fn a_redrive_of_something_else_changes_nothing(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.provider.redrives() {
        return;
    }
    poisoned(&store, &[event("a", "1")], &[]).await;
    store.begin("running").await;
    let right = goes_on(vec![event("a", "1")]);
    let wrong = [
        RedriveInstance { instance: "running".to_string(), last_event_id: 1, ..right.clone() },
        RedriveInstance { failed_execution_id: 2, ..right.clone() },
        RedriveInstance { last_event_id: 1, ..right.clone() },
        RedriveInstance { activities: vec![event("a", "no work item")], ..right.clone() },
        RedriveInstance { messages: vec![activity("a", 2)], ..right.clone() },
    ];
    for wrong in wrong {
        let both = vec![right.clone(), wrong];
        expect_invalid(store.provider.redrive(both).await);
    }
    let unknown = RedriveInstance { instance: "unknown".to_string(), ..right.clone() };
    expect_not_found(store.provider.redrive(vec![right.clone(), unknown]).await);
    store.expect_no_turn().await;
    assert_eq!(store.provider.kept_messages("a").await.expect("kept").len(), 1);
    store.provider.redrive(vec![right.clone()]).await.expect("it goes on");
    expect_invalid(store.provider.redrive(vec![right]).await);
}

/// One that begins anew has an empty history and the version that its start asks for.
pub async fn an_instance_that_begins_anew_has_no_history(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.provider.redrives() {
        return;
    }
    poisoned(&store, &[event("a", "1")], &[]).await;
    let anew = WorkItem::ContinueAsNew {
        instance: "a".to_string(),
        orchestration: "O".to_string(),
        input: "in".to_string(),
        version: Some("3.1.0".to_string()),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        carry_forward_events: Vec::new(),
        initial_custom_status: None,
    };
    let one = RedriveInstance {
        events: Vec::new(),
        pinned: None,
        activities: Vec::new(),
        ..goes_on(vec![anew.clone(), cancel("a")])
    };
    store.provider.redrive(vec![one]).await.expect("it goes on");
    let turn = store.turn_of("a").await;
    assert_eq!((turn.item.execution_id, turn.item.history.len()), (2, 0));
    assert_eq!(turn.item.version, "3.1.0");
    assert_eq!(turn.item.messages, [anew, cancel("a")]);
}

/// What was kept goes with its instance.
pub async fn kept_messages_are_deleted_with_their_instance(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    poisoned(&store, &[event("a", "1")], &[]).await;
    store.admin().delete_instance("a", false).await.expect("a failed instance can be deleted");
    assert_eq!(store.provider.kept_messages("a").await.expect("nothing is kept"), []);
    store.send(start("a")).await;
    assert_eq!(store.provider.kept_messages("a").await.expect("nothing is kept"), []);
}

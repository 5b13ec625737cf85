//! What the sender of a start or a message is told. A store without the extension answers by what it reads before it
//! sends: right unless others are about the same instance, except for the input of an instance that has not begun.

use duroxide_core::{ErrorDetails, PoisonMessageType};

use super::ProviderFactory;
use super::fixture::{
    Commit, Store, activity, cancel, completed_event, event, expect_invalid, failed_event, queue_message,
    start, started, timer,
};
use crate::EventKind;
use crate::{Enqueued, Provider, PruneOptions, SendOutcome, StartOutcome, WorkItem};

async fn told(provider: &dyn Provider, item: WorkItem) -> Enqueued {
    provider.enqueue_checked(item, None).await.expect("the item is taken")
}

async fn check_message(store: &Store<'_>, item: WorkItem, expected: SendOutcome) {
    let told = told(store.provider.as_ref(), item.clone()).await;
    assert_eq!(told, Enqueued::Message(expected), "{item:?}");
}

/// A start of `a` with another input or orchestration than the others use.
fn start_as(orchestration: &str, input: &str) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: "a".to_string(),
        orchestration: orchestration.to_string(),
        input: input.to_string(),
        version: None,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    }
}

fn exists(same_input: bool) -> Enqueued {
    Enqueued::Start(StartOutcome::AlreadyExists { orchestration: "Validate".to_string(), same_input })
}

/// `a`, which was started with the input "in", is told apart from starts with other inputs.
async fn check_first_input(store: &Store<'_>, stage: &str) {
    let provider = store.provider.as_ref();
    assert_eq!(told(provider, start("a")).await, exists(true), "{stage}: the start is repeated");
    for other in ["", "in ", "next"] {
        assert_eq!(told(provider, start_as("Validate", other)).await, exists(false), "{stage}: {other:?}");
    }
    assert_eq!(
        told(provider, start_as("Other", "in")).await,
        exists(true),
        "{stage}: the orchestration is the one that exists, not the one asked for"
    );
}

/// A start is told whether it created the instance, and what it found otherwise.
pub async fn a_start_tells_whether_it_created_the_instance(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let provider = store.provider.as_ref();
    assert_eq!(told(provider, start("a")).await, Enqueued::Start(StartOutcome::Started));
    if provider.tells_outcomes() {
        check_first_input(&store, "before its first turn").await;
    }
    let turn = store.turn_of("a").await;
    assert_eq!(turn.item.messages, vec![start("a")], "the others changed nothing");
    store.commit(&turn, Commit::of(&turn).events([started("a", 1)])).await;
    check_first_input(&store, "while it runs").await;
    store.expect_no_turn().await;
}

/// A start that is repeated finds its own instance, also after that continued as new, was pruned and has ended.
pub async fn a_start_is_compared_with_the_first_input(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_with("a", |commit| commit.continues_as_new("a")).await;
    check_first_input(&store, "between two executions").await;
    let turn = store.turn_of("a").await;
    let mut begun = started("a", 2);
    if let EventKind::OrchestrationStarted { input, .. } = &mut begun.kind {
        *input = "next".to_string();
    }
    store.commit(&turn, Commit::of(&turn).events([begun])).await;
    check_first_input(&store, "in its second execution").await;
    store.send(event("a", "go")).await;
    let turn = store.turn_of("a").await;
    let ends = Commit::of(&turn).events([completed_event(2, "a", 2, "done")]).completes("done");
    store.commit(&turn, ends).await;
    check_first_input(&store, "after its end").await;
    let pruned =
        store.admin().prune_executions("a", PruneOptions { keep_last: Some(1), completed_before: None });
    assert_eq!(pruned.await.expect("pruned").executions_deleted, 1);
    if store.provider.tells_outcomes() {
        check_first_input(&store, "after its first execution was pruned").await;
    }
}

/// A message is told whether it reached an instance, is kept, or is gone.
pub async fn a_message_tells_where_it_went(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    check_message(&store, event("a", "1"), SendOutcome::Kept).await;
    check_message(&store, queue_message("a", "2"), SendOutcome::Kept).await;
    check_message(&store, cancel("a"), SendOutcome::NotFound).await;
    check_message(&store, timer("a", 2, 0), SendOutcome::NotFound).await;
    store.begin("a").await;
    for item in [event("a", "3"), queue_message("a", "4"), timer("a", 2, 0), cancel("a")] {
        check_message(&store, item, SendOutcome::Delivered).await;
    }
    let turn = store.turn_of("a").await;
    assert_eq!(turn.item.messages.len(), 4, "what was delivered is in the inbox");
    // Also while a turn of it is under way.
    check_message(&store, event("a", "5"), SendOutcome::Delivered).await;
    let ends = Commit::of(&turn).events([completed_event(2, "a", 1, "done")]).completes("done");
    store.commit(&turn, ends).await;
    for item in [event("a", "6"), queue_message("a", "7"), timer("a", 2, 0), cancel("a")] {
        check_message(&store, item, SendOutcome::Ended).await;
    }
}

/// Events for an instance that failed and may be redriven are kept; a cancel of it is not.
pub async fn an_event_for_a_failed_instance_that_may_go_on_is_kept(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let details = ErrorDetails::Poison {
        attempt_count: 11,
        max_attempts: 10,
        message_type: PoisonMessageType::Orchestration { instance: "a".to_string(), execution_id: 1 },
        message: "[]".to_string(),
    };
    store.send(start("a")).await;
    let turn = store.turn_of("a").await;
    let fails = Commit::of(&turn).events([started("a", 1), failed_event(2, "a", &details)]).fails("poison");
    store.commit(&turn, fails).await;
    let keeps = store.provider.redrives() && store.provider.tells_outcomes();
    let expected = if keeps { SendOutcome::Kept } else { SendOutcome::Ended };
    check_message(&store, event("a", "1"), expected).await;
    check_message(&store, queue_message("a", "2"), expected).await;
    check_message(&store, cancel("a"), SendOutcome::Ended).await;
    check_first_input(&store, "after its failure").await;
    if store.provider.redrives() {
        let kept = store.provider.kept_messages("a").await.expect("kept messages can be read");
        assert_eq!(kept[kept.len() - 2..], [event("a", "1"), queue_message("a", "2")]);
    }
}

/// Of many starts of one id at the same time, one is told that it started the instance.
pub async fn one_of_many_concurrent_starts_is_told_that_it_started(factory: &dyn ProviderFactory) {
    const STARTS: usize = 16;
    let store = Store::new(factory).await;
    if !store.provider.tells_outcomes() {
        return;
    }
    let mut starts = tokio::task::JoinSet::new();
    for n in 0..STARTS {
        let provider = store.provider.clone();
        let item = start_as("Validate", if n % 2 == 0 { "even" } else { "odd" });
        starts.spawn(async move { (n % 2, told(provider.as_ref(), item).await) });
    }
    let (mut winner, mut same) = (None, [0, 0]);
    while let Some(answer) = starts.join_next().await {
        let (input, answer) = answer.expect("no panic");
        match answer {
            Enqueued::Start(StartOutcome::Started) => {
                assert_eq!(winner.replace(input), None, "two were told that they started it");
            }
            Enqueued::Start(StartOutcome::AlreadyExists { same_input: true, .. }) => same[input] += 1,
            Enqueued::Start(StartOutcome::AlreadyExists { same_input: false, .. }) => {}
            Enqueued::Message(outcome) => panic!("a start is no message: {outcome:?}"),
        }
    }
    let winner = winner.expect("one of them started it");
    assert_eq!((same[winner], same[1 - winner]), (STARTS / 2 - 1, 0), "those with the input that won");
    store.turn_of("a").await;
}

/// What does not belong into an inbox is refused as by the plain call.
pub async fn what_the_plain_call_refuses_is_refused(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    expect_invalid(store.provider.enqueue_checked(activity("a", 2), None).await);
    expect_invalid(store.provider.enqueue_checked(event("", "nameless"), None).await);
}

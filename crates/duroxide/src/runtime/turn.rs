//! One fetched instance: decide, run the turn, commit it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use duroxide_core::{
    Before, BounceCause, Event, Execution, Outcome, ParentLink, StoredExecution, Turn, TurnInput, TurnResult,
    WorkItem, cancel_without_handler, end_without_handler, panic_text,
};
use futures_util::FutureExt;

use super::OnNondeterminism;
use super::commit::{Insistence, ToCommit, after_commit, commit};
use super::dispatch::Slot;
use super::give_back::abandon;
use super::insist::answer_in_time;
use super::keeper::KeptLock;
use super::node::Node;
use super::poison::{self, Ending, Past};
use super::suspects::Queue;
use super::traces::TurnOf;
use super::turn_watch::WatchedTurn;
use super::unprotected;
use super::verdict::{Verdict, decide};
#[cfg(feature = "test-hooks")]
use super::verify::run_held;
use super::verify_replay::run_verified;
use crate::clock::Clock;
use crate::metric;
use crate::providers::{
    FetchedTurn, GiveBack, HeldHistory, HistoryPart, OrchestrationItem, ProviderError, TurnFacts,
};

/// Processes one fetched instance to its commit, or gives it back.
pub(super) async fn process(node: Arc<Node>, fetched: FetchedTurn, slot: Slot) {
    let token = fetched.lock_token.clone();
    let attempts = fetched.attempts;
    let instance = fetched.item.instance.clone();
    let watched = WatchedTurn::new(&instance, &fetched.item.orchestration_name, attempts, slot);
    let lock = node.keeper.keep_turn(&token, watched);
    let processed = AssertUnwindSafe(process_locked(&node, fetched, &lock)).catch_unwind().await;
    let slot = lock.end_turn();
    if let Err(payload) = processed {
        tracing::error!(target: "duroxide::runtime", instance_id = %instance, "processing a turn panicked; giving it back");
        node.live.forget(&instance);
        let delay = node.options.unregistered_backoff.delay(node.excuses.counted(&instance, attempts));
        let cause = BounceCause::Panicked { message: panic_text(payload) };
        abandon(&node, Queue::Turns, &token, GiveBack::bounced(delay, cause)).await;
    }
    drop(slot);
}

async fn process_locked(node: &Arc<Node>, fetched: FetchedTurn, lock: &KeptLock) {
    let FetchedTurn { item, lock_token, attempts, facts } = fetched;
    let attempts = node.excuses.counted(&item.instance, attempts);
    let of = TurnOf::new(&item);
    let (mut item, held) = match bring_history(node, item, facts.as_ref(), attempts).await {
        Ok(brought) => brought,
        Err(error) => {
            node.store_failed("reading a history", &error);
            return abandon(node, Queue::Turns, &lock_token, GiveBack::uncounted(None)).await;
        }
    };
    let verdict = if held.is_some() { None } else { Some(decide(node, &item, attempts)) };
    let now_ms = facts.as_ref().map_or_else(|| node.clock.now_ms(), |facts| facts.now_ms);
    let insistence = match &verdict {
        Some(Verdict::End(_)) => Insistence::GiveUp,
        Some(Verdict::GiveBack { .. } | Verdict::Cancel { .. } | Verdict::Run { .. }) | None => {
            Insistence::KeepTrying
        }
    };
    let result = match verdict {
        Some(Verdict::GiveBack { delay, cause }) => {
            return abandon(node, Queue::Turns, &lock_token, GiveBack::bounced(delay, cause)).await;
        }
        Some(Verdict::End(obstacle)) => {
            let past = Past::of_turn(attempts, facts.as_ref());
            let ending = poison::of_turn(node, &item, obstacle, past).await;
            Ok(end(node, item, facts.as_ref(), ending, now_ms).await)
        }
        Some(Verdict::Cancel { reason }) => Ok(cancel(node, item, facts.as_ref(), &reason, now_ms).await),
        Some(Verdict::Run { handler, version }) => {
            let input = turn_input(node, &mut item, now_ms);
            let before = Before::Stored { handler, version, history: &item.history };
            run_verified(node, lock, before, input).await
        }
        None => {
            let execution = held.expect("only a held execution comes without a verdict");
            run_held(node, lock, execution, turn_input(node, &mut item, now_ms)).await
        }
    };
    let result = match result {
        Ok(result) => result,
        Err(error) => {
            node.store_failed("reading a value for a program", &error);
            return abandon(node, Queue::Turns, &lock_token, GiveBack::uncounted(None)).await;
        }
    };
    if result.turn.outcome == Outcome::NotStarted {
        let how = GiveBack::bounced(node.options.unregistered_backoff.delay(attempts), BounceCause::NoStart);
        return abandon(node, Queue::Turns, &lock_token, how).await;
    }
    if let Outcome::Unnamed { message } = &result.turn.outcome {
        let how = report_unnamed(node, &of, message, attempts);
        return abandon(node, Queue::Turns, &lock_token, how).await;
    }
    if let Some(how) = hand_back_instead(node, &of, &result.turn, attempts) {
        return abandon(node, Queue::Turns, &lock_token, how).await;
    }
    announce(node, &of.instance_id, &result, facts.as_ref());
    let to_commit = ToCommit {
        token: &lock_token,
        execution_id: of.execution_id,
        instance: &of.instance_id,
        turn: &result.turn,
        attempts,
    };
    let committed = commit(node, to_commit, insistence).await;
    after_commit(node, of, committed, result, facts);
}

/// How to leave an execution to nodes on which the function that it calls has a name.
fn report_unnamed(node: &Node, of: &TurnOf, text: &str, attempts: u32) -> GiveBack {
    let delay = node.options.unregistered_backoff.delay(attempts);
    let remaining = node.options.max_attempts.saturating_sub(attempts);
    tracing::warn!(
        target: "duroxide::runtime",
        instance_id = %of.instance_id,
        execution_id = of.execution_id,
        orchestration_name = %of.orchestration_name,
        orchestration_version = %of.orchestration_version,
        attempt_count = attempts,
        remaining_attempts = remaining,
        backoff_secs = delay.as_secs_f32(),
        "giving the instance back (will poison in {remaining} more attempts): {text}"
    );
    GiveBack::bounced(delay, BounceCause::FunctionWithoutName { text: text.to_string() })
}

/// How to leave an execution to nodes whose code may fit its history; `None` if the turn counts.
fn hand_back_instead(node: &Node, of: &TurnOf, turn: &Turn, attempts: u32) -> Option<GiveBack> {
    let Outcome::Nondeterministic { diff } = &turn.outcome else { return None };
    match node.options.on_nondeterminism {
        OnNondeterminism::HandBack if attempts < node.options.max_attempts => {}
        OnNondeterminism::HandBack | OnNondeterminism::Fail => return None,
    }
    let delay = node.options.unregistered_backoff.delay(attempts);
    let remaining = node.options.max_attempts - attempts;
    metric::nondeterminism_handed_back(node.orchestration_label(&of.orchestration_name)).increment(1);
    tracing::warn!(
        target: "duroxide::runtime",
        instance_id = %of.instance_id,
        execution_id = of.execution_id,
        orchestration_name = %of.orchestration_name,
        orchestration_version = %of.orchestration_version,
        attempt_count = attempts,
        remaining_attempts = remaining,
        backoff_secs = delay.as_secs_f32(),
        "the code here does not fit the history, handing the instance back (will fail in {remaining} more attempts): {diff}"
    );
    Some(GiveBack::bounced(delay, BounceCause::Nondeterministic { diff: diff.clone() }))
}

#[cfg(not(feature = "test-hooks"))]
async fn run_held(
    node: &Node,
    lock: &KeptLock,
    execution: Box<Execution>,
    input: TurnInput,
) -> Result<TurnResult, ProviderError> {
    run_verified(node, lock, Before::Held(execution), input).await
}

fn turn_input(node: &Node, item: &mut OrchestrationItem, now_ms: u64) -> TurnInput {
    TurnInput {
        instance: item.instance.clone(),
        execution_id: item.execution_id,
        now_ms,
        entropy: node.options.process.entropy(),
        messages: std::mem::take(&mut item.messages),
        kv: std::mem::take(&mut item.kv_snapshot).into_iter().collect(),
    }
}

/// The item with its history, or with the held execution that makes the history needless.
async fn bring_history(
    node: &Node,
    mut item: OrchestrationItem,
    facts: Option<&TurnFacts>,
    attempts: u32,
) -> Result<(OrchestrationItem, Option<Box<Execution>>), ProviderError> {
    let Some(facts) = facts else { return Ok((item, None)) };
    let held = HeldHistory {
        incarnation: facts.incarnation,
        execution_id: item.execution_id,
        last_event_id: facts.last_event_id,
    };
    match facts.history {
        HistoryPart::Whole => {
            node.live.forget(&item.instance);
            Ok((item, None))
        }
        HistoryPart::Held => match node.live.take(&item.instance, held).await {
            // What is held is compatible and registered, so nothing else has to be decided.
            Some(execution) if attempts <= node.options.max_attempts => Ok((item, Some(execution))),
            // Worn out, so its end needs the history; or evicted since the fetch asked.
            Some(_) | None => {
                item.history =
                    answer_in_time(node.provider.read_with_execution(&item.instance, item.execution_id))
                        .await?;
                Ok((item, None))
            }
        },
    }
}

pub(super) async fn end(
    node: &Node,
    item: OrchestrationItem,
    facts: Option<&TurnFacts>,
    ending: Ending,
    now_ms: u64,
) -> TurnResult {
    let Ending { details, logged } = ending;
    tracing::error!(
        target: "duroxide::runtime",
        instance_id = %item.instance,
        execution_id = item.execution_id,
        orchestration_name = %item.orchestration_name,
        category = details.category(),
        cause = %logged,
        "ending the instance without running it: {}",
        details.display_message()
    );
    let stored = stored_execution(node, &item, facts).await;
    let mut turn = end_without_handler(&stored, details, item.messages.clone(), now_ms);
    cancel_unknown_children(node, &item, &mut turn, "parent failed").await;
    unprotected::keep_from_parent(&mut turn);
    TurnResult { turn, execution: None }
}

pub(super) async fn cancel(
    node: &Node,
    item: OrchestrationItem,
    facts: Option<&TurnFacts>,
    reason: &str,
    now_ms: u64,
) -> TurnResult {
    let stored = stored_execution(node, &item, facts).await;
    let mut turn = cancel_without_handler(&stored, reason, item.messages.clone(), now_ms);
    cancel_unknown_children(node, &item, &mut turn, "parent canceled").await;
    TurnResult { turn, execution: None }
}

async fn stored_execution<'a>(
    node: &Node,
    item: &'a OrchestrationItem,
    facts: Option<&TurnFacts>,
) -> StoredExecution<'a> {
    let (parent, last_event_id) = match facts {
        Some(facts) => (facts.parent.clone(), facts.last_event_id),
        None if item.history_error.is_some() => facts_from_plain_store(node, item).await,
        None => (None, 0),
    };
    StoredExecution {
        instance: item.instance.clone(),
        execution_id: item.execution_id,
        name: item.orchestration_name.clone(),
        version: item.version.clone(),
        parent,
        history: &item.history,
        last_event_id,
    }
}

/// The parent link and last event of an undecodable history, from a store without the extension: the parent's
/// own history says which of its events scheduled the child.
async fn facts_from_plain_store(node: &Node, item: &OrchestrationItem) -> (Option<ParentLink>, u64) {
    let Some(admin) = node.provider.as_management_capability() else { return (None, 0) };
    let last_event_id =
        match answer_in_time(admin.get_execution_info(&item.instance, item.execution_id)).await {
            Ok(info) => u64::try_from(info.event_count).unwrap_or(u64::MAX),
            Err(error) => {
                node.store_failed("reading an execution", &error);
                0
            }
        };
    let parent = match admin.get_parent_id(&item.instance).await {
        Ok(Some(parent)) => parent_link(node, &parent, &item.instance).await,
        Ok(None) => None,
        Err(error) => {
            node.store_failed("reading a parent", &error);
            None
        }
    };
    (parent, last_event_id)
}

async fn parent_link(node: &Node, parent: &str, child: &str) -> Option<ParentLink> {
    let history: Vec<Event> = match answer_in_time(node.provider.read(parent)).await {
        Ok(history) => history,
        Err(error) => {
            node.store_failed("reading a parent", &error);
            return None;
        }
    };
    history.iter().find_map(|event| {
        (event.child_instance().as_deref() == Some(child)).then(|| ParentLink {
            instance: parent.to_string(),
            execution_id: event.execution_id,
            event_id: event.event_id,
        })
    })
}

/// Children that only an undecodable history knows are found by their parent column.
async fn cancel_unknown_children(node: &Node, item: &OrchestrationItem, turn: &mut Turn, reason: &str) {
    if item.history_error.is_none() {
        return;
    }
    let Some(admin) = node.provider.as_management_capability() else { return };
    match answer_in_time(admin.list_children(&item.instance)).await {
        Ok(children) => turn.orchestrator_items.extend(
            children
                .into_iter()
                .map(|instance| WorkItem::CancelInstance { instance, reason: reason.to_string() }),
        ),
        Err(error) => node.store_failed("listing children", &error),
    }
}

/// The next fetch may come before the answer to this turn's commit.
fn announce(node: &Node, instance: &str, result: &TurnResult, facts: Option<&TurnFacts>) {
    if let (Some(execution), Some(facts)) = (&result.execution, facts) {
        node.live.announce(instance, facts.incarnation, execution);
    }
}

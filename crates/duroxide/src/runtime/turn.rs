//! One fetched instance: decide, run the turn, commit it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::{
    Before, ErrorDetails, Event, EventKind, Execution, ItemKind, Outcome, ParentLink, StoredExecution,
    TraceLine, Turn, TurnInput, TurnResult, WorkItem, cancel_without_handler, columns_of,
    end_without_handler,
};
use futures_util::FutureExt;

use super::OnNondeterminism;
use super::backoff::OutageBackoff;
use super::dispatch::Slot;
use super::node::Node;
use super::questions::run_turn;
use super::retention;
use super::suspects::Queue;
use super::unprotected;
use super::verdict::{Verdict, decide};
#[cfg(feature = "test-hooks")]
use super::verify::run_held;
use crate::clock::Clock;
use crate::providers::{
    FetchedTurn, HeldHistory, HistoryPart, OrchestrationItem, ProviderError, ProviderErrorKind, TurnFacts,
};

/// How often an ack that the store refuses for good is tried before the instance is given back uncounted.
const REFUSED_ACKS: u32 = 3;

/// Processes one fetched instance to its commit, or gives it back.
pub(super) async fn process(node: Arc<Node>, fetched: FetchedTurn, slot: Slot) {
    let token = fetched.lock_token.clone();
    let attempts = fetched.attempts;
    let instance = fetched.item.instance.clone();
    let lock = node.keeper.keep(Queue::Turns, &token);
    let processed = AssertUnwindSafe(process_locked(&node, fetched)).catch_unwind().await;
    drop(lock);
    if processed.is_err() {
        tracing::error!(target: "duroxide::runtime", %instance, "processing a turn panicked; giving it back");
        node.live.forget(&instance);
        let delay = node.options.unregistered_backoff.delay(attempts);
        abandon(&node, &token, Some(delay), false).await;
    }
    drop(slot);
}

async fn process_locked(node: &Arc<Node>, fetched: FetchedTurn) {
    let FetchedTurn { item, lock_token, attempts, facts } = fetched;
    let attempts = node.excuses.counted(&item.instance, attempts);
    let (mut item, held) = match bring_history(node, item, facts.as_ref(), attempts).await {
        Ok(brought) => brought,
        Err(error) => {
            node.store_failed("reading a history", &error);
            return abandon(node, &lock_token, None, true).await;
        }
    };
    let verdict = if held.is_some() { None } else { Some(decide(node, &item, attempts)) };
    let now_ms = facts.as_ref().map_or_else(|| node.clock.now_ms(), |facts| facts.now_ms);
    let instance = item.instance.clone();
    let execution_id = item.execution_id;
    let insistence = match &verdict {
        Some(Verdict::End(_)) => Insistence::GiveUp,
        Some(Verdict::GiveBack { .. } | Verdict::Cancel { .. } | Verdict::Run { .. }) | None => {
            Insistence::KeepTrying
        }
    };
    let result = match verdict {
        Some(Verdict::GiveBack { delay }) => return abandon(node, &lock_token, Some(delay), false).await,
        Some(Verdict::End(details)) => Ok(end(node, item, facts.as_ref(), details, now_ms).await),
        Some(Verdict::Cancel { reason }) => Ok(cancel(node, item, facts.as_ref(), &reason, now_ms).await),
        Some(Verdict::Run { handler, version }) => {
            let input = turn_input(node, &mut item, now_ms);
            let before = Before::Stored { handler, version, history: &item.history };
            run_turn(node, before, input, &mut Vec::new()).await
        }
        None => {
            let execution = held.expect("only a held execution comes without a verdict");
            run_held(node, execution, turn_input(node, &mut item, now_ms)).await
        }
    };
    let result = match result {
        Ok(result) => result,
        Err(error) => {
            node.store_failed("reading a value for a program", &error);
            return abandon(node, &lock_token, None, true).await;
        }
    };
    if result.turn.outcome == Outcome::NotStarted {
        let delay = node.options.unregistered_backoff.delay(attempts);
        return abandon(node, &lock_token, Some(delay), false).await;
    }
    if let Some(delay) = hand_back_instead(node, &instance, &result.turn, attempts) {
        return abandon(node, &lock_token, Some(delay), false).await;
    }
    announce(node, &instance, &result, facts.as_ref());
    let to_commit = ToCommit { token: &lock_token, execution_id, instance: &instance, turn: &result.turn };
    let committed = commit(node, to_commit, insistence).await;
    after_commit(node, instance, committed, result, facts);
}

/// How long to leave an execution to nodes whose code may fit its history; `None` if the turn counts.
fn hand_back_instead(node: &Node, instance: &str, turn: &Turn, attempts: u32) -> Option<Duration> {
    let Outcome::Nondeterministic { diff } = &turn.outcome else { return None };
    match node.options.on_nondeterminism {
        OnNondeterminism::HandBack if attempts < node.options.max_attempts => {}
        OnNondeterminism::HandBack | OnNondeterminism::Fail => return None,
    }
    let delay = node.options.unregistered_backoff.delay(attempts);
    let remaining = node.options.max_attempts - attempts;
    metrics::counter!("duroxide_nondeterminism_handed_back_total").increment(1);
    tracing::warn!(
        target: "duroxide::runtime",
        %instance,
        attempt_count = attempts,
        remaining_attempts = remaining,
        backoff_secs = delay.as_secs_f32(),
        "the code here does not fit the history, handing the instance back (will fail in {remaining} more attempts): {diff}"
    );
    Some(delay)
}

#[cfg(not(feature = "test-hooks"))]
async fn run_held(
    node: &Node,
    execution: Box<Execution>,
    input: TurnInput,
) -> Result<TurnResult, ProviderError> {
    run_turn(node, Before::Held(execution), input, &mut Vec::new()).await
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
                item.history = node.provider.read_with_execution(&item.instance, item.execution_id).await?;
                Ok((item, None))
            }
        },
    }
}

pub(super) async fn end(
    node: &Node,
    item: OrchestrationItem,
    facts: Option<&TurnFacts>,
    details: ErrorDetails,
    now_ms: u64,
) -> TurnResult {
    tracing::error!(
        target: "duroxide::runtime",
        instance = %item.instance,
        category = details.category(),
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
    let last_event_id = match admin.get_execution_info(&item.instance, item.execution_id).await {
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
    let history: Vec<Event> = match node.provider.read(parent).await {
        Ok(history) => history,
        Err(error) => {
            node.store_failed("reading a parent", &error);
            return None;
        }
    };
    history.iter().find_map(|event| {
        let EventKind::SubOrchestrationScheduled { instance, .. } = &event.kind else { return None };
        (instance == child).then(|| ParentLink {
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
    match admin.list_children(&item.instance).await {
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
        let held = HeldHistory {
            incarnation: facts.incarnation,
            execution_id: execution.execution_id(),
            last_event_id: execution.last_event_id(),
        };
        node.live.announce(instance, held);
    }
}

/// Whether a turn reached the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Committed {
    Yes,
    /// By a try whose answer was lost. What the instance is now is not known here.
    Earlier,
    /// Somebody else holds the lock now, or an earlier try was committed after all.
    LockLost,
    /// The store failed until the lock was gone or the runtime let go.
    Spoiled,
}

/// What to do when the store fails while a turn is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Insistence {
    /// The turn is the work itself: wait until the store is back.
    KeepTrying,
    /// The turn ends work that was attempted too often. A store that takes no commits may be why; so the end is
    /// given up, and the work gets another chance.
    GiveUp,
}

/// A turn under its lock.
pub(super) struct ToCommit<'a> {
    pub(super) token: &'a str,
    pub(super) execution_id: u64,
    pub(super) instance: &'a str,
    pub(super) turn: &'a Turn,
}

/// Commits a turn. An outage is waited out with the lock renewed; it never becomes the workflow's failure.
pub(super) async fn commit(node: &Node, to_commit: ToCommit<'_>, insistence: Insistence) -> Committed {
    let ToCommit { token, execution_id, instance, turn } = to_commit;
    let mut outage = OutageBackoff::default();
    let mut failures = 0u32;
    let mut refused = 0;
    loop {
        let acked = node
            .provider
            .ack_orchestration_item(
                token,
                execution_id,
                turn.events.clone(),
                turn.worker_items.clone(),
                turn.orchestrator_items.clone(),
                turn.metadata.clone(),
                turn.cancelled_activities.clone(),
            )
            .await;
        let error = match acked {
            Ok(()) => return Committed::Yes,
            Err(error) if error.kind() == ProviderErrorKind::LockLost => {
                tracing::debug!(target: "duroxide::runtime", %instance, "the lock was lost before the commit");
                return match failures {
                    0 => Committed::LockLost,
                    _ if is_stored(node, instance, execution_id, turn).await => Committed::Earlier,
                    _ => Committed::Spoiled,
                };
            }
            Err(error) => error,
        };
        failures = failures.saturating_add(1);
        node.store_failed("committing a turn", &error);
        if !error.is_retryable() {
            refused += 1;
        }
        let let_go =
            insistence == Insistence::GiveUp || refused >= REFUSED_ACKS || !node.pause(outage.next()).await;
        if let_go {
            let delay = (refused > 0).then_some(node.options.unregistered_backoff.max_delay);
            return match give_back(node, token, delay, true).await {
                GivenBack::LockWasGone if is_stored(node, instance, execution_id, turn).await => {
                    Committed::Earlier
                }
                GivenBack::LockWasGone | GivenBack::Yes | GivenBack::No => Committed::Spoiled,
            };
        }
    }
}

/// Whether the store has this very turn. Asked only when an answer was lost, so a history may be read for it.
async fn is_stored(node: &Node, instance: &str, execution_id: u64, turn: &Turn) -> bool {
    let Some(last) = turn.events.last() else { return false };
    match node.provider.read_with_execution(instance, execution_id).await {
        Ok(history) => history.iter().rev().any(|event| event == last),
        Err(error) => {
            node.store_failed("reading a history", &error);
            false
        }
    }
}

pub(super) fn after_commit(
    node: &Arc<Node>,
    instance: String,
    committed: Committed,
    result: TurnResult,
    facts: Option<TurnFacts>,
) {
    let TurnResult { turn, execution } = result;
    match committed {
        Committed::Yes => node.excuses.forget(&instance),
        Committed::Earlier => {
            node.live.forget(&instance);
            node.excuses.forget(&instance);
        }
        Committed::Spoiled => {
            node.live.forget(&instance);
            return node.excuses.excuse(&instance);
        }
        Committed::LockLost => return node.live.forget(&instance),
    }
    for line in &turn.traces {
        emit(&instance, line);
    }
    for reason in &turn.dropped {
        metrics::counter!("duroxide_messages_dropped_total", "reason" => reason.word()).increment(1);
    }
    count(node, &turn);
    if let Some(last) = turn.events.last()
        && matches!(last.kind, EventKind::OrchestrationContinuedAsNew { .. })
    {
        retention::continued_as_new(node, &instance, last.execution_id);
    }
    if let (Some(facts), Some(last)) = (&facts, turn.events.last()) {
        record_duration(facts, last);
    }
    if let (Committed::Yes, Some(execution), Some(facts)) = (committed, execution, facts) {
        node.live.keep(instance, facts.incarnation, execution);
    }
}

fn count(node: &Node, turn: &Turn) {
    let counters = &node.counters;
    if let Some(first) = turn.events.first()
        && matches!(first.kind, EventKind::OrchestrationStarted { .. })
        && first.execution_id == duroxide_core::INITIAL_EXECUTION_ID
    {
        counters.orch_starts.increment();
    }
    let children = turn.orchestrator_items.iter().filter(|item| {
        let columns = columns_of(item);
        columns.kind == ItemKind::Start && columns.parent.is_some()
    });
    counters.suborchestration_calls.add(children.count());
    match turn.events.last().map(|event| &event.kind) {
        Some(EventKind::OrchestrationCompleted { .. }) => counters.orch_completions.increment(),
        Some(EventKind::OrchestrationFailed { details }) => counters.orchestration_failed(details),
        Some(EventKind::OrchestrationContinuedAsNew { .. }) => counters.orch_continue_as_new.increment(),
        Some(_) | None => {}
    }
}

/// Records how long an instance took, from its first start to its end, over all executions.
fn record_duration(facts: &TurnFacts, last: &Event) {
    if !last.is_terminal() || matches!(last.kind, EventKind::OrchestrationContinuedAsNew { .. }) {
        return;
    }
    let completed = matches!(last.kind, EventKind::OrchestrationCompleted { .. });
    let outcome = if completed { "completed" } else { "failed" };
    let took_ms = last.timestamp_ms.saturating_sub(facts.created_at_ms);
    metrics::histogram!("duroxide_orchestration_duration_seconds", "outcome" => outcome)
        .record(took_ms as f64 / 1000.0);
}

fn emit(instance: &str, line: &TraceLine) {
    let message = &line.message;
    match line.level.to_ascii_lowercase().as_str() {
        "error" => tracing::error!(target: "duroxide::orchestration", %instance, "{message}"),
        "warn" | "warning" => tracing::warn!(target: "duroxide::orchestration", %instance, "{message}"),
        "debug" => tracing::debug!(target: "duroxide::orchestration", %instance, "{message}"),
        "trace" => tracing::trace!(target: "duroxide::orchestration", %instance, "{message}"),
        _ => tracing::info!(target: "duroxide::orchestration", %instance, "{message}"),
    }
}

/// How giving work back ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GivenBack {
    Yes,
    /// There was nothing to give back: the lock was not held any more.
    LockWasGone,
    /// The store cannot be reached; the lock's expiry will give it back.
    No,
}

async fn abandon(node: &Node, token: &str, delay: Option<std::time::Duration>, ignore_attempt: bool) {
    give_back(node, token, delay, ignore_attempt).await;
}

async fn give_back(
    node: &Node,
    token: &str,
    delay: Option<std::time::Duration>,
    ignore_attempt: bool,
) -> GivenBack {
    match node.provider.abandon_orchestration_item(token, delay, ignore_attempt).await {
        Ok(()) => GivenBack::Yes,
        Err(error) if error.kind() == ProviderErrorKind::LockLost => GivenBack::LockWasGone,
        Err(error) => {
            node.store_failed("giving an instance back", &error);
            GivenBack::No
        }
    }
}

//! One fetched activity: run it, and bring its result into the store.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use duroxide_core::protection::Protection;
use duroxide_core::{
    ActivityDeadlines, BounceCause, ErrorDetails, HandlerError, Need, PoisonMessageType, RetriedCall,
    WorkItem, panic_text,
};
use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use super::ack::{Acked, ack, note};
use super::activity_context::{ActivityContext, ActivityFacts};
use super::activity_notes::{say_begun, tell_stopped};
use super::activity_result::{checked, failure, panicked, timeout};
use super::commit::Insistence;
use super::dispatch::Slot;
use super::give_back::abandon;
use super::handler_task::HandlerTask;
use super::insist::answer_in_time;
use super::keeper::KeptLock;
use super::life;
use super::node::Node;
use super::poison::{self, InTheWay, Past};
use super::probation::SuspectPlace;
use super::registry::ActivityHandler;
use super::sessions::SessionTurn;
use super::suspects::Queue;
use super::sweeper::MAX_ATTEMPTS_OF_THE_UNPROCESSABLE;
use super::unprotected;
use crate::metric;
use crate::providers::{FetchedWork, GiveBack, OrchestrationRef};

/// An item of the worker queue taken apart.
pub(super) struct Work {
    pub(super) instance: String,
    pub(super) execution_id: u64,
    pub(super) id: u64,
    pub(super) name: String,
    input: String,
    session_id: Option<String>,
    tag: Option<String>,
    pub(super) deadlines: ActivityDeadlines,
    retried: Option<RetriedCall>,
    /// Whether the orchestration waits until an activity that it gave up has stopped.
    pub(super) reports_stop: bool,
}

impl Work {
    /// The activity to run; `None` if the item is something else.
    fn of(item: WorkItem) -> Option<Self> {
        match item {
            WorkItem::ActivityExecute { instance, execution_id, id, name, input, session_id, tag } => {
                let deadlines = ActivityDeadlines::default();
                let (retried, reports_stop) = (None, false);
                Some(Self {
                    instance,
                    execution_id,
                    id,
                    name,
                    input,
                    session_id,
                    tag,
                    deadlines,
                    retried,
                    reports_stop,
                })
            }
            WorkItem::ActivityExecuteWithin {
                instance,
                execution_id,
                id,
                name,
                input,
                session_id,
                tag,
                deadlines,
                retried,
                reports_stop,
            } => Some(Self {
                instance,
                execution_id,
                id,
                name,
                input,
                session_id,
                tag,
                deadlines,
                retried,
                reports_stop,
            }),
            WorkItem::StartOrchestration { .. }
            | WorkItem::ContinueAsNew { .. }
            | WorkItem::ActivityBegun { .. }
            | WorkItem::ActivityStopped { .. }
            | WorkItem::Redriven { .. }
            | WorkItem::Repaired { .. }
            | WorkItem::ActivityCompleted { .. }
            | WorkItem::ActivityFailed { .. }
            | WorkItem::ActivityErrored { .. }
            | WorkItem::TimerFired { .. }
            | WorkItem::ExternalRaised { .. }
            | WorkItem::QueueMessage { .. }
            | WorkItem::CancelInstance { .. }
            | WorkItem::SubOrchCompleted { .. }
            | WorkItem::SubOrchFailed { .. }
            | WorkItem::SubOrchErrored { .. } => None,
        }
    }

    fn key(&self) -> String {
        format!("{}:{}:{}", self.instance, self.execution_id, self.id)
    }

    /// What is kept with it when a node without its handler gives it back.
    fn unregistered(&self) -> BounceCause {
        BounceCause::ActivityNotRegistered { name: self.name.clone() }
    }

    pub(super) fn failed(&self, details: ErrorDetails) -> WorkItem {
        WorkItem::ActivityFailed {
            instance: self.instance.clone(),
            execution_id: self.execution_id,
            id: self.id,
            details,
        }
    }

    pub(super) fn errored(&self, details: ErrorDetails, error: String, panicked: bool) -> WorkItem {
        WorkItem::ActivityErrored {
            instance: self.instance.clone(),
            execution_id: self.execution_id,
            id: self.id,
            details,
            error,
            panicked,
        }
    }
}

/// One fetch of an activity.
struct Attempt {
    /// This one among all fetches, those that were forgiven included.
    number: u32,
    token: String,
    orchestration: Option<OrchestrationRef>,
    progress: Option<String>,
}

/// How the handler ended.
enum Ended {
    Returned(Result<String, HandlerError>),
    Panicked(String),
    /// It ran longer than it may, in milliseconds.
    RanTooLong(u64),
    /// The lock is gone: cancelled, or taken over after expiry. Nobody wants the result.
    LockLost,
    /// The runtime shuts down and the handler did not end in time.
    Released,
}

impl Ended {
    /// The outcome as metrics and the log name it.
    fn word(&self) -> &'static str {
        match self {
            Self::Returned(Ok(_)) => "completed",
            Self::Returned(Err(_)) => "failed",
            Self::Panicked(_) => "panicked",
            Self::RanTooLong(_) => "timed_out",
            Self::LockLost => "cancelled",
            Self::Released => "given_back",
        }
    }
}

/// Processes one fetched activity to its ack, or gives it back.
pub(super) async fn process(node: Arc<Node>, fetched: FetchedWork, mut slot: Slot) {
    let FetchedWork {
        item,
        lock_token,
        attempts,
        forgiven,
        suspect,
        orchestration,
        progress,
        last_cause,
        ..
    } = fetched;
    let lock = node.keeper.keep(Queue::Activities, &lock_token);
    let json = item.clone();
    let Some(work) = Work::of(item) else {
        tracing::error!(
            target: "duroxide::runtime",
            instance_id = %json.instance(),
            "the worker queue held something other than an activity; removing it"
        );
        ack(&node, &lock_token, &lock, None, Insistence::KeepTrying).await;
        return;
    };
    let key = work.key();
    let counted = node.excuses.counted(&key, attempts);
    if counted > node.options.max_attempts {
        let past = Past { attempts: counted, suspect, last_cause };
        let details = poison(&node, &work, &json, past, node.options.max_attempts).await;
        return end_as_poison(&node, &work, details, &lock_token, &lock).await;
    }
    let Some((_version, handler)) = node.activities.resolve_handler(&work.name) else {
        let delay = report_unregistered(&node, &work, counted);
        drop(lock);
        let how = GiveBack::bounced(delay, work.unregistered());
        return abandon(&node, Queue::Activities, &lock_token, how).await;
    };
    let Some(turn) = session_turn(&node, &work, &lock).await else {
        node.spawn(tell_stopped(node.clone(), &work));
        return abandon(&node, Queue::Activities, &lock_token, GiveBack::uncounted(None)).await;
    };
    if !say_begun(&node, &work, &lock).await {
        node.spawn(tell_stopped(node.clone(), &work));
        return abandon(&node, Queue::Activities, &lock_token, GiveBack::uncounted(None)).await;
    }
    let number = attempts.saturating_add(forgiven);
    let attempt = Attempt { number, token: lock_token, orchestration, progress };
    run(&node, attempt, &lock, work, handler, &mut slot).await;
    drop((turn, slot));
}

/// Ends an activity that no node can run as poison.
pub(super) async fn end_unprocessable(node: &Node, fetched: FetchedWork) {
    let FetchedWork { item, lock_token, attempts, suspect, last_cause, .. } = fetched;
    let lock = node.keeper.keep(Queue::Activities, &lock_token);
    let Some(work) = Work::of(item.clone()) else {
        return abandon(node, Queue::Activities, &lock_token, GiveBack::uncounted(None)).await;
    };
    let past = Past { attempts, suspect, last_cause };
    let details = poison(node, &work, &item, past, MAX_ATTEMPTS_OF_THE_UNPROCESSABLE).await;
    end_as_poison(node, &work, details, &lock_token, &lock).await;
}

async fn end_as_poison(node: &Node, work: &Work, details: ErrorDetails, token: &str, lock: &KeptLock) {
    let completion = Some(work.failed(details.clone()));
    let acked = ack(node, token, lock, completion, Insistence::GiveUp).await;
    if acked.reached_the_store() {
        node.counters.activity_failed(&details, node.activity_label(&work.name));
    }
    note(node, &work.key(), acked);
}

/// The turn of the activity's session, if it needs one; `None` when the activity is not to begin any more.
async fn session_turn(node: &Node, work: &Work, lock: &KeptLock) -> Option<Option<SessionTurn>> {
    let Some(session_id) = &work.session_id else { return Some(None) };
    tokio::select! {
        biased;
        () = lock.lost().cancelled() => None,
        () = node.releasing.cancelled() => None,
        turn = node.sessions.enter(session_id) => Some(turn),
    }
}

async fn run(
    node: &Arc<Node>,
    attempt: Attempt,
    lock: &KeptLock,
    work: Work,
    handler: Arc<dyn ActivityHandler>,
    slot: &mut Slot,
) {
    let key = work.key();
    let token = &attempt.token.clone();
    let cancelled = CancellationToken::new();
    let context = context(node, &work, attempt, cancelled.clone()).await;
    let facts = context.facts().clone();
    life::activity_started(node, &facts);
    let began = tokio::time::Instant::now();
    let records_panics = handler.records_panics();
    let place = slot.take_place();
    let activity = run_handler(node, handler, context, &work, lock, &cancelled, slot);
    let ended = SuspectPlace::watch(place, node, lock, token, activity).await;
    life::handler_ended(node, &facts, ended.word(), began.elapsed());
    let completion = match ended {
        Ended::Returned(result) => match checked(&work, result) {
            Ok(result) => WorkItem::ActivityCompleted {
                instance: work.instance.clone(),
                execution_id: work.execution_id,
                id: work.id,
                result,
            },
            Err(error) => failure(&work, error),
        },
        Ended::RanTooLong(limit_ms) => timeout(&work, limit_ms),
        Ended::Panicked(text) => {
            unprotected::lose_slot(node);
            panicked(&work, &text, records_panics)
        }
        Ended::LockLost if Protection::FailedRenewalIsNoCancellation.is_off() => {
            ack(node, token, lock, None, Insistence::KeepTrying).await;
            return;
        }
        Ended::LockLost => {
            if lock.was_out_of_reach() {
                node.excuses.excuse(&key);
            }
            return;
        }
        Ended::Released => {
            let how = GiveBack { ignore_attempt: lock.takes_attempt_back(), ..GiveBack::default() };
            return abandon(node, Queue::Activities, token, how).await;
        }
    };
    let acked = ack(node, token, lock, Some(completion.clone()), Insistence::KeepTrying).await;
    // What did not reach the store will be run again, perhaps elsewhere, and is counted there.
    if acked.reached_the_store() {
        life::activity_committed(node, &facts, &completion);
    }
    if acked == Acked::LockLost {
        node.spawn(tell_stopped(node.clone(), &work));
    }
    note(node, &key, acked);
}

async fn context(
    node: &Arc<Node>,
    work: &Work,
    attempt: Attempt,
    cancelled: CancellationToken,
) -> ActivityContext {
    let orchestration = match attempt.orchestration {
        Some(orchestration) => orchestration,
        None => look_up_orchestration(node, &work.instance).await,
    };
    let facts = ActivityFacts {
        instance: work.instance.clone(),
        execution_id: work.execution_id,
        activity_id: work.id,
        name: work.name.clone(),
        session_id: work.session_id.clone(),
        tag: work.tag.clone(),
        orchestration_name: orchestration.name,
        orchestration_version: orchestration.version,
        worker_id: node.node_id.clone(),
        retried: work.retried,
        fetches: attempt.number,
        lock_token: attempt.token,
        progress: attempt.progress,
    };
    ActivityContext::new(facts, cancelled, node.provider.clone())
}

/// For stores that do not tell: one small read, never a history.
async fn look_up_orchestration(node: &Node, instance: &str) -> OrchestrationRef {
    let unknown = OrchestrationRef { name: String::new(), version: String::new() };
    let Some(admin) = node.provider.as_management_capability() else { return unknown };
    match answer_in_time(admin.get_instance_info(instance)).await {
        Ok(info) => OrchestrationRef { name: info.orchestration_name, version: info.orchestration_version },
        Err(error) => {
            node.store_failed("reading an instance", &error);
            unknown
        }
    }
}

/// Runs the handler as a task of its own, so that it can be told to stop and, after a grace time, made to.
async fn run_handler(
    node: &Arc<Node>,
    handler: Arc<dyn ActivityHandler>,
    context: ActivityContext,
    work: &Work,
    lock: &KeptLock,
    cancelled: &CancellationToken,
    slot: &mut Slot,
) -> Ended {
    let killed = node.killed.clone();
    let input = work.input.clone();
    let mut task = HandlerTask::spawn(node, async move {
        tokio::select! {
            biased;
            () = killed.cancelled() => Err("killed".to_string()),
            result = AssertUnwindSafe(handler.run(context, input)).catch_unwind() => match result {
                Ok(result) => Ok(result),
                Err(payload) => Err(panic_text(payload)),
            },
        }
    });
    let gone = tokio::select! {
        biased;
        ended = task.ended() => return match ended.flatten() {
            Ok(result) => Ended::Returned(result),
            Err(text) => Ended::Panicked(text),
        },
        () = lock.lost().cancelled() => Ended::LockLost,
        () = node.releasing.cancelled() => Ended::Released,
        limit_ms = ran_too_long(work.deadlines) => Ended::RanTooLong(limit_ms),
    };
    cancelled.cancel();
    let grace = match gone {
        Ended::LockLost | Ended::RanTooLong(_) | Ended::Returned(_) | Ended::Panicked(_) => {
            node.options.activity_cancellation_grace_period
        }
        // The grace time of the shutdown has passed already.
        Ended::Released => std::time::Duration::ZERO,
    };
    let is_given_up = matches!(gone, Ended::LockLost);
    let stopped = tell_stopped(node.clone(), work);
    let after = async move {
        if is_given_up {
            stopped.await;
        }
    };
    tokio::select! {
        biased;
        _ended = task.ended() => node.spawn(after),
        () = tokio::time::sleep(grace) => task.leave(node, slot, after),
    }
    gone
}

/// Ends when an attempt has run as long as it may, with that time.
async fn ran_too_long(deadlines: ActivityDeadlines) -> u64 {
    let Some(limit_ms) = deadlines.start_to_close_ms else { return std::future::pending().await };
    tokio::time::sleep(std::time::Duration::from_millis(limit_ms)).await;
    limit_ms
}

async fn poison(node: &Node, work: &Work, item: &WorkItem, past: Past, max_attempts: u32) -> ErrorDetails {
    let message_type = PoisonMessageType::Activity {
        instance: work.instance.clone(),
        execution_id: work.execution_id,
        activity_name: work.name.clone(),
        activity_id: work.id,
    };
    let in_the_way = node.activities.resolve_handler(&work.name).is_none().then(|| InTheWay {
        cause: work.unregistered(),
        need: Need::Activity { name: work.name.clone(), tag: work.tag.clone() },
    });
    let ending = poison::of_activity(node, message_type, item, in_the_way, past, max_attempts).await;
    tracing::error!(
        target: "duroxide::runtime",
        instance_id = %work.instance,
        execution_id = work.execution_id,
        activity_name = %work.name,
        activity_id = work.id,
        cause = %ending.logged,
        "{}",
        ending.details.display_message()
    );
    ending.details
}

fn report_unregistered(node: &Node, work: &Work, attempts: u32) -> std::time::Duration {
    let backoff = node.options.unregistered_backoff.delay(attempts);
    let max_attempts = node.options.max_attempts;
    let remaining = max_attempts.saturating_sub(attempts);
    node.counters.unregistered_activity_backoff.increment();
    metric::unregistered_activity_backoff(node.activity_label(&work.name)).increment(1);
    tracing::warn!(
        target: "duroxide::runtime",
        instance = %work.instance,
        activity_name = %work.name,
        instance_id = %work.instance,
        execution_id = work.execution_id,
        activity_id = work.id,
        attempt_count = attempts,
        max_attempts,
        remaining_attempts = remaining,
        backoff_secs = backoff.as_secs_f32(),
        "Activity not registered, abandoning with {:.1}s backoff (will poison in {remaining} more attempts)",
        backoff.as_secs_f32()
    );
    backoff
}

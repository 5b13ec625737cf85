//! One fetched activity: decide, run it, ack its result.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::{BounceCause, ErrorDetails, panic_text};
use futures_util::FutureExt;

use super::ack::ToAck;
use super::activity_notes::{say_begun, tell_stopped};
use super::activity_run::{Attempt, remove, run};
use super::activity_work::Work;
use super::dispatch::Slot;
use super::give_back::{abandon, bounced, let_go};
use super::keeper::KeptLock;
use super::node::Node;
use super::poison::{self, Past};
use super::save::save;
use super::sessions::SessionTurn;
use super::suspects::Queue;
use super::verdict::{AttemptCount, BeforeRun, Cancel, Code, Persistence, Tries, before_run};
use crate::metric;
use crate::providers::{FetchedWork, GiveBack};

/// Processes one fetched activity to its ack, or gives it back.
pub(super) async fn process(node: Arc<Node>, fetched: FetchedWork, slot: Slot) {
    let token = fetched.lock_token.clone();
    let lock = node.keeper.keep(Queue::Activities, &token);
    let Some(work) = Work::of(fetched.item.clone()) else {
        tracing::error!(
            target: "duroxide::runtime",
            instance_id = %fetched.item.instance(),
            "the worker queue held something other than an activity; removing it"
        );
        return remove(&node, &token, &lock).await;
    };
    let key = work.key();
    let count = node.count_attempts(&key, fetched.attempts);
    let processed = AssertUnwindSafe(process_locked(&node, &token, fetched, work, count, &lock, slot))
        .catch_unwind()
        .await;
    if let Err(payload) = processed {
        tracing::error!(target: "duroxide::runtime", activity = %key, "processing an activity panicked; giving it back");
        let cause = BounceCause::Panicked { message: panic_text(payload) };
        abandon(&node, Queue::Activities, &token, bounced(&node, count, cause)).await;
    }
}

async fn process_locked(
    node: &Arc<Node>,
    token: &str,
    fetched: FetchedWork,
    work: Work,
    count: AttemptCount,
    lock: &KeptLock,
    mut slot: Slot,
) {
    let handler = node.activities.resolve_handler(&work.name);
    let code = if handler.is_some() { Code::Registered } else { Code::Obstructed };
    let handler = match (before_run(count, code, Cancel::No), handler) {
        // A cancel does not wait with an activity: it takes its work item away.
        (BeforeRun::End | BeforeRun::Cancel, _) => {
            let past = Past::of_work(count.counted, &fetched);
            let details = poison::of_activity(node, &work, &fetched.item, past).await;
            return end_as_poison(node, &work, details, token, lock).await;
        }
        (BeforeRun::Run | BeforeRun::GiveBack, None) => {
            let how = bounced(node, count, work.unregistered());
            report_unregistered(node, &work, count, how.delay.unwrap_or_default());
            return abandon(node, Queue::Activities, token, how).await;
        }
        (BeforeRun::Run | BeforeRun::GiveBack, Some((_version, handler))) => handler,
    };
    let turn = match begin(node, &work, lock).await {
        Ok(turn) => turn,
        Err(tries) => {
            node.spawn(tell_stopped(node.clone(), &work));
            return let_go(node, Queue::Activities, token, lock, &work.key(), tries).await;
        }
    };
    let FetchedWork { lock_token, attempts, forgiven, orchestration, progress, .. } = fetched;
    let number = attempts.saturating_add(forgiven);
    let attempt = Attempt { number, token: lock_token, orchestration, progress };
    run(node, token, attempt, lock, work, handler, &mut slot).await;
    drop((turn, slot));
}

/// Ends an activity that no node can run as poison.
pub(super) async fn end_unprocessable(node: &Node, fetched: FetchedWork) {
    let token = &fetched.lock_token;
    let lock = node.keeper.keep(Queue::Activities, token);
    let Some(work) = Work::of(fetched.item.clone()) else {
        return abandon(node, Queue::Activities, token, GiveBack::uncounted(None)).await;
    };
    let past = Past::of_work(fetched.attempts, &fetched);
    let details = poison::of_swept_activity(node, &work, &fetched.item, past).await;
    end_as_poison(node, &work, details, token, &lock).await;
}

async fn end_as_poison(node: &Node, work: &Work, details: ErrorDetails, token: &str, lock: &KeptLock) {
    let key = work.key();
    let mut to_ack = ToAck { work: Some(&key), completion: Some(work.failed(details.clone())) };
    let saved = save(node, token, lock, &mut to_ack, Persistence::End).await;
    if saved.reached_the_store() {
        node.counters.activity_failed(&details, node.activity_label(&work.name));
    }
}

/// Waits for the turn of the activity's session, if it has one, and says that the activity begins, if that was asked for.
/// The tries that failed if it is not to begin.
async fn begin(node: &Node, work: &Work, lock: &KeptLock) -> Result<Option<SessionTurn>, Tries> {
    let turn = session_turn(node, work, lock).await.ok_or(Tries::default())?;
    match say_begun(node, work, lock).await {
        Ok(()) => Ok(turn),
        Err(given_up) => Err(given_up.tries),
    }
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

fn report_unregistered(node: &Node, work: &Work, count: AttemptCount, backoff: Duration) {
    let AttemptCount { counted: attempts, max: max_attempts } = count;
    let remaining = count.remaining();
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
}

//! Running the handler of an activity, until it ends or is no longer wanted.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::{ActivityDeadlines, HandlerError, panic_text};
use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use super::activity_context::ActivityContext;
use super::activity_notes::tell_stopped;
use super::activity_work::Work;
use super::dispatch::Slot;
use super::handler_task::HandlerTask;
use super::keeper::KeptLock;
use super::node::Node;
use super::registry::ActivityHandler;

/// How the handler ended.
pub(super) enum Ended {
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
    pub(super) fn word(&self) -> &'static str {
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

/// Runs the handler as a task of its own, so that it can be told to stop and, after a grace time, made to.
pub(super) async fn run_handler(
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
        Ended::Released => Duration::ZERO,
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
    tokio::time::sleep(Duration::from_millis(limit_ms)).await;
    limit_ms
}

//! One fetched instance: decide, run the turn, commit it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use duroxide_core::{Before, BounceCause, Execution, TurnInput, TurnResult, cancel_ends_at_once, panic_text};
use futures_util::FutureExt;

use super::commit::{ToCommit, after_commit};
use super::dispatch::Slot;
use super::end_instance::{cancel, cancel_reason, end};
use super::give_back::{abandon, bounced, let_go};
use super::keeper::KeptLock;
use super::node::Node;
use super::obstacle::{Found, Obstacle, find_handler};
use super::poison::{self, Past};
use super::save::save;
use super::store_call::answer_in_time;
use super::suspects::Queue;
use super::traces::TurnOf;
use super::turn_watch::WatchedTurn;
use super::verdict::{
    AfterRun, AttemptCount, BeforeRun, Cancel, Code, Persistence, Tries, after_run, before_run,
};
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
    let instance = fetched.item.instance.clone();
    let count = node.count_attempts(&instance, fetched.attempts);
    let watched = WatchedTurn::new(&instance, &fetched.item.orchestration_name, count.counted, slot);
    let lock = node.keeper.keep_turn(&token, watched);
    let processed = AssertUnwindSafe(process_locked(&node, fetched, count, &lock)).catch_unwind().await;
    let slot = lock.end_turn();
    if let Err(payload) = processed {
        tracing::error!(target: "duroxide::runtime", instance_id = %instance, "processing a turn panicked; giving it back");
        node.live.forget(&instance);
        let cause = BounceCause::Panicked { message: panic_text(payload) };
        abandon(&node, Queue::Turns, &token, bounced(&node, count, cause)).await;
    }
    drop(slot);
}

async fn process_locked(node: &Arc<Node>, fetched: FetchedTurn, count: AttemptCount, lock: &KeptLock) {
    let FetchedTurn { item, lock_token: token, facts, .. } = fetched;
    let of = TurnOf::new(&item);
    let (mut item, held) = match bring_history(node, item, facts.as_ref(), count).await {
        Ok(brought) => brought,
        Err(error) => {
            node.store_failed("reading a history", &error);
            return let_go(node, Queue::Turns, &token, lock, &of.instance_id, Tries::default()).await;
        }
    };
    let now_ms = facts.as_ref().map_or_else(|| node.clock.now_ms(), |facts| facts.now_ms);
    let mut persistence = Persistence::Result;
    let ran = match decide(node, &item, held, count) {
        ToDo::GiveBack(obstacle) => {
            let how = obstacle.bounce(node, &item, count);
            return abandon(node, Queue::Turns, &token, how).await;
        }
        ToDo::End(obstacle) => {
            persistence = Persistence::End;
            let past = Past::of_turn(count.counted, facts.as_ref());
            let ending = poison::of_turn(node, &item, obstacle, past).await;
            Ok(end(node, item, facts.as_ref(), ending, now_ms).await)
        }
        ToDo::Cancel { reason } => Ok(cancel(node, item, facts.as_ref(), &reason, now_ms).await),
        ToDo::Run(Ready::Stored((handler, version))) => {
            let input = turn_input(node, &mut item, now_ms);
            let before = Before::Stored { handler, version, history: &item.history };
            run_verified(node, lock, before, input).await
        }
        ToDo::Run(Ready::Held(execution)) => {
            run_held(node, lock, execution, turn_input(node, &mut item, now_ms)).await
        }
    };
    // The call that failed has been reported.
    let Ok(result) = ran else {
        return let_go(node, Queue::Turns, &token, lock, &of.instance_id, Tries::default()).await;
    };
    match after_run(count, &result.turn.outcome, node.options.on_nondeterminism) {
        AfterRun::Commit => {}
        AfterRun::GiveBack(cause) => {
            let how = bounced(node, count, cause);
            report_bounce(node, &of, &how, count);
            return abandon(node, Queue::Turns, &token, how).await;
        }
    }
    announce(node, &of.instance_id, &result, facts.as_ref());
    let mut to_commit =
        ToCommit { execution_id: of.execution_id, instance: &of.instance_id, turn: &result.turn, count };
    let saved = save(node, &token, lock, &mut to_commit, persistence).await;
    after_commit(node, of, saved, result, facts);
}

/// What the code of an instance runs on.
enum Ready {
    Held(Box<Execution>),
    Stored(Found),
}

/// What to do with a fetched instance.
enum ToDo {
    Run(Ready),
    /// End it without its code. Something may stand in the way of running it.
    End(Option<Obstacle>),
    Cancel {
        reason: String,
    },
    GiveBack(Obstacle),
}

/// Finds out what `verdict` has to know, and what its answer needs.
fn decide(node: &Node, item: &OrchestrationItem, held: Option<Box<Execution>>, count: AttemptCount) -> ToDo {
    let ready = match held {
        Some(execution) => Ok(Ready::Held(execution)),
        None => find_handler(node, item).map(Ready::Stored),
    };
    let code = match &ready {
        Ok(Ready::Held(_)) => Code::Held,
        Ok(Ready::Stored(_)) => Code::Registered,
        Err(_) => Code::Obstructed,
    };
    let reason = cancel_reason(&item.messages);
    let cancel = match reason {
        None => Cancel::No,
        Some(_) if item.history.is_empty() || cancel_ends_at_once(&item.history) => Cancel::EndsAtOnce,
        Some(_) => Cancel::NeedsCode,
    };
    match (before_run(count, code, cancel), ready) {
        (BeforeRun::Cancel, _) => ToDo::Cancel { reason: reason.unwrap_or_default().to_string() },
        (BeforeRun::End, ready) => ToDo::End(ready.err()),
        (BeforeRun::Run | BeforeRun::GiveBack, Ok(ready)) => ToDo::Run(ready),
        (BeforeRun::Run | BeforeRun::GiveBack, Err(obstacle)) => ToDo::GiveBack(obstacle),
    }
}

/// Logs and counts a turn that is left to other nodes after its code has run.
fn report_bounce(node: &Node, of: &TurnOf, how: &GiveBack, count: AttemptCount) {
    let remaining = count.remaining();
    let report = |text: String| {
        tracing::warn!(
            target: "duroxide::runtime",
            instance_id = %of.instance_id,
            execution_id = of.execution_id,
            orchestration_name = %of.orchestration_name,
            orchestration_version = %of.orchestration_version,
            attempt_count = count.counted,
            remaining_attempts = remaining,
            backoff_secs = how.delay.unwrap_or_default().as_secs_f32(),
            "{text}"
        );
    };
    if let Some(BounceCause::FunctionWithoutName { text }) = &how.cause {
        report(format!("giving the instance back (will poison in {remaining} more attempts): {text}"));
    } else if let Some(BounceCause::Nondeterministic { diff }) = &how.cause {
        metric::nondeterminism_handed_back(node.orchestration_label(&of.orchestration_name)).increment(1);
        report(format!(
            "the code here does not fit the history, handing the instance back (will fail in {remaining} more attempts): {diff}"
        ));
    }
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
    count: AttemptCount,
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
            Some(execution) if !count.is_worn_out() => Ok((item, Some(execution))),
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

/// The next fetch may come before the answer to this turn's commit.
fn announce(node: &Node, instance: &str, result: &TurnResult, facts: Option<&TurnFacts>) {
    if let (Some(execution), Some(facts)) = (&result.execution, facts) {
        node.live.announce(instance, facts.incarnation, execution);
    }
}

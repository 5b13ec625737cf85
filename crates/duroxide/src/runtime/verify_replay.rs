//! Running a turn and, where the options ask for it, replaying it at once: what differs is not in the history.

use std::borrow::Cow;
use std::sync::Arc;

use duroxide_core::{
    Before, Event, Execution, KvAnswer, OrchestrationHandler, Outcome, TurnInput, TurnResult, verify_turn,
};
use semver::Version;

use super::drive_turn::run_turn;
use super::keeper::KeptLock;
use super::node::Node;
use super::program_log::muted;
use crate::providers::ProviderError;

/// Up to this many events every turn is verified; of longer histories so many turns less that the replays cost about as
/// much as if they were so long. In a debug build 40 events replay in a fraction of a millisecond, so that a program of
/// thousands of turns stays testable.
const VERIFIED_EVENTS: usize = 40;

/// Runs a turn, and replays it if it is to be verified.
pub(super) async fn run_verified(
    node: &Node,
    lock: &KeptLock,
    before: Before<'_>,
    input: TurnInput,
) -> Result<TurnResult, ProviderError> {
    let replay = Replay::of(node, &before, &input);
    let mut answers = Vec::new();
    let result = run_turn(node, lock, before, input, &mut answers).await?;
    Ok(match replay {
        Some(replay) => lock.run_program(|| muted(|| replay.compare(result, answers))),
        None => result,
    })
}

/// What a replay of the turn needs.
struct Replay<'a> {
    handler: Arc<dyn OrchestrationHandler>,
    version: String,
    history: Cow<'a, [Event]>,
    input: TurnInput,
}

impl<'a> Replay<'a> {
    /// `None` if this turn is not verified.
    fn of(node: &Node, before: &Before<'a>, input: &TurnInput) -> Option<Self> {
        if !node.options.verify_replay.is_on() {
            return None;
        }
        let (handler, version, history) = match before {
            Before::Stored { handler, version, history } => {
                (handler.clone(), version.clone(), Cow::Borrowed(*history))
            }
            Before::Held(execution) => {
                let events = execution.kept_events().filter(|events| is_sampled(events.len()))?;
                let (handler, version) = handler_of(node, execution)?;
                (handler, version, Cow::Owned(events.to_vec()))
            }
        };
        is_sampled(history.len()).then(|| Self { handler, version, history, input: input.clone() })
    }

    fn compare(self, live: TurnResult, answers: Vec<KvAnswer>) -> TurnResult {
        let is_done = matches!(
            live.turn.outcome,
            Outcome::Nondeterministic { .. }
                | Outcome::Unnamed { .. }
                | Outcome::AlreadyEnded
                | Outcome::NotStarted
        );
        if is_done {
            return live;
        }
        let mut answers = answers.into_iter();
        let answer =
            |_: &_| answers.next().unwrap_or_else(|| Err("the live turn did not ask for this".to_string()));
        let Self { handler, version, history, input } = self;
        verify_turn(&live.turn, handler, &version, &history, input, answer).unwrap_or(live)
    }
}

fn handler_of(node: &Node, execution: &Execution) -> Option<(Arc<dyn OrchestrationHandler>, String)> {
    let version = execution.orchestration_version();
    let parsed = Version::parse(version).ok()?;
    let handler = node.orchestrations.resolve_handler_exact(execution.orchestration_name(), &parsed)?;
    Some((handler, version.to_string()))
}

fn is_sampled(events: usize) -> bool {
    events.is_multiple_of(events / VERIFIED_EVENTS + 1)
}

//! Replaying a turn that has just run.

use std::sync::Arc;

use super::asking::{KvAnswer, KvQuestion, run_turn_with};
use super::end_stored::end_history;
use super::execution::Stop;
use super::mismatch::turn_difference;
use super::turn::{Before, Outcome, Turn, TurnInput};
use super::{OrchestrationHandler, TurnResult};
use crate::model::{Event, error_within_limit};

/// Runs a turn once more, from its history, and compares. Gives the turn that refuses the program if it did something
/// else, for a reason that is not in the history.
///
/// `history` is what the turn began with and `input` what it was given; `answer` gives what it was told about other
/// instances.
pub fn verify_turn(
    live: &Turn,
    handler: Arc<dyn OrchestrationHandler>,
    version: &str,
    history: &[Event],
    input: TurnInput,
    answer: impl FnMut(&KvQuestion) -> KvAnswer,
) -> Option<TurnResult> {
    let before = |history| Before::Stored { handler: handler.clone(), version: version.to_string(), history };
    let refused = input.clone();
    let replayed = run_turn_with(before(history), input.clone(), answer).turn;
    let difference = turn_difference(live, &replayed)?;
    // A replay of what the turn recorded names the line.
    let recorded: Vec<Event> = history.iter().chain(&live.events).cloned().collect();
    let without_messages = TurnInput { messages: Vec::new(), ..input };
    let again = run_turn_with(before(&recorded), without_messages, |_| Ok(None)).turn;
    let difference = if let Outcome::Nondeterministic { diff } = again.outcome { diff } else { difference };
    let diff = format!("a replay of the turn that just ran did something else: {difference}");
    Some(end_history(Stop::Nondeterministic(error_within_limit(diff)), history, refused))
}

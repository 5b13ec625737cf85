//! Running a turn that may ask for values of other instances: the runtime reads the store for it.

use duroxide_core::{Before, KvAnswer, KvQuestion, Step, TurnInput, TurnResult, begin_guarded_turn};

use super::backoff::OutageBackoff;
use super::insist::answer_in_time;
use super::keeper::KeptLock;
use super::node::Node;
use crate::providers::ProviderError;

/// How often a store that cannot be reached is asked before the instance is given back uncounted.
const TRIES: u32 = 10;

/// Runs a turn to its end. `answers` gets what the store said, in its order.
///
/// A store that cannot be reached is an error of this call and never an answer: what an answer says is recorded.
pub(super) async fn run_turn(
    node: &Node,
    lock: &KeptLock,
    before: Before<'_>,
    input: TurnInput,
    answers: &mut Vec<KvAnswer>,
) -> Result<TurnResult, ProviderError> {
    let mut step = lock.run_program(|| begin_guarded_turn(before, input, node.guards.clone()));
    loop {
        match step {
            Step::Done(result) => return Ok(*result),
            Step::Asks(turn) => {
                let mut given = Vec::new();
                for question in turn.questions() {
                    given.push(read(node, &question).await?);
                }
                answers.extend(given.iter().cloned());
                step = lock.run_program(|| turn.answer(given));
            }
        }
    }
}

async fn read(node: &Node, question: &KvQuestion) -> Result<KvAnswer, ProviderError> {
    let mut outage = OutageBackoff::default();
    let mut tries = 0;
    loop {
        match answer_in_time(node.provider.get_kv_value(&question.instance, &question.key)).await {
            Ok(value) => return Ok(Ok(value)),
            Err(error) if !error.is_retryable() => return Ok(Err(error.to_string())),
            Err(error) => {
                tries += 1;
                if tries >= TRIES || !node.pause(outage.next()).await {
                    return Err(error);
                }
                node.store_failed("reading a value for a program", &error);
            }
        }
    }
}

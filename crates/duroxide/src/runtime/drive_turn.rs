//! Running a turn that may ask for values of other instances: the runtime reads the store for it.

use duroxide_core::{Before, KvAnswer, KvQuestion, Step, TurnInput, TurnResult, begin_guarded_turn};

use super::keeper::KeptLock;
use super::node::Node;
use super::retry::until_done;
use super::verdict::Persistence;
use crate::providers::ProviderError;

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
    let read = |_| node.provider.get_kv_value(&question.instance, &question.key);
    match until_done(node, "reading a value for a program", Persistence::Question, None, read).await {
        Ok(value) => Ok(Ok(value)),
        Err(given_up) if given_up.error.is_retryable() => Err(given_up.error),
        Err(given_up) => Ok(Err(given_up.error.to_string())),
    }
}

//! A turn that stops to ask what only a store can tell, and goes on with the answer.
//!
//! The engine does no I/O. A program that reads the KV store of another instance makes the turn give its questions
//! out; the caller reads the store and hands the answers in. Each becomes an event of the same turn.

use super::TurnResult;
use super::ending::end_execution;
use super::execution::{Execution, Pass};
use super::run::{admit_all, begin_turn};
use super::schedules::{Found, ScheduleKind};
use super::turn::{Before, TurnInput};
use crate::model::{ErrorDetails, EventKind, ExecutionMetadata, WorkItem};

/// How far a turn has come.
#[derive(Debug)]
pub enum Step<'a> {
    /// To its end.
    Done(Box<TurnResult>),
    /// To questions that have to be answered first.
    Asks(Box<AskingTurn<'a>>),
}

/// A value that a program wants to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KvQuestion {
    /// The instance whose KV store is asked for.
    pub instance: String,
    /// The key.
    pub key: String,
}

/// The committed value, `None` if there is none, or why it cannot be read by anybody.
pub type KvAnswer = Result<Option<String>, String>;

/// A turn that waits for answers.
pub struct AskingTurn<'a> {
    execution: Execution,
    messages: std::vec::IntoIter<WorkItem>,
    pass: Pass<'a>,
    metadata: ExecutionMetadata,
}

impl<'a> Step<'a> {
    pub(super) fn done(result: TurnResult) -> Self {
        Self::Done(Box::new(result))
    }

    pub(super) fn asks(
        execution: Execution,
        messages: std::vec::IntoIter<WorkItem>,
        pass: Pass<'a>,
        metadata: ExecutionMetadata,
    ) -> Self {
        Self::Asks(Box::new(AskingTurn { execution, messages, pass, metadata }))
    }
}

impl<'a> AskingTurn<'a> {
    /// What has to be answered, in the order in which it was asked.
    pub fn questions(&self) -> Vec<KvQuestion> {
        self.execution.questions.values().cloned().collect()
    }

    /// Goes on with the answers, one for each question in its order.
    pub fn answer(self, answers: Vec<KvAnswer>) -> Step<'a> {
        let Self { mut execution, messages, mut pass, metadata } = self;
        let asked: Vec<u64> = std::mem::take(&mut execution.questions).into_keys().collect();
        debug_assert_eq!(asked.len(), answers.len(), "every question has an answer");
        for (id, answer) in asked.into_iter().zip(answers) {
            // The answer to the question before may have made this one needless.
            if !matches!(execution.schedules.find(id, ScheduleKind::Activity), Found::Open) {
                continue;
            }
            if let Err(stop) = execution.admit_event(Some(id), answered(answer), &mut pass) {
                return Step::done(end_execution(execution, stop, messages.collect(), pass, metadata));
            }
        }
        admit_all(execution, messages, pass, metadata)
    }
}

fn answered(answer: KvAnswer) -> EventKind {
    match answer {
        Ok(value) => EventKind::ActivityCompleted { result: serde_json::json!(value).to_string() },
        Err(message) => {
            EventKind::ActivityFailed { details: ErrorDetails::activity_failed_for_good(message) }
        }
    }
}

/// Runs a turn whose questions can be answered at once.
pub fn run_turn_with(
    before: Before<'_>,
    input: TurnInput,
    mut answer: impl FnMut(&KvQuestion) -> KvAnswer,
) -> TurnResult {
    let mut step = begin_turn(before, input);
    loop {
        match step {
            Step::Done(result) => return *result,
            Step::Asks(turn) => {
                let answers = turn.questions().iter().map(&mut answer).collect();
                step = turn.answer(answers);
            }
        }
    }
}

/// Runs a turn in a world where no other instance has a value, for tests.
pub fn run_turn(before: Before<'_>, input: TurnInput) -> TurnResult {
    run_turn_with(before, input, |_| Ok(None))
}

impl std::fmt::Debug for AskingTurn<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AskingTurn").field("execution", &self.execution).finish_non_exhaustive()
    }
}

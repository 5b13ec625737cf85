//! The replay engine: runs an orchestration's code against its history, one turn at a time.
//!
//! Reading order: [`run_turn`] in `run`, the live [`Execution`] and how it settles in `execution`, what the
//! program did in `commands` and `carry_out`, what came in from outside in `admission`, and how it all ends in `ending`, or
//! in `end_stored` if the program is not run.
//!
//! **Invariant**: a history is `OrchestrationStarted`, what the program did at once, and then again and again
//! one admitted event followed by what the program did about it. Nothing depends on how messages were batched.
//! **Invariant**: the same code runs at replay and live; only the tape (`tape`) tells them apart.

mod admission;
mod asking;
mod attempts;
mod behaviour;
mod cancel_schedule;
mod cancelling;
mod carry_out;
mod child_calls;
mod combinators;
mod commands;
mod context;
mod deadlines;
mod desk;
mod end_stored;
mod ending;
mod execution;
#[cfg(test)]
mod failure_tests;
mod future;
mod guards;
mod guid;
mod handler;
mod mismatch;
mod patches;
mod program_scope;
mod record_state;
mod retry;
mod run;
mod schedule_activity;
mod schedule_calls;
mod schedules;
mod slot;
mod start;
mod state;
mod state_calls;
mod step_bytes;
mod subscriptions;
mod tape;
mod turn;
mod typed;
mod verify;
mod wake;

pub use asking::{AskingTurn, KvAnswer, KvQuestion, Step, run_turn, run_turn_with};
pub use cancelling::{Cancellable, Cancelled};
pub use child_calls::ContinuedAsNew;
pub use combinators::{Either2, Either3};
pub use commands::SYSCALL_PREFIX;
pub use context::OrchestrationContext;
pub use desk::TraceLine;
pub use end_stored::{StoredExecution, cancel_without_handler, end_without_handler};
pub use execution::{Execution, panic_text};
pub use future::DurableFuture;
pub use guards::{Guards, PollGuard};
pub use handler::{HandlerError, OrchestrationHandler};
pub use program_scope::{Phase, ProgramOf, ProgramScope};
pub use retry::RetriedActivity;
pub use run::{TurnResult, begin_guarded_turn, begin_turn};
pub use turn::{Before, DropReason, Outcome, Turn, TurnInput};
pub use typed::{
    ActivityParameter, AppError, Call, CallError, Child, CompensationFailed, ContinueAs, Elapsed, EventName,
    Failure, FunctionName, FunctionNames, JoinAll, Logger, MalformedPayload, NamedTwice,
    OrchestrationParameter, QueueName, Saga, SagaStep, TryJoinAll, unnamed_activity, unnamed_orchestration,
};
pub use verify::verify_turn;

//! What is sent to the writer's thread: calls with their answers, reads, and fetches that may wait.

use std::sync::mpsc::Sender;

use duroxide_provider::clock::JumpListener;
use duroxide_provider::rules::{self, Answer, Token};
use duroxide_provider::{FetchedWork, GiveBack, ProviderError, TurnRequest, WorkRequest};
use tokio::sync::oneshot;

use super::db::Db;
use super::fault::Fault;
use super::parked::ParkedFetch;
use super::raw_turn::RawTurn;
use super::tx::Tx;

/// A message to the writer's thread.
pub(super) enum Message {
    /// A call to apply by the rules.
    Apply(Box<Ask>),
    /// A call to carry out in a transaction.
    Call(Box<dyn Call>),
    /// A read on the writer's connection, between two transactions.
    Read(Box<dyn FnOnce(&Db) + Send>),
    /// A fetch of turns.
    FetchTurns(ParkedFetch<TurnRequest, RawTurn>),
    /// A fetch of work items.
    FetchWork(ParkedFetch<WorkRequest, FetchedWork>),
    /// Somebody began to wait for an instance: other processes must be watched.
    Watch,
    /// The clock shows another time, to which it did not run: what waits for a time may be due.
    ClockJumped,
    /// The provider is gone.
    Stop,
}

/// The way to the writer's thread.
pub(super) struct ToWriter(pub(super) Sender<Message>);

impl JumpListener for ToWriter {
    fn clock_jumped(&self) {
        // Fails only when the thread has ended; then nothing waits.
        drop(self.0.send(Message::ClockJumped));
    }
}

/// A call that the rules apply, answered after its commit.
pub(super) struct Ask {
    operation: &'static str,
    pub(super) call: rules::Call,
    outcome: Option<Result<Answer, ProviderError>>,
    /// `None` when nobody waits for the answer.
    answer: Option<oneshot::Sender<Result<Answer, ProviderError>>>,
}

impl Ask {
    pub(super) fn new(
        operation: &'static str,
        call: rules::Call,
        answer: oneshot::Sender<Result<Answer, ProviderError>>,
    ) -> Self {
        Self { operation, call, outcome: None, answer: Some(answer) }
    }

    pub(super) fn set_outcome(&mut self, outcome: Result<Answer, Fault>) {
        self.outcome = Some(outcome.map_err(|fault| fault.into_error(self.operation)));
    }

    /// Sends the answer, or the error with which the whole group failed.
    pub(super) fn answer(self, group_failure: Option<&ProviderError>) {
        let Some(answer) = self.answer else {
            if let Some(failure) = group_failure {
                tracing::warn!(
                    target: "duroxide::runtime",
                    error = %failure,
                    "a lock of a fetch that nobody waits for could not be given back; it will expire"
                );
            }
            return;
        };
        // Whoever asked may have gone: the call is committed all the same, as after a lost answer.
        drop(answer.send(outcome_of(self.operation, group_failure, self.outcome)));
    }
}

/// What a call that was carried out, or not, is answered with.
fn outcome_of<T>(
    operation: &str,
    group_failure: Option<&ProviderError>,
    outcome: Option<Result<T, ProviderError>>,
) -> Result<T, ProviderError> {
    match (group_failure, outcome) {
        (Some(failure), _) => Err(renamed(failure, operation)),
        (None, Some(outcome)) => outcome,
        (None, None) => Err(ProviderError::retryable(operation, "the store did not carry the call out")),
    }
}

/// A call that is carried out in a transaction and answered after its commit.
pub(super) trait Call: Send {
    /// What it weighs in a group.
    fn bytes(&self) -> usize;

    /// Carries the call out and keeps its answer. An error means that it must be rolled back.
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), RollBack>;

    /// Takes note that carrying it out panicked.
    fn panicked(&mut self);

    /// Sends the answer, or the error with which the whole group failed.
    fn answer(self: Box<Self>, group_failure: Option<&ProviderError>);
}

/// The call failed; the reason is kept with it.
#[derive(Debug)]
pub(super) struct RollBack;

/// A call with a typed answer.
pub(super) struct Job<T, F> {
    operation: &'static str,
    bytes: usize,
    work: Option<F>,
    outcome: Option<Result<T, ProviderError>>,
    answer: oneshot::Sender<Result<T, ProviderError>>,
}

impl<T, F> Job<T, F>
where
    F: FnOnce(&mut Tx<'_>) -> Result<T, Fault> + Send,
    T: Send,
{
    pub(super) fn new(
        operation: &'static str,
        bytes: usize,
        work: F,
        answer: oneshot::Sender<Result<T, ProviderError>>,
    ) -> Self {
        Self { operation, bytes, work: Some(work), outcome: None, answer }
    }
}

impl<T, F> Call for Job<T, F>
where
    F: FnOnce(&mut Tx<'_>) -> Result<T, Fault> + Send,
    T: Send,
{
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), RollBack> {
        let Some(work) = self.work.take() else { return Ok(()) };
        let outcome = work(tx).map_err(|fault| fault.into_error(self.operation));
        let failed = outcome.is_err();
        self.outcome = Some(outcome);
        if failed { Err(RollBack) } else { Ok(()) }
    }

    fn panicked(&mut self) {
        self.outcome = Some(Err(Fault::Panicked.into_error(self.operation)));
    }

    fn answer(self: Box<Self>, group_failure: Option<&ProviderError>) {
        // Whoever asked may have gone: the call is committed all the same, as after a lost answer.
        drop(self.answer.send(outcome_of(self.operation, group_failure, self.outcome)));
    }
}

/// The failure of a group as one of its calls reports it.
pub(super) fn renamed(failure: &ProviderError, operation: &str) -> ProviderError {
    ProviderError::of_kind(failure.kind(), operation, failure.message.clone()).with_source(failure.clone())
}

/// What a fetch locked.
pub(super) trait Locked: Send + 'static {
    fn lock_token(&self) -> &str;

    /// Gives its lock back uncounted.
    fn give_back(token: Token) -> rules::Call;
}

impl Locked for RawTurn {
    fn lock_token(&self) -> &str {
        self.lock_token()
    }

    fn give_back(token: Token) -> rules::Call {
        rules::Call::GiveBackTurn { token, give_back: GiveBack::uncounted(None) }
    }
}

impl Locked for FetchedWork {
    fn lock_token(&self) -> &str {
        &self.lock_token
    }

    fn give_back(token: Token) -> rules::Call {
        rules::Call::GiveBackWork { token, give_back: GiveBack::uncounted(None) }
    }
}

/// What a fetch locked, on its way to whoever asked. If it does not arrive, because the caller stopped
/// waiting at any moment, the locks are given back uncounted.
pub(super) struct Delivery<T: Locked> {
    items: Vec<T>,
    writer: Sender<Message>,
}

impl<T: Locked> Delivery<T> {
    pub(super) fn new(items: Vec<T>, writer: Sender<Message>) -> Self {
        Self { items, writer }
    }

    pub(super) fn received(mut self) -> Vec<T> {
        std::mem::take(&mut self.items)
    }

    /// Forgets locks that were rolled back.
    pub(super) fn rolled_back(mut self) {
        self.items.clear();
    }
}

impl<T: Locked> Drop for Delivery<T> {
    fn drop(&mut self) {
        for token in self.items.iter().filter_map(|item| Token::parse(item.lock_token()).ok()) {
            let ask = Ask { operation: "give_back", call: T::give_back(token), outcome: None, answer: None };
            // Fails only when the store is closed; then the lock expires.
            drop(self.writer.send(Message::Apply(Box::new(ask))));
        }
    }
}

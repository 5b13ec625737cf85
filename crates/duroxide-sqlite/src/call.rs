//! What is sent to the writer's thread: calls with their answers, reads, and fetches that may wait.

use std::sync::mpsc::Sender;

use duroxide_provider::clock::JumpListener;
use duroxide_provider::{FetchedWork, ProviderError, TurnRequest, WorkRequest};
use tokio::sync::oneshot;

use super::db::Db;
use super::fault::Fault;
use super::fetch_turn::RawTurn;
use super::parked::ParkedFetch;
use super::token::Token;
use super::tx::Tx;
use super::{release_turn, work};

/// A message to the writer's thread.
pub(super) enum Message {
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
        let outcome = match (group_failure, self.outcome) {
            (Some(failure), _) => Err(renamed(failure, self.operation)),
            (None, Some(outcome)) => outcome,
            (None, None) => {
                Err(ProviderError::retryable(self.operation, "the store did not carry the call out"))
            }
        };
        // Whoever asked may have gone: the call is committed all the same, as after a lost answer.
        drop(self.answer.send(outcome));
    }
}

/// The failure of a group as one of its calls reports it.
pub(super) fn renamed(failure: &ProviderError, operation: &str) -> ProviderError {
    ProviderError::of_kind(failure.kind(), operation, failure.message.clone()).with_source(failure.clone())
}

/// What a fetch locked.
pub(super) trait Locked: Send + 'static {
    /// Which queue it belongs to.
    const QUEUE: Queue;

    fn lock_token(&self) -> &str;
}

/// One of the two queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Queue {
    Turns,
    Work,
}

impl Locked for RawTurn {
    const QUEUE: Queue = Queue::Turns;

    fn lock_token(&self) -> &str {
        self.lock_token()
    }
}

impl Locked for FetchedWork {
    const QUEUE: Queue = Queue::Work;

    fn lock_token(&self) -> &str {
        &self.lock_token
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
        let tokens: Vec<Token> =
            self.items.iter().filter_map(|item| Token::parse(item.lock_token()).ok()).collect();
        if !tokens.is_empty() {
            // Fails only when the store is closed; then the locks expire.
            drop(self.writer.send(Message::Call(Box::new(GiveBack { queue: T::QUEUE, tokens }))));
        }
    }
}

/// Gives locks back that reached nobody.
struct GiveBack {
    queue: Queue,
    tokens: Vec<Token>,
}

impl Call for GiveBack {
    fn bytes(&self) -> usize {
        0
    }

    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), RollBack> {
        for token in &self.tokens {
            let given_back = match self.queue {
                Queue::Turns => {
                    release_turn::give_back(tx, *token, duroxide_provider::GiveBack::uncounted(None))
                }
                Queue::Work => work::give_back(tx, *token, duroxide_provider::GiveBack::uncounted(None)),
            };
            match given_back {
                Ok(()) | Err(Fault::LockLost) => {}
                Err(_) => return Err(RollBack),
            }
        }
        Ok(())
    }

    fn panicked(&mut self) {}

    fn answer(self: Box<Self>, group_failure: Option<&ProviderError>) {
        if let Some(failure) = group_failure {
            tracing::warn!(
                target: "duroxide::runtime",
                locks = self.tokens.len(),
                error = %failure,
                "locks of a fetch that nobody waits for could not be given back; they will expire"
            );
        }
    }
}

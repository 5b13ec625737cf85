//! The calls that share transactions, each with its answer.

use std::sync::Arc;

use duroxide_provider::rules::{self, Answer, Token, Wanted};
use duroxide_provider::{GiveBack, ProviderError};
use tokio::sync::oneshot;

use crate::fetch::fetch_turn::RawTurn;
use crate::fetch::fetch_work::RawWork;
use crate::group::blocked::Waited;
use crate::group::carrier::Inbox;

/// A turn that writes more rows, or more bytes, is committed on a connection of its own: some 50 ms of the server's time.
const LARGE_ROWS: usize = 2_000;
const LARGE_BYTES: usize = 4 << 20;

/// A call that waits for a transaction.
pub(crate) struct Call {
    pub(crate) operation: &'static str,
    pub(crate) work: rules::Call,
    pub(crate) answer: oneshot::Sender<Result<Answer, ProviderError>>,
    /// Whether it has waited for rows that another transaction had locked.
    pub(crate) waited: Waited,
}

impl Call {
    pub(crate) fn new(
        operation: &'static str,
        work: rules::Call,
        answer: oneshot::Sender<Result<Answer, ProviderError>>,
    ) -> Self {
        Self { operation, work, answer, waited: Waited::default() }
    }

    /// What must be locked and read to carry it out.
    pub(crate) fn wanted(&self) -> Wanted {
        let mut wanted = Wanted::default();
        self.work.wants(&mut wanted);
        wanted
    }
}

/// Whether its transaction takes so long that others may not have to wait for it.
pub(crate) fn is_large(work: &rules::Call) -> bool {
    let rules::Call::AckTurn { commit, .. } = work else { return false };
    commit.rows() > LARGE_ROWS || commit.bytes() > LARGE_BYTES
}

/// One of the two queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queue {
    Turns,
    Work,
}

/// What a fetch locked.
pub(crate) trait Locked: Send + 'static {
    /// Which queue it belongs to.
    const QUEUE: Queue;

    fn token(&self) -> Token;
}

impl Locked for RawTurn {
    const QUEUE: Queue = Queue::Turns;

    fn token(&self) -> Token {
        self.token
    }
}

impl Locked for RawWork {
    const QUEUE: Queue = Queue::Work;

    fn token(&self) -> Token {
        self.token
    }
}

/// What a fetch locked, on its way to whoever asked. If it does not arrive, because the caller stopped
/// waiting at any moment, the locks are given back uncounted.
pub(crate) struct Delivery<T: Locked> {
    pub(crate) items: Vec<T>,
    guard: Guard,
}

/// Gives locks back unless they have arrived.
pub(crate) struct Guard {
    queue: Queue,
    tokens: Vec<Token>,
    inbox: Arc<Inbox>,
}

impl<T: Locked> Delivery<T> {
    pub(crate) fn new(items: Vec<T>, inbox: Arc<Inbox>) -> Self {
        let tokens = items.iter().map(Locked::token).collect();
        Self { items, guard: Guard { queue: T::QUEUE, tokens, inbox } }
    }

    pub(crate) fn open(self) -> (Vec<T>, Guard) {
        (self.items, self.guard)
    }
}

impl Guard {
    /// All of them are with whoever asked.
    pub(crate) fn arrived(mut self) {
        self.tokens.clear();
    }

    /// This one is not needed: it is given back at once.
    pub(crate) fn return_one(&mut self, token: Token) {
        self.tokens.retain(|one| *one != token);
        drop(Self { queue: self.queue, tokens: vec![token], inbox: Arc::clone(&self.inbox) });
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        for token in self.tokens.drain(..) {
            let give_back = GiveBack::uncounted(None);
            let work = match self.queue {
                Queue::Turns => rules::Call::GiveBackTurn { token, give_back },
                Queue::Work => rules::Call::GiveBackWork { token, give_back },
            };
            // Nobody waits for the answer. If it fails, the lock expires.
            let (answer, _) = oneshot::channel();
            self.inbox.send(Call::new("give_back", work, answer));
        }
    }
}

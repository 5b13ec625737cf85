//! The calls that share transactions, each with its answer.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::ItemKind;
use duroxide_provider::{Enqueued, GiveBack, ProviderError};
use tokio::sync::oneshot;

use crate::blocked::Waited;
use crate::carrier::Inbox;
use crate::fault::Fault;
use crate::fetch_turn::{AsideMessage, RawTurn};
use crate::fetch_work::RawWork;
use crate::item::EncodedItem;
use crate::messages::{FullInbox, Obstacle};
use crate::token::Token;
use crate::turn_commit::TurnCommit;
use crate::working_set::{Wanted, WorkingSet};

/// A turn that writes more rows, or more bytes, is committed on a connection of its own: some 50 ms of the server's time.
const LARGE_ROWS: usize = 2_000;
const LARGE_BYTES: usize = 4 << 20;

/// A call that waits for a transaction.
pub(crate) struct Call {
    pub(crate) operation: &'static str,
    pub(crate) work: Task,
    pub(crate) answer: oneshot::Sender<Result<Told, ProviderError>>,
    /// Whether it has waited for rows that another transaction had locked.
    pub(crate) waited: Waited,
}

impl Call {
    pub(crate) fn new(
        operation: &'static str,
        work: Task,
        answer: oneshot::Sender<Result<Told, ProviderError>>,
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

/// What a call that succeeded tells.
#[derive(Debug)]
pub(crate) enum Told {
    /// That it was carried out.
    Done,
    /// What became of an item.
    Enqueued(Enqueued),
}

impl Told {
    /// What became of the item of a call that asked for it.
    pub(crate) fn enqueued(self) -> Result<Enqueued, ProviderError> {
        match self {
            Self::Enqueued(enqueued) => Ok(enqueued),
            Self::Done => Err(ProviderError::permanent(
                "enqueue_checked",
                "the store did not tell what became of the item",
            )),
        }
    }
}

/// What a call asks for.
#[derive(Debug)]
pub(crate) enum Task {
    AckTurn {
        token: Token,
        commit: Box<TurnCommit>,
    },
    /// An ack that is wrong in itself.
    RefuseTurn {
        token: Token,
        reason: String,
    },
    GiveBackTurn {
        token: Token,
        give_back: GiveBack,
    },
    RenewTurn {
        token: Token,
        extend_for: Duration,
    },
    Enqueue {
        item: EncodedItem,
        delay: Option<Duration>,
        answer: Answer,
    },
    EnqueueWork {
        item: EncodedItem,
    },
    AckWork {
        token: Token,
        completion: Option<EncodedItem>,
    },
    /// An ack that is wrong in itself.
    RefuseWork {
        token: Token,
        reason: String,
    },
    GiveBackWork {
        token: Token,
        give_back: GiveBack,
    },
    RenewWork {
        token: Token,
        extend_for: Duration,
    },
    Progress {
        token: Token,
        details: String,
    },
    ForgiveAttempt {
        token: Token,
    },
    AsideMessages {
        token: Token,
        aside: Vec<AsideMessage>,
        left: usize,
    },
    AsideWork {
        token: Token,
        cause: String,
    },
}

/// Whether the sender of an item asks what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Wanted,
    NotWanted,
}

impl Task {
    /// What it weighs in a group.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::AckTurn { commit, .. } => commit.bytes(),
            Self::Enqueue { item, .. } | Self::EnqueueWork { item } => item.json.len(),
            Self::AckWork { completion, .. } => completion.as_ref().map_or(0, |item| item.json.len()),
            Self::Progress { details, .. } => details.len(),
            Self::RefuseTurn { .. }
            | Self::GiveBackTurn { .. }
            | Self::ForgiveAttempt { .. }
            | Self::RenewTurn { .. }
            | Self::RefuseWork { .. }
            | Self::GiveBackWork { .. }
            | Self::RenewWork { .. }
            | Self::AsideMessages { .. }
            | Self::AsideWork { .. } => 0,
        }
    }

    /// Whether its transaction takes so long that others may not have to wait for it.
    pub(crate) fn is_large(&self) -> bool {
        match self {
            Self::AckTurn { commit, .. } => commit.rows() > LARGE_ROWS || commit.bytes() > LARGE_BYTES,
            Self::RefuseTurn { .. }
            | Self::GiveBackTurn { .. }
            | Self::RenewTurn { .. }
            | Self::Enqueue { .. }
            | Self::EnqueueWork { .. }
            | Self::AckWork { .. }
            | Self::RefuseWork { .. }
            | Self::GiveBackWork { .. }
            | Self::RenewWork { .. }
            | Self::Progress { .. }
            | Self::ForgiveAttempt { .. }
            | Self::AsideMessages { .. }
            | Self::AsideWork { .. } => false,
        }
    }

    /// What must be locked and read to carry it out.
    pub(crate) fn wants(&self, wanted: &mut Wanted) {
        match self {
            Self::AckTurn { token, commit } => commit.wants(*token, wanted),
            Self::GiveBackTurn { token, .. } => {
                wanted.keys.insert(token.key);
                wanted.abandons.push(token.key);
            }
            Self::RefuseTurn { token, .. }
            | Self::RenewTurn { token, .. }
            | Self::AsideMessages { token, .. } => {
                wanted.keys.insert(token.key);
            }
            Self::Enqueue { item, .. } => {
                let id = item.item.instance().to_string();
                if item.kind() == ItemKind::Start {
                    wanted.reserved.insert(id.clone());
                    wanted.starts += 1;
                }
                wanted.ids.insert(id);
            }
            Self::EnqueueWork { .. } => {}
            Self::AckWork { token, completion } => {
                wanted.work.insert(token.key);
                wanted.ids.extend(completion.iter().map(|item| item.item.instance().to_string()));
            }
            Self::RefuseWork { token, .. }
            | Self::GiveBackWork { token, .. }
            | Self::RenewWork { token, .. }
            | Self::Progress { token, .. }
            | Self::ForgiveAttempt { token }
            | Self::AsideWork { token, .. } => {
                wanted.work.insert(token.key);
            }
        }
    }

    /// Carries it out in memory.
    pub(crate) async fn run(&self, set: &mut WorkingSet<'_>) -> Result<Told, Obstacle> {
        if let Self::Enqueue { item, delay, answer } = self {
            let placed = set.deliver(item, *delay, FullInbox::Refuse).await?;
            return match answer {
                Answer::Wanted => Ok(Told::Enqueued(set.outcome(item, placed).await?)),
                Answer::NotWanted => Ok(Told::Done),
            };
        }
        self.carry_out(set).await.map(|()| Told::Done)
    }

    async fn carry_out(&self, set: &mut WorkingSet<'_>) -> Result<(), Obstacle> {
        match self {
            Self::AckTurn { token, commit } => set.ack_turn(*token, commit).await,
            Self::RefuseTurn { token, reason } => {
                set.check_held(*token)?;
                Err(Fault::Invalid(reason.clone()).into())
            }
            Self::GiveBackTurn { token, give_back } => Ok(set.give_back_turn(*token, give_back).await?),
            Self::RenewTurn { token, extend_for } => Ok(set.renew_turn(*token, *extend_for)?),
            Self::Enqueue { item, delay, .. } => set.deliver(item, *delay, FullInbox::Refuse).await.map(drop),
            Self::EnqueueWork { item } => {
                set.put_work(item);
                Ok(())
            }
            Self::AckWork { token, completion } => set.ack_work(*token, completion.as_ref()).await,
            Self::RefuseWork { token, reason } => {
                set.check_work_held(*token)?;
                Err(Fault::Invalid(reason.clone()).into())
            }
            Self::GiveBackWork { token, give_back } => Ok(set.give_back_work(*token, give_back)?),
            Self::RenewWork { token, extend_for } => Ok(set.renew_work(*token, *extend_for)?),
            Self::Progress { token, details } => Ok(set.record_progress(*token, details)?),
            Self::ForgiveAttempt { token } => Ok(set.forgive_attempt(*token)?),
            Self::AsideMessages { token, aside, left } => {
                Ok(set.set_messages_aside(*token, aside, *left).await?)
            }
            Self::AsideWork { token, cause } => set.set_work_aside(*token, cause).await,
        }
    }
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
                Queue::Turns => Task::GiveBackTurn { token, give_back },
                Queue::Work => Task::GiveBackWork { token, give_back },
            };
            // Nobody waits for the answer. If it fails, the lock expires.
            let (answer, _) = oneshot::channel();
            self.inbox.send(Call::new("give_back", work, answer));
        }
    }
}

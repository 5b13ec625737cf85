//! The calls that change a store, and applying them.

use std::time::Duration;

use super::admin::{EncodedRedrive, EncodedRepair};
use super::changes::AsideMessage;
use super::encoded::{EncodedEvents, EncodedItem};
use super::messages::FullInbox;
use super::token::Token;
use super::turn_commit::TurnCommit;
use super::wanted::{Stop, Wanted};
use super::{Fault, Rows};
use crate::bounce::GiveBack;
use crate::outcome::Enqueued;

/// A call that changes a store.
#[derive(Debug)]
pub enum Call {
    /// Commits a turn.
    AckTurn {
        /// Its lock.
        token: Token,
        /// What it did.
        commit: Box<TurnCommit>,
    },
    /// A commit that is wrong in itself.
    RefuseTurn {
        /// Its lock.
        token: Token,
        /// What is wrong.
        reason: String,
    },
    /// Gives an instance back.
    GiveBackTurn {
        /// Its lock.
        token: Token,
        /// How.
        give_back: GiveBack,
    },
    /// Holds an instance longer.
    RenewTurn {
        /// Its lock.
        token: Token,
        /// From now on.
        extend_for: Duration,
    },
    /// Sends a checked message.
    Enqueue {
        /// The message.
        item: EncodedItem,
        /// How long it is not visible.
        delay: Option<Duration>,
        /// Whether the sender asks what became of it.
        answer: Wish,
    },
    /// Sends a checked message of the store's own, which always finds room.
    Deliver {
        /// The message.
        item: EncodedItem,
    },
    /// Queues a checked activity.
    EnqueueWork {
        /// The activity.
        item: EncodedItem,
    },
    /// Deletes a work item and sends its completion.
    AckWork {
        /// Its lock.
        token: Token,
        /// A checked completion.
        completion: Option<EncodedItem>,
    },
    /// An ack that is wrong in itself.
    RefuseWork {
        /// Its lock.
        token: Token,
        /// What is wrong.
        reason: String,
    },
    /// Gives a work item back.
    GiveBackWork {
        /// Its lock.
        token: Token,
        /// How.
        give_back: GiveBack,
    },
    /// Holds a work item longer.
    RenewWork {
        /// Its lock.
        token: Token,
        /// From now on.
        extend_for: Duration,
    },
    /// Keeps what an activity reports.
    Progress {
        /// Its lock.
        token: Token,
        /// What it reports.
        details: String,
    },
    /// Counts the attempt of the present lock as forgiven.
    ForgiveAttempt {
        /// Its lock.
        token: Token,
    },
    /// Moves messages of a turn out of their inbox.
    AsideMessages {
        /// Its lock.
        token: Token,
        /// The messages.
        aside: Vec<AsideMessage>,
        /// How many stay in the turn.
        left: usize,
    },
    /// Moves a work item out of its queue.
    AsideWork {
        /// Its lock.
        token: Token,
        /// Why it did not decode.
        cause: String,
    },
    /// Appends events without a lock.
    Append {
        /// The instance.
        instance: String,
        /// The execution.
        execution_id: u64,
        /// The events.
        delta: EncodedEvents,
    },
    /// Lets failed instances go on, all or none.
    Redrive(Vec<EncodedRedrive>),
    /// Puts back what an instance misses.
    Repair(Box<EncodedRepair>),
}

/// Whether the sender of an item asks what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// It does, which may cost a look at what the instance was started with.
    Told,
    /// It does not.
    NotTold,
}

/// What a call that was applied tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// That it was applied.
    Done,
    /// What became of an item.
    Enqueued(Enqueued),
    /// How much was put back.
    PutBack(u64),
}

impl Answer {
    /// What became of the item of a call that asked for it.
    pub fn enqueued(self) -> Result<Enqueued, Fault> {
        match self {
            Self::Enqueued(enqueued) => Ok(enqueued),
            Self::Done | Self::PutBack(_) => {
                Err(Fault::Corrupt("the store did not tell what became of the item".to_string()))
            }
        }
    }

    /// How much a repair put back.
    pub fn put_back(self) -> u64 {
        match self {
            Self::PutBack(count) => count,
            Self::Done | Self::Enqueued(_) => 0,
        }
    }
}

impl Call {
    /// What it weighs in a group.
    pub fn bytes(&self) -> usize {
        match self {
            Self::AckTurn { commit, .. } => commit.bytes(),
            Self::Enqueue { item, .. } | Self::Deliver { item } | Self::EnqueueWork { item } => {
                item.json.len()
            }
            Self::AckWork { completion, .. } => completion.as_ref().map_or(0, |item| item.json.len()),
            Self::Progress { details, .. } => details.len(),
            Self::Append { delta, .. } => delta.bytes(),
            Self::RefuseTurn { .. }
            | Self::GiveBackTurn { .. }
            | Self::ForgiveAttempt { .. }
            | Self::RenewTurn { .. }
            | Self::RefuseWork { .. }
            | Self::GiveBackWork { .. }
            | Self::RenewWork { .. }
            | Self::AsideMessages { .. }
            | Self::AsideWork { .. }
            | Self::Redrive(_)
            | Self::Repair(_) => 0,
        }
    }

    /// Adds the rows that must be known to apply it.
    pub fn wants(&self, wanted: &mut Wanted) {
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
            Self::Enqueue { item, .. } | Self::Deliver { item } => wanted.message(item),
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
            Self::Append { instance, .. } => {
                wanted.ids.insert(instance.clone());
            }
            Self::Redrive(all) => all.iter().for_each(|one| one.wants(wanted)),
            Self::Repair(request) => request.wants(wanted),
        }
    }
}

impl Rows {
    /// Applies a call. If it cannot be applied, the rows are as they were.
    pub fn apply(&mut self, call: &Call) -> Result<Answer, Stop> {
        self.begin_call();
        let applied = self.run(call);
        match &applied {
            Ok(_) => self.keep_call(),
            Err(_) => self.undo_call(),
        }
        applied
    }

    fn run(&mut self, call: &Call) -> Result<Answer, Stop> {
        match call {
            Call::Enqueue { item, delay, answer } => {
                let placed = self.deliver(item, *delay, FullInbox::Refuse)?;
                match answer {
                    Wish::Told => Ok(Answer::Enqueued(self.outcome(item, placed)?)),
                    Wish::NotTold => Ok(Answer::Done),
                }
            }
            Call::Repair(request) => self.repair(request).map(Answer::PutBack),
            Call::Redrive(all) => self.redrive(all).map(done),
            Call::Append { instance, execution_id, delta } => {
                self.append_history(instance, *execution_id, delta).map(done)
            }
            Call::AckTurn { token, commit } => self.ack_turn(*token, commit).map(done),
            Call::RefuseTurn { token, reason } => {
                self.check_held(*token)?;
                Err(Fault::Invalid(reason.clone()).into())
            }
            Call::GiveBackTurn { token, give_back } => self.give_back_turn(*token, give_back).map(done),
            Call::RenewTurn { token, extend_for } => Ok(self.renew_turn(*token, *extend_for).map(done)?),
            Call::Deliver { item } => self.deliver(item, None, FullInbox::Admit).map(|_| Answer::Done),
            Call::EnqueueWork { item } => {
                self.put_work(item);
                Ok(Answer::Done)
            }
            Call::AckWork { token, completion } => self.ack_work(*token, completion.as_ref()).map(done),
            Call::RefuseWork { token, reason } => {
                self.check_work_held(*token)?;
                Err(Fault::Invalid(reason.clone()).into())
            }
            Call::GiveBackWork { token, give_back } => {
                Ok(self.give_back_work(*token, give_back).map(done)?)
            }
            Call::RenewWork { token, extend_for } => Ok(self.renew_work(*token, *extend_for).map(done)?),
            Call::Progress { token, details } => Ok(self.record_progress(*token, details).map(done)?),
            Call::ForgiveAttempt { token } => Ok(self.forgive_attempt(*token).map(done)?),
            Call::AsideMessages { token, aside, left } => {
                self.set_messages_aside(*token, aside, *left).map(done)
            }
            Call::AsideWork { token, cause } => self.set_work_aside(*token, cause).map(done),
        }
    }
}

fn done((): ()) -> Answer {
    Answer::Done
}

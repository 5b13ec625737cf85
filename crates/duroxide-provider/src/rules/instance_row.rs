//! The row of an instance as the queue sees it: how full its inbox is, when it is ready, who holds it.

use duroxide_core::{ParentLink, Route};

use super::token::Token;
use super::values::{Ms, from_column};
use crate::status_code::Status;

/// Stands in `not_before`: the backoff that the turn under way may ask for is over before it begins.
pub const CANCELLED_WHILE_LOCKED: Ms = -1;

/// The lock of an instance and the messages that it covers: those of the inbox up to
/// (`visible_at`, `position`) whose position is below `watermark`.
///
/// Which messages are locked, and that they were fetched once more, thus stands in one row, however many
/// they are. The attempt is added to the messages themselves only when it ends without deleting them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnLock {
    /// What a token must show.
    pub nonce: i64,
    /// The last covered message.
    pub visible_at: Ms,
    /// The last covered message.
    pub position: i64,
    /// The next position at the time of the lock: what came later is not covered.
    pub watermark: i64,
    /// How many messages it covers.
    pub count: i64,
}

impl TurnLock {
    /// Whether the lock covers the message at this place.
    pub fn covers(&self, visible_at: Ms, position: i64) -> bool {
        (visible_at, position) <= (self.visible_at, self.position) && position < self.watermark
    }
}

/// The row of an instance.
#[derive(Debug, Clone)]
pub struct InstanceRow {
    /// Its primary key.
    pub key: i64,
    /// For the store alone: the state of the row that was loaded.
    pub revision: i64,
    /// The instance's id.
    pub instance: String,
    /// Random, told apart from a later instance of the same id.
    pub incarnation: u64,
    /// When it was started.
    pub created_at: Ms,
    /// The orchestration.
    pub name: String,
    /// Its version; empty when none is known.
    pub version: String,
    /// Its parent.
    pub parent_instance: Option<String>,
    /// The execution of the parent that started it.
    pub parent_execution_id: Option<i64>,
    /// The event of the parent that started it.
    pub parent_event_id: Option<i64>,
    /// `Running`, `Completed` or `Failed`.
    pub status: Status,
    /// When its last turn was committed.
    pub updated_at: Ms,
    /// The execution that runs, or ran last.
    pub current_execution_id: u64,
    /// The packed version that the execution is pinned to, or [`super::NOT_PINNED`].
    pub pinned_key: i64,
    /// Whether its KV store may have values.
    pub has_kv: bool,
    /// How many messages wait, the locked ones included.
    pub inbox_count: i64,
    /// The position of the next message.
    pub next_position: i64,
    /// The end of the backoff, or [`CANCELLED_WHILE_LOCKED`].
    pub not_before: Ms,
    /// When a fetch may take it; when locked, the end of the lock. `None` with an empty inbox.
    pub ready_at: Option<Ms>,
    /// Whether its lock expired, or will have if nobody ends it.
    pub suspect: bool,
    /// `suspect` as it was when the lock was taken.
    pub suspect_before: bool,
    /// Who holds it.
    pub lock: Option<TurnLock>,
    /// Whether a cancel is in the inbox.
    pub cancelled: bool,
    /// Whether the store keeps why it was given back.
    pub bounced: bool,
    /// The latest visible time that a message without a delay was given.
    pub last_arrival: Ms,
    /// What the group changed and the store has yet to write.
    pub pending: Pending,
}

/// What a group changed of an instance and the store has yet to write.
#[derive(Debug, Clone, Default)]
pub struct Pending {
    /// The columns of the queue.
    pub queue: bool,
    /// The whole instance: it is new.
    pub created: bool,
    /// Name, version or parent.
    pub description: bool,
    /// Status and end.
    pub end: Option<Status>,
    /// The handler that the next turn needs, if that changes.
    pub route: Option<Route>,
    /// A cancel came into the inbox, or may have left it: the column must be found out anew.
    pub cancels: bool,
    /// The fingerprint of the input that a new instance was started with.
    pub first_input: Option<i64>,
    /// When the first message in the inbox is visible, of those that were stored before and stay; `None` until
    /// it was asked.
    pub first_stored: Option<Option<Ms>>,
    /// The same once the messages of its lock and the timers that its commit removes are gone.
    pub(super) first_left: Option<Option<Ms>>,
    /// How many messages the group added and did not remove again.
    pub(super) added: i64,
    /// When the first of them is visible.
    pub(super) first_added: Option<Ms>,
    /// The call that changed it last, by its number in the group.
    pub(super) changed_by: u64,
}

impl InstanceRow {
    /// Whether this token holds it at this time.
    pub fn is_held_by(&self, token: Token, now: Ms) -> bool {
        let expires = self.ready_at.unwrap_or(Ms::MIN);
        self.lock.is_some_and(|lock| lock.nonce == token.nonce) && now < expires
    }

    /// Whether it has ended.
    pub fn is_ended(&self) -> bool {
        self.status.ends_instance()
    }

    /// A cancel is now in the inbox.
    pub(super) fn note_cancel(&mut self) {
        self.cancelled = true;
        self.pending.cancels = true;
    }

    /// Messages leave the inbox, perhaps the last cancel among them.
    pub(super) fn note_removal(&mut self) {
        self.pending.cancels |= self.cancelled;
    }

    /// When a message that is not delayed and comes now is visible: in its order, whatever the clock says.
    pub(super) fn next_arrival(&mut self, now: Ms) -> Ms {
        self.last_arrival = self.last_arrival.max(now);
        self.last_arrival
    }

    /// Whose child it is.
    pub fn parent(&self) -> Option<ParentLink> {
        ParentLink::from_fields(
            self.parent_instance.as_deref(),
            self.parent_execution_id.map(from_column),
            self.parent_event_id.map(from_column),
        )
    }
}

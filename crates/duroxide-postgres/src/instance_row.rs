//! The row of an instance as the queue sees it: how full its inbox is, when it is ready, who holds it.

use duroxide_core::{ParentLink, Route};
use duroxide_provider::support::Status;
use tokio_postgres::Row;

use crate::fetch_turn::RawMessage;
use crate::token::Token;
use crate::values::{Ms, from_column, from_text};

/// Stands in `not_before`: the backoff that the turn under way may ask for is over before it begins.
pub(crate) const CANCELLED_WHILE_LOCKED: Ms = -1;

/// The lock of an instance and the messages that it covers: those of the inbox up to
/// (`visible_at`, `position`) whose position is below `watermark`.
///
/// Which messages are locked, and that they were fetched once more, thus stands in one row, however many
/// they are. The attempt is added to the messages themselves only when it ends without deleting them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TurnLock {
    pub(crate) nonce: i64,
    pub(crate) visible_at: Ms,
    pub(crate) position: i64,
    pub(crate) watermark: i64,
    /// How many messages it covers.
    pub(crate) count: i64,
}

impl TurnLock {
    /// A lock on messages that stand in the order of the inbox; `None` without messages.
    pub(crate) fn covering(nonce: i64, messages: &[RawMessage], watermark: i64) -> Option<Self> {
        let last = messages.last()?;
        let count = crate::values::count(messages.len());
        Some(Self { nonce, visible_at: last.visible_at, position: last.position, watermark, count })
    }
}

/// An instance in the working set of a transaction that holds its row.
#[derive(Debug, Clone)]
pub(crate) struct InstanceRow {
    pub(crate) key: i64,
    /// As it stands in the store: grows with every change.
    pub(crate) revision: i64,
    pub(crate) instance: String,
    pub(crate) incarnation: u64,
    pub(crate) created_at: Ms,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) parent_instance: Option<String>,
    pub(crate) parent_execution_id: Option<i64>,
    pub(crate) parent_event_id: Option<i64>,
    pub(crate) ended: bool,
    pub(crate) updated_at: Ms,
    pub(crate) current_execution_id: u64,
    pub(crate) pinned_key: i64,
    pub(crate) has_kv: bool,
    pub(crate) inbox_count: i64,
    pub(crate) next_position: i64,
    pub(crate) not_before: Ms,
    pub(crate) ready_at: Option<Ms>,
    pub(crate) suspect: bool,
    pub(crate) suspect_before: bool,
    pub(crate) lock: Option<TurnLock>,
    /// Whether a cancel is in the inbox.
    pub(crate) cancelled: bool,
    /// Whether the store keeps why it was given back.
    pub(crate) bounced: bool,
    /// The latest time by which a message in the inbox is stamped that is neither delayed nor a timer. Ahead of the clock if
    /// that was set back.
    pub(crate) last_arrival: Ms,
    pub(crate) pending: Pending,
}

/// What the transaction changed and has yet to write.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pending {
    /// The row of the queue.
    pub(crate) queue: bool,
    /// The whole instance: it is new.
    pub(crate) created: bool,
    /// Name, version or parent.
    pub(crate) description: bool,
    /// How the instance ended.
    pub(crate) end: Option<Status>,
    /// When the first message in the inbox is visible, of those that the store held before and that stay;
    /// `None` until it was asked.
    pub(crate) first_stored: Option<Option<Ms>>,
    /// The same of those that the transaction added.
    pub(crate) first_added: Option<Ms>,
    /// The handler that the next turn needs, if that changes.
    pub(crate) route: Option<Route>,
    /// A cancel came into the inbox, or may have left it.
    pub(crate) cancels: bool,
    /// The fingerprint of the input that a new instance was started with.
    pub(crate) first_input: Option<i64>,
}

/// The columns of [`InstanceRow`], to be selected first, from `queues q JOIN instances i`.
macro_rules! instance_columns {
    () => {
        "q.key, q.ended, q.updated_at, q.current_execution_id, q.pinned_key, q.has_kv, q.inbox_count, \
         q.next_position, q.not_before, q.ready_at, q.suspect, q.suspect_before, q.lock_nonce, \
         q.lock_visible_at, q.lock_position, q.lock_watermark, q.lock_count, i.instance_id, i.name, i.version, \
         i.parent_instance, i.parent_execution_id, i.parent_event_id, q.cancelled, q.revision, i.incarnation, \
         i.created_at, q.bounced_at IS NOT NULL, \
         (SELECT n.visible_at FROM {s}.inbox n WHERE n.instance_key = q.key AND n.kind <> 5 AND n.delayed IS NOT TRUE \
          ORDER BY n.visible_at DESC, n.position DESC LIMIT 1)"
    };
}
pub(crate) use instance_columns;

impl InstanceRow {
    pub(crate) fn from_row(row: &Row) -> Self {
        // Half a lock is none: its holder has lost it, and the instance is fetched again when it would have expired.
        let part = |column: usize| row.get::<_, Option<i64>>(column);
        let lock = match (part(12), part(13), part(14), part(15), part(16)) {
            (Some(nonce), Some(visible_at), Some(position), Some(watermark), Some(count)) => {
                Some(TurnLock { nonce, visible_at, position, watermark, count })
            }
            (None | Some(_), _, _, _, _) => None,
        };
        let text = |column: usize| from_text(row.get(column));
        Self {
            key: row.get(0),
            ended: row.get(1),
            updated_at: row.get(2),
            current_execution_id: from_column(row.get(3)),
            pinned_key: row.get(4),
            has_kv: row.get(5),
            inbox_count: row.get(6),
            next_position: row.get(7),
            not_before: row.get(8),
            ready_at: row.get(9),
            suspect: row.get(10),
            suspect_before: row.get(11),
            lock,
            instance: text(17),
            name: text(18),
            version: text(19),
            parent_instance: row.get::<_, Option<String>>(20).map(from_text),
            parent_execution_id: row.get(21),
            parent_event_id: row.get(22),
            cancelled: row.get(23),
            revision: row.get(24),
            incarnation: row.get::<_, i64>(25).cast_unsigned(),
            created_at: row.get(26),
            bounced: row.get(27),
            last_arrival: row.get::<_, Option<Ms>>(28).unwrap_or(Ms::MIN),
            pending: Pending::default(),
        }
    }

    pub(crate) fn is_held_by(&self, token: Token, now: Ms) -> bool {
        let expires = self.ready_at.unwrap_or(Ms::MIN);
        self.lock.is_some_and(|lock| lock.nonce == token.nonce) && now < expires
    }

    /// A cancel is now in the inbox.
    pub(crate) fn note_cancel(&mut self) {
        self.cancelled = true;
        self.pending.cancels = true;
    }

    /// Messages leave the inbox, perhaps the last cancel among them.
    pub(crate) fn note_removal(&mut self) {
        self.pending.cancels |= self.cancelled;
    }

    pub(crate) fn parent(&self) -> Option<ParentLink> {
        ParentLink::from_fields(
            self.parent_instance.as_deref(),
            self.parent_execution_id.map(from_column),
            self.parent_event_id.map(from_column),
        )
    }
}

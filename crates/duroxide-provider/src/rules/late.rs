//! Messages that come after their instance has ended, and what is kept of the inbox of one that fails.

use duroxide_core::redrive::{KeptMessages, kept_since_failure};
use duroxide_core::{Columns, ErrorDetails, ItemKind};

use super::Rows;
use super::changes::{KeptItem, KeptMessage};
use super::messages::{FullInbox, check_room};
use super::values::{Ms, count, from_column, from_json};
use super::wanted::Stop;
use crate::outcome::SendOutcome;
use crate::status_code::Status;

impl Rows {
    /// A message for an instance that has ended: kept if it may go on, dropped otherwise.
    pub(super) fn arrive_late(
        &mut self,
        key: i64,
        columns: &Columns<'_>,
        json: &str,
        full: FullInbox,
    ) -> Result<SendOutcome, Stop> {
        // Only events are kept.
        let kept = if columns.kind == ItemKind::Event { self.kept_for(key)? } else { None };
        let Some(kept) = kept else {
            self.call.effects.dropped_finished += 1;
            return Ok(SendOutcome::Ended);
        };
        if full == FullInbox::Refuse {
            check_room(columns.instance, kept)?;
        }
        let item = KeptItem::New(json.to_string());
        self.call.changes.kept.push(KeptMessage { key, order: kept, item });
        self.set_kept(key, Some(kept.saturating_add(1)));
        Ok(SendOutcome::Kept)
    }

    /// How many messages are kept for an instance that has ended; `None` if events for it are dropped.
    fn kept_for(&mut self, key: i64) -> Result<Option<i64>, Stop> {
        if let Some(known) = self.kept(key) {
            return Ok(known);
        }
        let row = self.loaded(key)?;
        let (failed, execution_id) = (row.status == Status::Failed, row.current_execution_id);
        if !failed {
            return Ok(None);
        }
        let stored = self.stored_kept(key, execution_id)?;
        // The group itself may have ended it.
        let new_failure = self.execution(key, execution_id).and_then(|row| row.new_failure.as_ref());
        let failure = new_failure.or(stored.failure.as_ref());
        let both = [&self.done.changes, &self.call.changes];
        let added = both.iter().flat_map(|changes| &changes.kept).filter(|one| one.key == key).count();
        let kept = failure.is_some_and(|json| keeps_events(json)).then(|| stored.count + count(added));
        self.set_kept(key, kept);
        Ok(kept)
    }

    /// Keeps what is in the inbox of an instance whose turn ends in a failure after which it may go on. Called
    /// before any of it is deleted.
    pub(super) fn keep_inbox(&mut self, key: i64, mut kept: KeptMessages) -> Result<(), Stop> {
        let row = self.loaded(key)?;
        let lock = row.lock;
        if row.inbox_count == 0 {
            return Ok(());
        }
        let stored: &[_] = if row.inbox_count == row.pending.added { &[] } else { self.stored_inbox(key)? };
        let stored = stored.iter().map(|message| {
            let (visible_at, position) = (message.visible_at, message.position);
            let item = KeptItem::Stored { visible_at, position };
            ((visible_at, position), message.kind, message.event_id, item)
        });
        let added = self.added_messages(key).map(|row| {
            let item = KeptItem::New(row.json.clone());
            ((row.visible_at, row.position), row.kind.code(), row.event_id, item)
        });
        let mut inbox: Vec<_> = stored.chain(added).collect();
        inbox.sort_unstable_by_key(|message: &((Ms, i64), i64, Option<i64>, KeptItem)| message.0);
        let mut order = 0_i64;
        for ((visible_at, position), code, event_id, item) in inbox {
            let taken = lock.is_some_and(|lock| lock.covers(visible_at, position));
            // A kind that this build does not know is kept: another build may.
            if ItemKind::from_code(code).is_none_or(|kind| kept.keeps(kind, event_id.map(from_column), taken))
            {
                self.call.changes.kept.push(KeptMessage { key, order, item });
                order = order.saturating_add(1);
            }
        }
        Ok(())
    }
}

/// Whether events are kept for an instance that failed so.
fn keeps_events(failure: &str) -> bool {
    match from_json::<ErrorDetails>(failure) {
        Ok(failure) => kept_since_failure(ItemKind::Event, &failure),
        // A failure that this build does not know: another build may let it go on.
        Err(_) => true,
    }
}

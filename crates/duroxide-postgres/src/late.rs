//! Messages that come after their instance has ended.

use duroxide_core::redrive::kept_since_failure;
use duroxide_core::{Columns, ErrorDetails, ItemKind};
use duroxide_provider::SendOutcome;
use duroxide_provider::support::Status;

use crate::fault::Fault;
use crate::messages::{FullInbox, check_room};
use crate::values::{count, from_json};
use crate::working_set::WorkingSet;

/// The status, the failure, and how many messages are kept: their positions count from 0 and have no gaps.
const LATE: &str = "SELECT i.status, e.failure, (SELECT coalesce(max(m.position) + 1, 0) FROM {s}.kept_messages m \
       WHERE m.instance_key = q.key) \
     FROM {s}.queues q JOIN {s}.instances i ON i.key = q.key \
     LEFT JOIN {s}.executions e ON e.instance_key = q.key AND e.execution_id = q.current_execution_id \
     WHERE q.key = $1";

impl WorkingSet<'_> {
    /// A message for an instance that has ended: kept if it may go on, dropped otherwise.
    pub(crate) async fn arrive_late(
        &mut self,
        key: i64,
        columns: &Columns<'_>,
        json: &str,
        full: FullInbox,
    ) -> Result<SendOutcome, Fault> {
        // Only events are kept.
        let kept = if columns.kind == ItemKind::Event { self.kept_for(key).await? } else { None };
        let Some(kept) = kept else {
            self.effects.dropped_finished += 1;
            return Ok(SendOutcome::Ended);
        };
        if full == FullInbox::Refuse {
            check_room(columns.instance, kept)?;
        }
        self.writes.kept.push((key, kept, json.to_string()));
        self.kept.insert(key, Some(kept.saturating_add(1)));
        Ok(SendOutcome::Kept)
    }

    /// How many messages are kept for an instance that has ended; `None` if events for it are dropped.
    async fn kept_for(&mut self, key: i64) -> Result<Option<i64>, Fault> {
        if let Some(known) = self.kept.get(&key) {
            return Ok(*known);
        }
        let row = self.conn()?.first(LATE, &[&key]).await?;
        let row = row.ok_or_else(|| Fault::Corrupt("an instance that is locked is gone".to_string()))?;
        let instance = self.instance(key)?;
        // The transaction itself may have ended it.
        let failed = match instance.pending.end {
            Some(end) => end == Status::Failed,
            None => row.get::<_, i64>(0) == Status::Failed.code(),
        };
        let id = (key, instance.current_execution_id);
        let new_failure = self.executions.get(&id).and_then(|execution| execution.new_failure.clone());
        let failure = new_failure.or_else(|| row.get(1));
        let kept = (failed && failure.is_some_and(|json| keeps_events(&json))).then(|| {
            let added = self.writes.kept.iter().filter(|(of, _, _)| *of == key).count();
            row.get::<_, i64>(2) + count(added)
        });
        self.kept.insert(key, kept);
        Ok(kept)
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

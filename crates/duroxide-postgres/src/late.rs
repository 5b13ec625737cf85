//! Messages that come after their instance has ended.

use duroxide::providers::support::Status;
use duroxide_core::redrive::kept_since_failure;
use duroxide_core::{Columns, ErrorDetails, ItemKind};

use crate::fault::Fault;
use crate::messages::{FullInbox, check_room};
use crate::values::{count, from_json};
use crate::working_set::WorkingSet;

/// What is kept for a failed instance that may go on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Late {
    next_position: i64,
    count: i64,
}

const LATE: &str = "SELECT i.status, e.failure, k.next, k.count FROM {s}.queues q \
     JOIN {s}.instances i ON i.key = q.key \
     LEFT JOIN {s}.executions e ON e.instance_key = q.key AND e.execution_id = q.current_execution_id, \
     LATERAL (SELECT coalesce(max(m.position), -1) + 1 AS next, count(*) AS count \
              FROM {s}.kept_messages m WHERE m.instance_key = q.key) k \
     WHERE q.key = $1";

impl WorkingSet<'_> {
    /// A message for an instance that has ended: kept if it may go on, dropped otherwise.
    pub(crate) async fn arrive_late(
        &mut self,
        key: i64,
        columns: &Columns<'_>,
        json: &str,
        full: FullInbox,
    ) -> Result<(), Fault> {
        // Only events are kept.
        let late = if columns.kind == ItemKind::Event { self.late(key).await? } else { None };
        let Some(late) = late else {
            self.effects.dropped_finished += 1;
            return Ok(());
        };
        if full == FullInbox::Refuse {
            check_room(columns.instance, late.count)?;
        }
        self.writes.kept.push((key, late.next_position, json.to_string()));
        let more = Late { next_position: late.next_position + 1, count: late.count + 1 };
        self.late.insert(key, Some(more));
        Ok(())
    }

    /// What is kept for an instance that has ended; `None` if events for it are dropped.
    async fn late(&mut self, key: i64) -> Result<Option<Late>, Fault> {
        if let Some(known) = self.late.get(&key) {
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
        let late = (failed && failure.is_some_and(|json| keeps_events(&json))).then(|| {
            let added = self.writes.kept.iter().filter(|(of, _, _)| *of == key);
            let next_added = added.clone().map(|(_, position, _)| position + 1).max();
            Late {
                next_position: next_added.unwrap_or(0).max(row.get(2)),
                count: count(added.count()) + row.get::<_, i64>(3),
            }
        });
        self.late.insert(key, late);
        Ok(late)
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

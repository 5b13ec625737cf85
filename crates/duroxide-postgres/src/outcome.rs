//! What became of an item that was enqueued, told by the transaction that did it.

use duroxide_core::{Event, FirstInput, INITIAL_EVENT_ID, INITIAL_EXECUTION_ID, ItemKind, WorkItem};
use duroxide_provider::support::Placed;
use duroxide_provider::{Enqueued, StartOutcome};

use crate::fault::Fault;
use crate::item::EncodedItem;
use crate::values::{from_json, to_column};
use crate::working_set::WorkingSet;

/// The fingerprint of the first input; without one, the first event or the start that still waits.
const FIRST_INPUT: &str = "SELECT i.first_input, \
       CASE WHEN i.first_input IS NULL THEN (SELECT h.event FROM {s}.history h \
         WHERE h.instance_key = i.key AND h.execution_id = $2 AND h.event_id = $3) END, \
       CASE WHEN i.first_input IS NULL THEN (SELECT n.item FROM {s}.inbox n \
         WHERE n.instance_key = i.key AND n.kind = $4 ORDER BY n.visible_at, n.position LIMIT 1) END \
     FROM {s}.instances i WHERE i.key = $1";

impl WorkingSet<'_> {
    /// What the sender of an item is told that was put there.
    pub(crate) async fn outcome(&mut self, item: &EncodedItem, placed: Placed) -> Result<Enqueued, Fault> {
        Ok(match placed {
            Placed::Started => Enqueued::Start(StartOutcome::Started),
            Placed::IdTaken => Enqueued::Start(self.existing(&item.item).await?),
            Placed::Message(outcome) => Enqueued::Message(outcome),
        })
    }

    /// The instance that has the id of a start.
    async fn existing(&mut self, start: &WorkItem) -> Result<StartOutcome, Fault> {
        let key = self.key_of(start.instance()).await?;
        let key = key.ok_or_else(|| Fault::Corrupt("an instance whose id is taken is gone".to_string()))?;
        let row = self.instance(key)?;
        let (orchestration, created) = (row.name.clone(), row.pending.created);
        let same_input = if created {
            // The transaction itself created it; nothing of it is stored yet.
            let fingerprint = row.pending.first_input.map(i64::cast_unsigned);
            FirstInput { fingerprint, ..FirstInput::default() }.is_of(start)
        } else {
            self.is_first_input(key, start).await?
        };
        Ok(StartOutcome::AlreadyExists { orchestration, same_input })
    }

    async fn is_first_input(&self, key: i64, start: &WorkItem) -> Result<bool, Fault> {
        let (execution, event) = (to_column(INITIAL_EXECUTION_ID), to_column(INITIAL_EVENT_ID));
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [&key, &execution, &event, &ItemKind::Start.code()];
        let Some(row) = self.conn()?.first(FIRST_INPUT, &params).await? else { return Ok(false) };
        let text = |column: usize| row.get::<_, Option<String>>(column);
        // What does not decode is not known.
        let started: Option<Event> = text(1).and_then(|json| from_json(&json).ok());
        let waiting: Option<WorkItem> = text(2).and_then(|json| from_json(&json).ok());
        let fingerprint = row.get::<_, Option<i64>>(0).map(i64::cast_unsigned);
        Ok(FirstInput { fingerprint, started: started.as_ref(), start: waiting.as_ref() }.is_of(start))
    }
}

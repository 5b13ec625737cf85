//! What became of an item that was enqueued, told by the transaction that did it.

use duroxide_core::{Event, FirstInput, WorkItem};

use super::encoded::EncodedItem;
use super::values::from_json;
use super::wanted::Stop;
use super::{Fault, Rows};
use crate::outcome::{Enqueued, Placed, StartOutcome};

impl Rows {
    /// What the sender of an item is told that was put there.
    pub(super) fn outcome(&self, item: &EncodedItem, placed: Placed) -> Result<Enqueued, Stop> {
        Ok(match placed {
            Placed::Started => Enqueued::Start(StartOutcome::Started),
            Placed::IdTaken => Enqueued::Start(self.existing(&item.item)?),
            Placed::Message(outcome) => Enqueued::Message(outcome),
        })
    }

    /// The instance that has the id of a start.
    fn existing(&self, start: &WorkItem) -> Result<StartOutcome, Stop> {
        let key = self.key_of(start.instance())?;
        let key = key.ok_or_else(|| Fault::Corrupt("an instance whose id is taken is gone".to_string()))?;
        let row = self.loaded(key)?;
        let same_input = if row.pending.created {
            // The group itself created it; nothing of it is stored yet.
            let fingerprint = row.pending.first_input.map(i64::cast_unsigned);
            FirstInput { fingerprint, ..FirstInput::default() }.is_of(start)
        } else {
            self.is_first_input(key, start)?
        };
        Ok(StartOutcome::AlreadyExists { orchestration: row.name.clone(), same_input })
    }

    fn is_first_input(&self, key: i64, start: &WorkItem) -> Result<bool, Stop> {
        let input = self.first_input(key)?;
        // What does not decode is not known.
        let started: Option<Event> = input.started.as_ref().and_then(|json| from_json(json).ok());
        let waiting: Option<WorkItem> = input.start.as_ref().and_then(|json| from_json(json).ok());
        let fingerprint = input.fingerprint.map(i64::cast_unsigned);
        Ok(FirstInput { fingerprint, started: started.as_ref(), start: waiting.as_ref() }.is_of(start))
    }
}

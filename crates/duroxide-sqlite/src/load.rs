//! Telling the rules what the store has: the rows that a call wants, and whatever else it needs.

use duroxide_core::{INITIAL_EVENT_ID, INITIAL_EXECUTION_ID, ItemKind, WorkItem, limits};
use duroxide_provider::random;
use duroxide_provider::rules::{
    Early, FirstInputRow, FirstMessage, KeptRow, Ms, Need, NewKey, Place, Rows, StoredMessage, UNLOCKED,
    Wanted, WorkRow,
};
use rusqlite::Row;

use super::damaged::{lossy, optional_lossy};
use super::db::Db;
use super::execution_row;
use super::fault::Fault;
use super::instance_row::{Indexed, StoredInstance, key_of};
use super::remembered::Remembered;
use super::values::{from_column, from_json, to_column};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// Where rows come from.
pub(super) struct Loader<'a, 'd> {
    pub(super) db: &'a Db<'d>,
    pub(super) remembered: &'a mut Remembered,
    /// How the instances stand in indexes.
    pub(super) indexed: &'a mut HashMap<i64, Indexed>,
}

/// Why rows could not be loaded.
pub(super) enum NotLoaded {
    /// SQLite failed.
    Fault(Fault),
    /// The row of an instance cannot be read.
    Damaged { key: i64, cause: String },
}

impl From<Fault> for NotLoaded {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<rusqlite::Error> for NotLoaded {
    fn from(error: rusqlite::Error) -> Self {
        Self::Fault(error.into())
    }
}

impl Loader<'_, '_> {
    /// Loads what is wanted and not known yet.
    pub(super) fn load(&mut self, rows: &mut Rows, wanted: &Wanted) -> Result<(), NotLoaded> {
        for key in &wanted.keys {
            if rows.instance(*key).is_none() {
                self.load_by_key(rows, *key)?;
            }
        }
        for id in &wanted.ids {
            self.load_by_id(rows, id)?;
        }
        if wanted.starts > 0 {
            self.give_keys(rows, wanted.starts)?;
        }
        for (key, execution_id) in &wanted.acks {
            if rows.execution(*key, *execution_id).is_none() {
                self.load_execution(rows, *key, *execution_id)?;
            }
        }
        for id in &wanted.work {
            self.load_work(rows, *id)?;
        }
        for (instance, execution_id, activity_id) in &wanted.cancelled {
            self.load_cancelled(rows, instance, *execution_id, *activity_id)?;
        }
        Ok(())
    }

    /// Finds out what a call needs.
    pub(super) fn answer(&mut self, rows: &mut Rows, need: &Need) -> Result<(), NotLoaded> {
        match need {
            Need::Instance(id) | Need::Reserve(id) => self.load_by_id(rows, id)?,
            Need::Key => self.give_keys(rows, 1)?,
            Need::Execution { key, execution_id } => self.load_execution(rows, *key, *execution_id)?,
            Need::FirstMessage(question) => {
                let first = self.first_message(rows, question)?;
                rows.learn_first_message(question.clone(), first);
            }
            Need::Timers { key, timers } => {
                let count = self.count_timers(rows, *key, timers)?;
                rows.learn_timers(*key, count);
            }
            Need::InboxBytes(key) => {
                const SQL: &str = "SELECT sum(octet_length(item)) FROM inbox WHERE instance_key = ?1";
                let bytes: Option<i64> = self.db.first(SQL, [key], |row| row.get(0))?.flatten();
                rows.learn_inbox_bytes(*key, bytes.unwrap_or(0));
            }
            Need::Inbox(key) => rows.learn_inbox(*key, self.inbox(*key)?),
            Need::Kept { key, execution_id } => rows.learn_kept(*key, self.kept(*key, *execution_id)?),
            Need::StoredEvents { key, execution_id, ids } => {
                const SQL: &str =
                    "SELECT 1 FROM history WHERE instance_key = ?1 AND execution_id = ?2 AND event_id = ?3";
                let mut stored = None;
                for id in ids {
                    let place = (key, to_column(*execution_id), to_column(*id));
                    if stored.is_none() && self.db.first(SQL, place, |_| Ok(()))?.is_some() {
                        stored = Some(*id);
                    }
                }
                rows.learn_stored_event(*key, *execution_id, ids.clone(), stored);
            }
            Need::FirstInput(key) => rows.learn_first_input(*key, self.first_input(*key)?),
            Need::KeptItems { key, seen } => rows.learn_kept_items(*key, kept_items(self.db, *key, *seen)?),
            Need::Queued { instance, execution_id, activity_id } => {
                const SQL: &str = "SELECT 1 FROM work_items \
                     WHERE instance_id = ?1 AND execution_id = ?2 AND activity_id = ?3";
                let place = (instance, to_column(*execution_id), to_column(*activity_id));
                let is_queued = self.db.first(SQL, place, |_| Ok(()))?.is_some();
                rows.learn_queued(instance, *execution_id, *activity_id, is_queued);
            }
        }
        Ok(())
    }

    fn learn(&mut self, rows: &mut Rows, stored: StoredInstance) {
        let (key, execution_id) = (stored.row.key, stored.row.current_execution_id);
        self.indexed.insert(key, stored.indexed);
        rows.learn_instance(stored.row);
        // Who serves a fetch from what the group makes ready needs it.
        if let Some(execution) = self.remembered.execution(key, execution_id) {
            rows.learn_execution(key, execution_id, Some(execution.clone()));
        }
    }

    fn load_by_key(&mut self, rows: &mut Rows, key: i64) -> Result<(), NotLoaded> {
        if let Some(stored) = self.remembered.instance(key) {
            let stored = stored.clone();
            self.learn(rows, stored);
            return Ok(());
        }
        let found = StoredInstance::by_key(self.db, key).map_err(|error| damaged(error, key))?;
        if let Some(mut stored) = found {
            stored.count_locked(self.db)?;
            self.learn(rows, stored);
        }
        Ok(())
    }

    fn load_by_id(&mut self, rows: &mut Rows, instance: &str) -> Result<(), NotLoaded> {
        if rows.instance_of(instance).is_some() || rows.reserved().contains(instance) {
            return Ok(());
        }
        if let Some(stored) = self.remembered.instance_of(instance) {
            let stored = stored.clone();
            self.learn(rows, stored);
            return Ok(());
        }
        let found = match StoredInstance::by_id(self.db, instance) {
            Ok(found) => found,
            Err(error) => match key_of(self.db, instance)? {
                Some(key) => return Err(damaged(error, key)),
                None => return Err(error.into()),
            },
        };
        match found {
            Some(mut stored) => {
                stored.count_locked(self.db)?;
                self.learn(rows, stored);
            }
            // One process writes at a time: nobody begins it meanwhile.
            None => rows.reserve(instance, self.early(rows.now(), instance)?),
        }
        Ok(())
    }

    /// What is kept for an instance that has not started. What expires is the oldest, so that positions have no gaps and
    /// their span is the count.
    fn early(&mut self, now: Ms, instance: &str) -> Result<Option<Early>, NotLoaded> {
        const ANY: &str = "SELECT 1 FROM early_messages LIMIT 1";
        const SQL: &str = "SELECT (SELECT position FROM early_messages WHERE instance_id = ?1 \
               ORDER BY position DESC LIMIT 1), \
             (SELECT position FROM early_messages WHERE instance_id = ?1 AND kept_at >= ?2 \
               ORDER BY position LIMIT 1)";
        if self.remembered.nothing_early {
            return Ok(None);
        }
        if self.db.first(ANY, [], |_| Ok(()))?.is_none() {
            self.remembered.nothing_early = true;
            return Ok(None);
        }
        let oldest = now.saturating_sub(to_column(limits::EARLY_MESSAGE_RETENTION_MS));
        let found: Option<(Option<i64>, Option<i64>)> =
            self.db.first(SQL, (instance, oldest), |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(found.and_then(|(last, first)| {
            let last = last?;
            Some(Early { last, count: first.map_or(0, |first| last.saturating_sub(first) + 1) })
        }))
    }

    fn give_keys(&mut self, rows: &mut Rows, count: usize) -> Result<(), NotLoaded> {
        const SQL: &str = "SELECT coalesce(max(key), 0) + 1 FROM instances";
        let next = match self.remembered.next_key {
            Some(next) => next,
            None => self.db.first(SQL, [], |row| row.get(0))?.unwrap_or(1),
        };
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.remembered.next_key = Some(next.saturating_add(count));
        let keys = (next..next.saturating_add(count)).rev();
        rows.learn_keys(keys.map(|key| NewKey { key, incarnation: random::bits_64() }));
        Ok(())
    }

    fn load_execution(&self, rows: &mut Rows, key: i64, execution_id: u64) -> Result<(), NotLoaded> {
        let row = match self.remembered.execution(key, execution_id) {
            Some(row) => Some(row.clone()),
            None => execution_row::load(self.db, key, execution_id).map_err(|error| damaged(error, key))?,
        };
        rows.learn_execution(key, execution_id, row);
        Ok(())
    }

    fn load_work(&self, rows: &mut Rows, id: i64) -> Result<(), NotLoaded> {
        const SQL: &str = concat!("SELECT ", work_columns!(), " FROM work_items w WHERE w.id = ?1");
        if rows.knows_work(id) {
            return Ok(());
        }
        let row = match self.remembered.work(id) {
            Some(row) => Some(row.clone()),
            None => self.db.first(SQL, [id], work_row)?,
        };
        row.into_iter().for_each(|row| rows.learn_work(row));
        Ok(())
    }

    fn load_cancelled(
        &self,
        rows: &mut Rows,
        instance: &str,
        execution_id: u64,
        activity_id: u64,
    ) -> Result<(), NotLoaded> {
        const SQL: &str = concat!(
            "SELECT ",
            work_columns!(),
            " FROM work_items w WHERE w.instance_id = ?1 AND w.execution_id = ?2 AND w.activity_id = ?3"
        );
        let place = (instance, to_column(execution_id), to_column(activity_id));
        self.db.first(SQL, place, work_row)?.into_iter().for_each(|row| rows.learn_work(row));
        Ok(())
    }

    /// When the first message that stays is visible.
    fn first_message(&self, rows: &Rows, question: &FirstMessage) -> Result<Option<Ms>, NotLoaded> {
        const AFTER: &str = "SELECT visible_at, position, kind, execution_id, event_id FROM inbox \
             WHERE instance_key = ?1 AND (visible_at, position) > (?2, ?3) ORDER BY visible_at, position";
        const SINCE: &str = "SELECT visible_at, position, kind, execution_id, event_id FROM inbox \
             WHERE instance_key = ?1 AND (visible_at, position) <= (?2, ?3) AND position >= ?4 \
             ORDER BY visible_at, position";
        let key = question.key;
        let mut first: Option<Ms> = None;
        let mut visit = |row: &Row<'_>| {
            let message = stored_message(row)?;
            if !question.counts(&message) {
                return Ok(ControlFlow::Continue(()));
            }
            let visible_at = question.visible_at(&message);
            first = Some(first.map_or(visible_at, |first| first.min(visible_at)));
            // Once messages are pulled back, one that stands later may be visible sooner.
            let may_be_pulled = question.pulled_back.is_some_and(|(_, until)| message.visible_at <= until);
            Ok(if may_be_pulled { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        };
        let lock = match question.without.as_slice() {
            [lock] => *lock,
            [] | [_, _, ..] => {
                self.db.each(AFTER, (key, Ms::MIN, i64::MIN), &mut visit)?;
                return Ok(first);
            }
        };
        self.db.each(AFTER, (key, lock.visible_at, lock.position), &mut visit)?;
        // What came while the turn was under way mostly stands behind it.
        if rows.instance(key).is_none_or(|row| row.next_position != lock.watermark) {
            self.db.each(SINCE, (key, lock.visible_at, lock.position, lock.watermark), &mut visit)?;
        }
        Ok(first)
    }

    /// How many of these timers are stored, without those that the instance's lock covers.
    fn count_timers(&self, rows: &Rows, key: i64, timers: &[(u64, Option<u64>)]) -> Result<i64, NotLoaded> {
        const ONE: &str = "SELECT visible_at, position FROM inbox INDEXED BY inbox_timers \
             WHERE kind = 5 AND instance_key = ?1 AND execution_id = ?2 AND (?3 IS NULL OR event_id = ?3)";
        let lock = rows.instance(key).and_then(|row| row.lock);
        let mut found = std::collections::BTreeSet::new();
        for (execution_id, schedule) in timers {
            let params = (key, to_column(*execution_id), schedule.map(to_column));
            let places: Vec<(Ms, i64)> = self.db.all(ONE, params, |row| Ok((row.get(0)?, row.get(1)?)))?;
            let stays = |place: &(Ms, i64)| !lock.is_some_and(|lock| lock.covers(place.0, place.1));
            found.extend(places.into_iter().filter(stays));
        }
        Ok(i64::try_from(found.len()).unwrap_or(i64::MAX))
    }

    fn inbox(&self, key: i64) -> Result<Vec<StoredMessage>, NotLoaded> {
        const SQL: &str = "SELECT visible_at, position, kind, execution_id, event_id FROM inbox \
             WHERE instance_key = ?1 ORDER BY visible_at, position";
        Ok(self.db.all(SQL, [key], stored_message)?)
    }

    fn kept(&self, key: i64, execution_id: u64) -> Result<KeptRow, NotLoaded> {
        const SQL: &str = "SELECT (SELECT failure FROM executions WHERE instance_key = ?1 AND execution_id = ?2), \
             (SELECT coalesce(max(position) + 1, 0) FROM kept_messages WHERE instance_key = ?1)";
        let found = self.db.first(SQL, (key, to_column(execution_id)), |row| {
            Ok(KeptRow { failure: optional_lossy(row, 0)?, count: row.get(1)? })
        })?;
        Ok(found.unwrap_or_default())
    }

    fn first_input(&self, key: i64) -> Result<FirstInputRow, NotLoaded> {
        const SQL: &str = "SELECT first_input FROM instances WHERE key = ?1";
        const EVENT: &str =
            "SELECT event FROM history WHERE instance_key = ?1 AND execution_id = ?2 AND event_id = ?3";
        const START: &str = "SELECT item FROM inbox WHERE instance_key = ?1 AND kind = ?2 \
             ORDER BY visible_at, position LIMIT 1";
        let fingerprint: Option<i64> = self.db.first(SQL, [key], |row| row.get(0))?.flatten();
        if fingerprint.is_some() {
            return Ok(FirstInputRow { fingerprint, ..FirstInputRow::default() });
        }
        // Rows of builds that wrote no fingerprint.
        let event = (key, to_column(INITIAL_EXECUTION_ID), to_column(INITIAL_EVENT_ID));
        let started = self.db.first(EVENT, event, |row| optional_lossy(row, 0))?.flatten();
        let start =
            self.db.first(START, (key, ItemKind::Start.code()), |row| optional_lossy(row, 0))?.flatten();
        Ok(FirstInputRow { fingerprint, started, start })
    }
}

/// The columns of a [`WorkRow`].
macro_rules! work_columns {
    () => {
        "w.id, w.lock_nonce, w.ready_at, w.tag, w.session_id, w.name, w.instance_id, w.execution_id, w.activity_id, \
         w.visible_at, w.suspect_before, w.attempts"
    };
}
use work_columns;

fn work_row(row: &Row<'_>) -> rusqlite::Result<WorkRow> {
    let nonce = Some(row.get(1)?).filter(|nonce| *nonce != UNLOCKED);
    Ok(WorkRow {
        id: row.get(0)?,
        nonce,
        stored_nonce: nonce,
        ready_at: row.get(2)?,
        place: Place { tag: lossy(row, 3)?, session_id: optional_lossy(row, 4)?, name: lossy(row, 5)? },
        instance: lossy(row, 6)?,
        execution_id: from_column(row.get(7)?),
        activity_id: from_column(row.get(8)?),
        visible_at: row.get(9)?,
        suspect_before: row.get(10)?,
        attempts: row.get(11)?,
    })
}

fn stored_message(row: &Row<'_>) -> rusqlite::Result<StoredMessage> {
    Ok(StoredMessage {
        visible_at: row.get(0)?,
        position: row.get(1)?,
        kind: row.get(2)?,
        execution_id: row.get(3)?,
        event_id: row.get(4)?,
    })
}

fn damaged(error: rusqlite::Error, key: i64) -> NotLoaded {
    match super::damaged::cause_of(&error) {
        Some(cause) => NotLoaded::Damaged { key, cause },
        None => error.into(),
    }
}

/// The items that are kept for an instance, in their order, without the first ones.
pub(super) fn kept_items(db: &Db, key: i64, seen: usize) -> Result<Vec<WorkItem>, Fault> {
    const SQL: &str = "SELECT k.item, i.instance_id FROM kept_messages k JOIN instances i ON i.key = k.instance_key \
         WHERE k.instance_key = ?1 ORDER BY k.position LIMIT -1 OFFSET ?2";
    let seen = i64::try_from(seen).unwrap_or(i64::MAX);
    let stored: Vec<(Result<WorkItem, String>, String)> =
        db.all(SQL, (key, seen), |row| Ok((from_json(row.get_ref(0)?), lossy(row, 1)?)))?;
    let named = |(item, instance): (Result<WorkItem, String>, String)| {
        item.map_err(|cause| Fault::Corrupt(format!("a message kept for instance '{instance}': {cause}")))
    };
    stored.into_iter().map(named).collect()
}

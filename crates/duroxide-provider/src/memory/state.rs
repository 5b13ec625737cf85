//! All rows of the store, and what every operation on them needs.

use std::collections::{BTreeMap, BTreeSet};

use duroxide_core::{Event, NodeRecord, WorkItem, columns_of, test_fault};

use super::ready::ReadyIndex;
use super::rows::{
    EarlyRow, ExecutionRow, InstanceRow, Ms, SessionRow, SetAside, TurnKey, WorkKey, WorkRoute, WorkRow,
};
use crate::{ProviderError, ProviderErrorKind};

/// How many messages ended otherwise than by being admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// For an unknown or finished instance.
    pub dropped: u64,
    /// Undecodable.
    pub set_aside: u64,
    /// Kept for an instance that did not start in time.
    pub expired: u64,
}

/// Whom a call must wake once it is done.
#[derive(Debug, Default)]
pub(super) struct Wakes {
    pub(super) turns: bool,
    pub(super) work: bool,
    pub(super) instances: BTreeSet<String>,
}

/// All rows. Each method is one transaction: it checks first, then changes.
#[derive(Debug)]
pub(super) struct State {
    pub(super) instances: BTreeMap<String, InstanceRow>,
    /// Instance ids in the order of their creation.
    pub(super) created: BTreeMap<u64, String>,
    /// The instances by the time of their creation and then its order, as (created_at, seq).
    pub(super) by_time: BTreeSet<(Ms, u64)>,
    /// The children of each instance, in the order of their creation.
    pub(super) children: BTreeMap<String, BTreeSet<u64>>,
    pub(super) ready_turns: ReadyIndex<TurnKey>,
    pub(super) work: BTreeMap<u64, WorkRow>,
    pub(super) work_by_key: BTreeMap<WorkKey, u64>,
    pub(super) ready_work: ReadyIndex<WorkRoute>,
    /// Queued work items of each session.
    pub(super) queued_by_session: BTreeMap<String, usize>,
    pub(super) sessions: BTreeMap<String, SessionRow>,
    /// Locked work items of each session, with the ends of their locks.
    pub(super) locked_by_session: BTreeMap<String, BTreeMap<u64, Ms>>,
    /// Messages kept for instances that have not started, by arrival.
    pub(super) early: BTreeMap<String, BTreeMap<u64, EarlyRow>>,
    /// The same by age, as (kept_at, position).
    pub(super) early_by_age: BTreeMap<(Ms, u64), String>,
    pub(super) set_aside: Vec<SetAside>,
    /// The nodes by id.
    pub(super) nodes: BTreeMap<String, NodeRecord>,
    pub(super) counters: Counters,
    pub(super) wakes: Wakes,
    /// The time of the transaction under way, or of the last one.
    pub(super) now: Ms,
    last_number: u64,
    random: u64,
}

impl State {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            instances: BTreeMap::new(),
            created: BTreeMap::new(),
            by_time: BTreeSet::new(),
            children: BTreeMap::new(),
            ready_turns: ReadyIndex::new(),
            work: BTreeMap::new(),
            work_by_key: BTreeMap::new(),
            ready_work: ReadyIndex::new(),
            queued_by_session: BTreeMap::new(),
            sessions: BTreeMap::new(),
            locked_by_session: BTreeMap::new(),
            early: BTreeMap::new(),
            early_by_age: BTreeMap::new(),
            set_aside: Vec::new(),
            nodes: BTreeMap::new(),
            counters: Counters::default(),
            wakes: Wakes::default(),
            now: Ms::MIN,
            last_number: 0,
            random: seed,
        }
    }

    /// A number that grows: creation order of instances and work items, arrival order of messages.
    pub(super) fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// The next number of the seeded sequence (SplitMix64).
    pub(super) fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A token that leads to the row `seq` and that no other fetch has.
    pub(super) fn new_token(&mut self, seq: u64) -> String {
        let (number, random) = (self.next_number(), self.next_random());
        format!("{seq}.{number}.{random:016x}")
    }

    /// Puts the instance where it now belongs in the index, and wakes who waits for it.
    pub(super) fn reindex_turn(&mut self, instance: &str) {
        let Some(row) = self.instances.get_mut(instance) else { return };
        let entry = row.entry();
        if entry == row.indexed {
            return;
        }
        if let Some(old) = &row.indexed {
            self.ready_turns.remove(&old.key, old.suspect, old.ready_at, row.seq);
        }
        if let Some(new) = &entry {
            self.ready_turns.insert(&new.key, new.suspect, new.ready_at, row.seq);
            self.wakes.turns |= row.lock.is_none();
        }
        row.indexed = entry;
    }

    /// Puts the work item where it now belongs in the index, and wakes who waits for it.
    pub(super) fn reindex_work(&mut self, seq: u64) {
        let Some(row) = self.work.get_mut(&seq) else { return };
        let entry = row.entry();
        if let Some(old) = row.indexed {
            self.ready_work.remove(&row.route, old.suspect, old.ready_at, seq);
        }
        self.ready_work.insert(&row.route, entry.suspect, entry.ready_at, seq);
        self.wakes.work |= row.lock.is_none();
        row.indexed = Some(entry);
        let Some(session) = &row.route.session_id else { return };
        match &row.lock {
            Some(lock) => {
                self.locked_by_session.entry(session.clone()).or_default().insert(seq, lock.until);
            }
            None => unlock_in_session(&mut self.locked_by_session, session, seq),
        }
    }

    /// Deletes a work item, locked or not.
    pub(super) fn remove_work(&mut self, seq: u64) -> Option<WorkRow> {
        let row = self.work.remove(&seq)?;
        if let Some(old) = row.indexed {
            self.ready_work.remove(&row.route, old.suspect, old.ready_at, seq);
        }
        self.work_by_key.remove(&row.key);
        if let Some(session) = &row.route.session_id
            && let Some(queued) = self.queued_by_session.get_mut(session)
        {
            *queued -= 1;
            if *queued == 0 {
                self.queued_by_session.remove(session);
            }
        }
        if let Some(session) = &row.route.session_id {
            unlock_in_session(&mut self.locked_by_session, session, seq);
            // Another of the session may begin.
            self.wakes.work = true;
        }
        Some(row)
    }

    /// The instance whose next turn this token may commit at `now`.
    pub(super) fn holder_of_turn(
        &self,
        now: Ms,
        operation: &str,
        token: &str,
    ) -> Result<String, ProviderError> {
        let seq = seq_of_token(token).ok_or_else(|| ProviderError::lock_lost(operation))?;
        self.created
            .get(&seq)
            .filter(|instance| {
                test_fault!(OnlyTheHolderCommits => return true);
                let lock = self.instances.get(*instance).and_then(|row| row.lock.as_ref());
                lock.is_some_and(|lock| lock.token == token && now < lock.until)
            })
            .cloned()
            .ok_or_else(|| ProviderError::lock_lost(operation))
    }

    /// The work item that this token may complete at `now`.
    pub(super) fn holder_of_work(&self, now: Ms, operation: &str, token: &str) -> Result<u64, ProviderError> {
        seq_of_token(token)
            .filter(|seq| {
                let lock = self.work.get(seq).and_then(|row| row.lock.as_ref());
                lock.is_some_and(|lock| lock.token == token && now < lock.until)
            })
            .ok_or_else(|| ProviderError::lock_lost(operation))
    }
}

fn unlock_in_session(locked: &mut BTreeMap<String, BTreeMap<u64, Ms>>, session: &str, seq: u64) {
    if let Some(items) = locked.get_mut(session) {
        items.remove(&seq);
        if items.is_empty() {
            locked.remove(session);
        }
    }
}

fn seq_of_token(token: &str) -> Option<u64> {
    token.split('.').next()?.parse().ok()
}

/// A call that is wrong in itself.
pub(super) fn invalid(operation: &str, message: impl Into<String>) -> ProviderError {
    ProviderError::of_kind(ProviderErrorKind::Invalid, operation, message)
}

/// Checks that an item names an instance.
pub(super) fn check_instance(operation: &str, item: &WorkItem) -> Result<(), ProviderError> {
    if columns_of(item).instance.is_empty() {
        return Err(invalid(operation, "the instance id is empty"));
    }
    Ok(())
}

/// The events as they will be stored: an id of 0 becomes the next id, an id that is stored is refused.
pub(super) fn numbered(
    operation: &str,
    execution: Option<&ExecutionRow>,
    mut events: Vec<Event>,
) -> Result<Vec<Event>, ProviderError> {
    let mut last = execution.map_or(0, ExecutionRow::last_event_id);
    let mut new_ids = BTreeSet::new();
    for event in &mut events {
        if event.event_id == 0 {
            event.event_id = last + 1;
        }
        let stored = execution.is_some_and(|execution| execution.events.contains_key(&event.event_id));
        if stored || !new_ids.insert(event.event_id) {
            return Err(invalid(operation, format!("event {} is already stored", event.event_id)));
        }
        last = last.max(event.event_id);
    }
    Ok(events)
}

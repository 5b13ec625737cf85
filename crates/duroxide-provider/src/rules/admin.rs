//! The calls of operators and tools: appending to a history, letting failed instances go on, putting back what is missing.

use duroxide_core::{ItemKind, Route, columns_of, pack_version, route_after_turn, state_changes};
use semver::Version;

use super::changes::KeptItem;
use super::encoded::{EncodedEvents, EncodedItem, check_message, check_work};
use super::messages::{FullInbox, Visible};
use super::turn_commit::dropped_timers;
use super::values::{NOT_PINNED, count, from_json, to_column};
use super::wanted::{Stop, Wanted};
use super::{Fault, Rows};
use crate::health::RepairInstance;
use crate::redrive::RedriveInstance;
use crate::status_code::Status;

/// A [`RedriveInstance`] in its stored form.
#[derive(Debug)]
pub struct EncodedRedrive {
    instance: String,
    failed_execution_id: u64,
    last_event_id: u64,
    events: EncodedEvents,
    begins_anew: bool,
    /// The handler that it needs from now on, if that changes.
    route: Option<Route>,
    pinned: Option<Version>,
    activities: Vec<EncodedItem>,
    messages: Vec<EncodedItem>,
    kept_seen: usize,
}

impl EncodedRedrive {
    /// Checks everything that can be wrong by itself, and encodes.
    pub fn new(one: RedriveInstance) -> Result<Self, Fault> {
        one.activities.iter().try_for_each(check_work)?;
        one.messages.iter().try_for_each(check_message)?;
        let began = state_changes(&one.events).began;
        let route = route_after_turn(&one.instance, began, one.events.is_empty(), &one.messages);
        Ok(Self {
            route,
            instance: one.instance,
            failed_execution_id: one.failed_execution_id,
            last_event_id: one.last_event_id,
            begins_anew: one.events.is_empty(),
            events: EncodedEvents::new(one.events)?,
            pinned: one.pinned,
            activities: EncodedItem::all(one.activities)?,
            messages: EncodedItem::all(one.messages)?,
            kept_seen: one.kept_seen,
        })
    }

    pub(super) fn wants(&self, wanted: &mut Wanted) {
        wanted.ids.insert(self.instance.clone());
        self.messages.iter().for_each(|item| wanted.sure_message(item));
    }
}

/// A [`RepairInstance`] in its stored form.
#[derive(Debug)]
pub struct EncodedRepair {
    instance: String,
    execution_id: u64,
    last_event_id: u64,
    activities: Vec<EncodedItem>,
    messages: Vec<EncodedItem>,
    note: EncodedItem,
}

impl EncodedRepair {
    /// Checks everything that can be wrong by itself, and encodes.
    pub fn new(request: RepairInstance) -> Result<Self, Fault> {
        request.activities.iter().try_for_each(check_work)?;
        request.messages.iter().chain([&request.note]).try_for_each(check_message)?;
        Ok(Self {
            instance: request.instance,
            execution_id: request.execution_id,
            last_event_id: request.last_event_id,
            activities: EncodedItem::all(request.activities)?,
            messages: EncodedItem::all(request.messages)?,
            note: EncodedItem::new(request.note)?,
        })
    }

    pub(super) fn wants(&self, wanted: &mut Wanted) {
        wanted.ids.insert(self.instance.clone());
        self.messages.iter().chain([&self.note]).for_each(|item| wanted.sure_message(item));
    }
}

impl Wanted {
    /// The receiver of a message, which must not begin to exist meanwhile.
    fn sure_message(&mut self, item: &EncodedItem) {
        self.message(item);
        self.reserved.insert(item.item.instance().to_string());
    }
}

impl Rows {
    fn key_of_existing(&self, instance: &str) -> Result<i64, Stop> {
        let key = self.key_of(instance)?;
        Ok(key.ok_or_else(|| Fault::NotFound(format!("instance '{instance}'")))?)
    }

    /// Appends events without a lock.
    pub(super) fn append_history(
        &mut self,
        instance: &str,
        execution_id: u64,
        delta: &EncodedEvents,
    ) -> Result<(), Stop> {
        let key = self.key_of_existing(instance)?;
        let mut execution = self.execution_to_change(key, execution_id)?;
        let numbered = self.new_events(key, execution_id, &execution, delta)?;
        self.need_timers(key, dropped_timers(execution_id, delta))?;
        let began = state_changes(delta.events()).began;
        let row = self.instance_mut(key)?;
        if execution_id >= row.current_execution_id {
            // What an earlier call of the group set stays.
            let route = route_after_turn(instance, began, false, []);
            row.pending.route = route.or_else(|| row.pending.route.take());
        }
        self.append(key, &mut execution, execution_id, &numbered)?;
        self.put_execution(key, execution_id, execution);
        let row = self.instance_mut(key)?;
        row.pending.queue = true;
        row.pending.first_stored = None;
        if row.lock.is_none() {
            self.recompute_ready_at(key)?;
        }
        self.call.effects.changed.push(instance.to_string());
        Ok(())
    }

    /// Lets these instances go on, all or none.
    pub(super) fn redrive(&mut self, all: &[EncodedRedrive]) -> Result<(), Stop> {
        let mut keys = Vec::with_capacity(all.len());
        // All that must be known is asked for before anything is changed: what is applied again is then cheap.
        for one in all {
            let key = self.key_of_existing(&one.instance)?;
            self.check_failed(key, one)?;
            self.execution_to_change(key, one.failed_execution_id.saturating_add(1))?;
            self.kept_items(key, one.kept_seen)?;
            keys.push(key);
        }
        let mut kept_since = Vec::with_capacity(all.len());
        for (key, one) in keys.iter().zip(all) {
            let mut since = EncodedItem::all(self.kept_items(*key, one.kept_seen)?.to_vec())?;
            since.extend(self.kept_by_group(*key, one)?);
            kept_since.push(since);
            self.begin_again(*key, one)?;
        }
        // Only now all of them run, so that what one sends to another finds it.
        for ((key, one), kept_since) in keys.iter().zip(all).zip(&kept_since) {
            self.fill(*key, one, kept_since)?;
        }
        Ok(())
    }

    /// What earlier calls of the group kept for an instance since the caller looked.
    fn kept_by_group(&self, key: i64, one: &EncodedRedrive) -> Result<Vec<EncodedItem>, Fault> {
        let kept = self.done.changes.kept.iter().filter(|kept| kept.key == key);
        let since = kept.filter(|kept| usize::try_from(kept.order).is_ok_and(|order| order >= one.kept_seen));
        let encoded = since.map(|kept| match &kept.item {
            KeptItem::New(json) => {
                let item = from_json(json).map_err(Fault::Corrupt)?;
                Ok(EncodedItem { item, json: json.clone() })
            }
            // The group itself ended it, which the caller cannot have seen.
            KeptItem::Stored { .. } => Err(another_state(&one.instance)),
        });
        encoded.collect()
    }

    fn check_failed(&self, key: i64, one: &EncodedRedrive) -> Result<(), Stop> {
        let EncodedRedrive { instance, failed_execution_id, last_event_id, .. } = one;
        let last = self.execution_to_change(key, *failed_execution_id)?.last_event_id;
        let row = self.loaded(key)?;
        if row.status != Status::Failed
            || row.current_execution_id != *failed_execution_id
            || last != *last_event_id
        {
            return Err(another_state(instance).into());
        }
        Ok(())
    }

    /// Makes the next execution current.
    fn begin_again(&mut self, key: i64, one: &EncodedRedrive) -> Result<(), Stop> {
        let now = self.now;
        let next = one.failed_execution_id.saturating_add(1);
        let mut execution = self.execution_to_change(key, next)?;
        execution.pinned = one.pinned.as_ref().map(Into::into);
        self.insert_events(key, &mut execution, next, &one.events);
        self.put_execution(key, next, execution);
        let row = self.instance_mut(key)?;
        row.status = Status::Running;
        row.updated_at = now;
        row.current_execution_id = next;
        row.pinned_key = one.pinned.as_ref().map_or(NOT_PINNED, pack_version);
        row.not_before = 0;
        row.suspect = false;
        row.suspect_before = false;
        row.pending.queue = true;
        row.pending.route = one.route.clone().or_else(|| row.pending.route.take());
        if one.begins_anew {
            let asked = one.messages.first().and_then(|start| columns_of(&start.item).version);
            row.version = asked.unwrap_or_default().to_string();
            row.pending.description = true;
        }
        self.call.changes.redriven.push(key);
        self.call.effects.changed.push(one.instance.clone());
        Ok(())
    }

    /// Puts its activities and messages into the queues, then what was kept since the caller looked.
    fn fill(&mut self, key: i64, one: &EncodedRedrive, kept_since: &[EncodedItem]) -> Result<(), Stop> {
        for item in &one.activities {
            self.put_work(item);
        }
        for item in one.messages.iter().chain(kept_since) {
            let columns = columns_of(&item.item);
            if columns.instance == one.instance && columns.kind != ItemKind::Start {
                self.put_message(key, &columns, &item.json, Visible::without_delay(&columns))?;
            } else {
                self.deliver(item, None, FullInbox::Admit)?;
            }
        }
        Ok(())
    }

    /// Puts back what is not there; how much that was.
    pub(super) fn repair(&mut self, request: &EncodedRepair) -> Result<u64, Stop> {
        let key = self.key_of_existing(&request.instance)?;
        self.check_running(key, request)?;
        self.recount(key)?;
        let mut put_back = 0;
        for item in &request.activities {
            let columns = columns_of(&item.item);
            let (execution_id, id) = (columns.execution_id.unwrap_or(0), columns.event_id.unwrap_or(0));
            if !self.is_queued(columns.instance, execution_id, id)? {
                self.put_work(item);
                put_back += 1;
            }
        }
        for item in &request.messages {
            if !self.is_delivered(key, item)? {
                self.deliver(item, None, FullInbox::Admit)?;
                put_back += 1;
            }
        }
        if put_back > 0 {
            self.deliver(&request.note, None, FullInbox::Admit)?;
        }
        Ok(put_back)
    }

    fn check_running(&self, key: i64, request: &EncodedRepair) -> Result<(), Stop> {
        let EncodedRepair { instance, execution_id, last_event_id, .. } = request;
        let last = self.execution_to_change(key, *execution_id)?.last_event_id;
        let row = self.loaded(key)?;
        let locked = row.lock.is_some() && row.ready_at.is_some_and(|expires| self.now < expires);
        let same = row.current_execution_id == *execution_id && last == *last_event_id;
        if row.is_ended() || locked || !same {
            return Err(another_state(instance).into());
        }
        Ok(())
    }

    /// Rows that are gone may still be counted.
    fn recount(&mut self, key: i64) -> Result<(), Stop> {
        let left = count(self.left_in_store(key)?.len());
        let row = self.instance_mut(key)?;
        row.inbox_count = left.saturating_add(row.pending.added);
        let expired = row.lock.take();
        row.pending.first_stored = None;
        row.note_cancel();
        // The attempt that ended by expiry counts, as it would at the next fetch.
        self.call.changes.ended_attempts.extend(expired.map(|lock| (key, lock)));
        self.recompute_ready_at(key)
    }

    /// Whether the message is in the inbox, or the instance that it starts exists.
    fn is_delivered(&self, key: i64, item: &EncodedItem) -> Result<bool, Stop> {
        let columns = columns_of(&item.item);
        if columns.kind == ItemKind::Start {
            return Ok(self.key_of(columns.instance)?.is_some());
        }
        let (execution_id, event_id) = (columns.execution_id.map(to_column), columns.event_id.map(to_column));
        let is_it = |kind: i64, execution: Option<i64>, event: Option<i64>| {
            kind == columns.kind.code() && execution == execution_id && event == event_id
        };
        let stored = self.left_in_store(key)?;
        Ok(stored.iter().any(|message| is_it(message.kind, message.execution_id, message.event_id))
            || self.added_messages(key).any(|row| is_it(row.kind.code(), row.execution_id, row.event_id)))
    }
}

fn another_state(instance: &str) -> Fault {
    Fault::Invalid(format!("instance '{instance}' is not as it was looked at"))
}

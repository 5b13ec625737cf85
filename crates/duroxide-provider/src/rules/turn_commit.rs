//! The commit of a turn: everything it did, or nothing.

use std::borrow::Cow;

use duroxide_core::protection::Protection;
use duroxide_core::redrive::{KeptMessages, kept_after_failure};
use duroxide_core::{
    Event, ExecutionMetadata, ItemKind, Route, ScheduledActivityIdentifier, WorkItem, cancel_reaches,
    columns_of, pack_version, route_after_turn, state_changes,
};

use super::changes::{HistoryRow, is_timer};
use super::encoded::{EncodedEvents, EncodedItem, check_message, check_work};
use super::execution_row::ExecutionRow;
use super::instance_row::InstanceRow;
use super::messages::{FullInbox, Start, Visible};
use super::token::Token;
use super::values::{Ms, NOT_PINNED, count, to_json};
use super::wanted::{Need, Stop, StoredMessage, Wanted};
use super::{Fault, Rows};
use crate::status_code::Status;

/// What a turn commits, in its stored form.
#[derive(Debug)]
pub struct TurnCommit {
    execution_id: u64,
    history_delta: EncodedEvents,
    worker_items: Vec<EncodedItem>,
    orchestrator_items: Vec<EncodedItem>,
    metadata: ExecutionMetadata,
    status: Option<Status>,
    kept: Option<KeptMessages>,
    /// The handler that the execution needs, if it begins.
    began: Option<Route>,
    cancelled_activities: Vec<ScheduledActivityIdentifier>,
}

impl TurnCommit {
    /// Checks everything that can be wrong by itself, and encodes.
    pub fn new(
        execution_id: u64,
        history_delta: Vec<Event>,
        worker_items: Vec<WorkItem>,
        orchestrator_items: Vec<WorkItem>,
        metadata: ExecutionMetadata,
        cancelled_activities: Vec<ScheduledActivityIdentifier>,
    ) -> Result<Self, Fault> {
        worker_items.iter().try_for_each(check_work)?;
        orchestrator_items.iter().try_for_each(check_message)?;
        let status = match &metadata.status {
            Some(word) => {
                let status = Status::from_word(word);
                Some(status.ok_or_else(|| Fault::Invalid(format!("unknown status '{word}'")))?)
            }
            None => None,
        };
        Ok(Self {
            execution_id,
            kept: kept_after_failure(&history_delta),
            began: route_after_turn("", state_changes(&history_delta).began, false, []),
            history_delta: EncodedEvents::new(history_delta)?,
            worker_items: EncodedItem::all(worker_items)?,
            orchestrator_items: EncodedItem::all(orchestrator_items)?,
            metadata,
            status,
            cancelled_activities,
        })
    }

    /// How many events, work items and messages it writes.
    pub fn rows(&self) -> usize {
        self.history_delta.events().len() + self.worker_items.len() + self.orchestrator_items.len()
    }

    /// What it weighs in a group.
    pub fn bytes(&self) -> usize {
        let items = self.worker_items.iter().chain(&self.orchestrator_items);
        self.history_delta.bytes() + items.map(|item| item.json.len()).sum::<usize>()
    }

    /// The handler that the instance needs after the turn, if that changes.
    fn route(&self, instance: &str, current_execution_id: u64) -> Option<Route> {
        if self.execution_id < current_execution_id {
            return None;
        }
        let messages = self.orchestrator_items.iter().map(|item| &item.item);
        route_after_turn(instance, None, self.continues(), messages).or_else(|| self.began.clone())
    }

    fn continues(&self) -> bool {
        self.status == Some(Status::ContinuedAsNew)
    }

    fn dropped_timers(&self) -> Vec<(u64, Option<u64>)> {
        if self.continues() {
            return vec![(self.execution_id, None)];
        }
        dropped_timers(self.execution_id, &self.history_delta)
    }

    /// What must be known to commit it.
    pub(super) fn wants(&self, token: Token, wanted: &mut Wanted) {
        wanted.keys.insert(token.key);
        wanted.acks.push((token.key, self.execution_id));
        self.orchestrator_items.iter().for_each(|item| wanted.message(item));
        let timers = self.dropped_timers();
        wanted
            .timers
            .extend(timers.into_iter().map(|(execution, schedule)| (token.key, execution, schedule)));
        for cancelled in &self.cancelled_activities {
            let id = (cancelled.instance.clone(), cancelled.execution_id, cancelled.activity_id);
            wanted.cancelled.push(id);
        }
    }
}

impl Wanted {
    /// The receiver of a message.
    pub(super) fn message(&mut self, item: &EncodedItem) {
        let id = item.item.instance().to_string();
        if item.kind() == ItemKind::Start {
            self.reserved.insert(id.clone());
            self.starts += 1;
        }
        self.ids.insert(id);
    }
}

/// The timers that events remove: execution and schedule; all of the execution without a schedule.
pub(super) fn dropped_timers(execution_id: u64, events: &EncodedEvents) -> Vec<(u64, Option<u64>)> {
    let changes = state_changes(events.events());
    if changes.drops_all_timers {
        return vec![(execution_id, None)];
    }
    changes.cancelled_timers.iter().map(|id| (execution_id, Some(*id))).collect()
}

/// The instance whose turn is committed.
struct Own {
    key: i64,
    instance: String,
    /// Where messages that are put back go: before all that waited when the turn was committed.
    front: Option<Ms>,
}

impl Rows {
    /// Refuses a call that is wrong in itself, unless its lock is lost, which is what the caller must know
    /// first.
    pub(super) fn check_held(&self, token: Token) -> Result<(), Fault> {
        let holds = |row: &InstanceRow| row.is_held_by(token, self.now);
        let held = self
            .instance(token.key)
            .is_some_and(|row| holds(row) || Protection::OnlyTheHolderCommits.is_off());
        if held { Ok(()) } else { Err(Fault::LockLost) }
    }

    /// Commits a turn.
    pub(super) fn ack_turn(&mut self, token: Token, commit: &TurnCommit) -> Result<(), Stop> {
        self.check_held(token)?;
        let (key, execution_id) = (token.key, commit.execution_id);
        let mut execution = self.execution_to_change(key, execution_id)?;
        let numbered = self.new_events(key, execution_id, &execution, &commit.history_delta)?;
        self.need_timers(key, commit.dropped_timers())?;
        if let Some(kept) = &commit.kept {
            self.keep_inbox(key, kept.clone())?;
        }
        self.remove_locked_messages(key)?;
        let row = self.instance_mut(key)?;
        if let Some(route) = commit.route(&row.instance, row.current_execution_id) {
            row.pending.route = Some(route);
        }
        self.append(key, &mut execution, execution_id, &numbered)?;
        self.write_metadata(key, &mut execution, commit)?;
        self.put_execution(key, execution_id, execution);
        self.rename(key, &commit.metadata)?;
        for item in &commit.worker_items {
            self.put_work(item);
        }
        for cancelled in &commit.cancelled_activities {
            self.cancel_work(cancelled);
        }
        let instance = self.loaded(key)?.instance.clone();
        let mut own = Own { key, instance, front: None };
        for item in &commit.orchestrator_items {
            self.send(&mut own, item)?;
        }
        self.finish_turn(own, !numbered.is_history_only())
    }

    fn finish_turn(&mut self, own: Own, state_changed: bool) -> Result<(), Stop> {
        let now = self.now;
        let row = self.instance_mut(own.key)?;
        row.updated_at = now;
        let ended = row.is_ended();
        if std::mem::take(&mut row.bounced) {
            self.call.changes.bounces.insert(own.key, None);
        }
        if ended {
            self.drop_inbox(own.key)?;
        }
        self.recompute_ready_at(own.key)?;
        if state_changed || ended {
            self.call.effects.changed.push(own.instance);
        }
        Ok(())
    }

    /// The events with their numbers. An event id that is stored already is refused before anything is changed.
    pub(super) fn new_events<'e>(
        &self,
        key: i64,
        execution_id: u64,
        execution: &ExecutionRow,
        events: &'e EncodedEvents,
    ) -> Result<Cow<'e, EncodedEvents>, Stop> {
        let numbered = events.numbered(execution.last_event_id)?;
        let mut ids: Vec<u64> = numbered.events().iter().map(|event| event.event_id).collect();
        let doubtful = ids.iter().copied().filter(|id| *id <= execution.last_event_id).collect();
        let stored = self.stored_event(key, execution_id, doubtful)?;
        ids.sort_unstable();
        let twice =
            ids.windows(2).find_map(|pair| (pair.first() == pair.last()).then(|| pair.first().copied()));
        match stored.or(twice.flatten()) {
            Some(id) => Err(Fault::Invalid(format!("event {id} is already stored")).into()),
            None => Ok(numbered),
        }
    }

    fn remove_locked_messages(&mut self, key: i64) -> Result<(), Fault> {
        let row = self.instance_mut(key)?;
        let lock = row.lock.take();
        row.suspect = false;
        row.suspect_before = false;
        row.not_before = 0;
        row.pending.queue = true;
        row.note_removal();
        if let Some(lock) = lock {
            row.inbox_count = row.inbox_count.saturating_sub(lock.count);
            row.pending.first_stored = row.pending.first_left.take();
            self.call.changes.covered.push((key, lock));
        }
        Ok(())
    }

    /// Appends events and makes the changes that they stand for.
    pub(super) fn append(
        &mut self,
        key: i64,
        execution: &mut ExecutionRow,
        execution_id: u64,
        delta: &EncodedEvents,
    ) -> Result<(), Stop> {
        let row = self.instance_mut(key)?;
        if execution_id > row.current_execution_id {
            row.current_execution_id = execution_id;
            row.pinned_key = NOT_PINNED;
        }
        self.insert_events(key, execution, execution_id, delta);
        let changes = state_changes(delta.events());
        if let Some(failure) = changes.failure {
            execution.new_failure = Some(to_json(failure)?);
        }
        if let Some(change) = &changes.custom_status {
            let status = change.status.map(str::to_string);
            self.call.changes.custom_statuses.push((key, change.times, status));
        }
        let has_kv = self.call.changes.kv.apply(key, &changes.kv);
        if let Some(has_kv) = has_kv {
            self.instance_mut(key)?.has_kv = has_kv;
        }
        for (execution_id, schedule) in dropped_timers(execution_id, delta) {
            self.drop_timers(key, execution_id, schedule)?;
        }
        Ok(())
    }

    /// Adds events to a history.
    pub(super) fn insert_events(
        &mut self,
        key: i64,
        execution: &mut ExecutionRow,
        execution_id: u64,
        delta: &EncodedEvents,
    ) {
        execution.changed = true;
        for (event, json) in delta.iter() {
            execution.event_count = execution.event_count.saturating_add(1);
            execution.last_event_id = execution.last_event_id.max(event.event_id);
            execution.history_bytes = execution.history_bytes.saturating_add(count(json.len()));
            self.call.changes.history.push(HistoryRow {
                key,
                execution_id,
                event_id: event.event_id,
                json: json.clone(),
            });
        }
    }

    /// Asks how many of these timers the store has, unless none can be left there.
    pub(super) fn need_timers(&self, key: i64, timers: Vec<(u64, Option<u64>)>) -> Result<(), Stop> {
        let row = self.loaded(key)?;
        let locked = row.lock.map_or(0, |lock| lock.count);
        let all_locked = row.inbox_count == row.pending.added.saturating_add(locked);
        if timers.is_empty() || all_locked {
            return Ok(());
        }
        if self.has_dropped_timers(key) {
            // Those that are gone must not be counted again.
            return self.stored_inbox(key).map(drop);
        }
        if self.knows_timers(key) { Ok(()) } else { Err(Need::Timers { key, timers }.into()) }
    }

    /// Whether an earlier call of the group deleted timers of the instance.
    fn has_dropped_timers(&self, key: i64) -> bool {
        self.done.changes.timers.iter().any(|(of, _, _)| *of == key)
    }

    /// How many stored timers of this name neither a lock covers nor the group has deleted.
    fn stored_timers(&self, key: i64, timer: (u64, Option<u64>)) -> i64 {
        // None is left in the store if nobody had to look.
        let Ok(left) = self.left_in_store(key) else { return 0 };
        let lock = self.instance(key).and_then(|row| row.lock);
        let is_it = |message: &&StoredMessage| {
            let covered = lock.is_some_and(|lock| lock.covers(message.visible_at, message.position));
            !covered && message.is_timer(timer)
        };
        count(left.iter().filter(is_it).count())
    }

    /// Deletes a timer, or all timers of an execution. Those in the store were counted before.
    fn drop_timers(&mut self, key: i64, execution_id: u64, schedule: Option<u64>) -> Result<(), Fault> {
        let timer = (key, execution_id, schedule);
        let added = self.added_messages(key).filter(|row| is_timer(row, timer)).count();
        let first_added =
            self.added_messages(key).filter(|row| !is_timer(row, timer)).map(|row| row.visible_at).min();
        self.call.changes.inbox.retain(|row| !is_timer(row, timer));
        let stored = if self.has_dropped_timers(key) {
            self.stored_timers(key, (execution_id, schedule))
        } else {
            self.take_timers(key)
        };
        self.call.changes.timers.push(timer);
        let row = self.instance_mut(key)?;
        row.inbox_count = row.inbox_count.saturating_sub(stored.saturating_add(count(added)));
        if added > 0 {
            row.pending.added -= count(added);
            row.pending.first_added = first_added;
        }
        Ok(())
    }

    fn write_metadata(
        &mut self,
        key: i64,
        execution: &mut ExecutionRow,
        commit: &TurnCommit,
    ) -> Result<(), Fault> {
        let now = self.now;
        if commit.metadata.output.is_some() {
            execution.new_output.clone_from(&commit.metadata.output);
        }
        if let Some(pinned) = &commit.metadata.pinned_duroxide_version {
            execution.pinned = Some(pinned.into());
            let row = self.instance_mut(key)?;
            if commit.execution_id == row.current_execution_id {
                row.pinned_key = pack_version(pinned);
            }
        }
        let Some(status) = commit.status else { return Ok(()) };
        execution.set_status(status, now);
        match status {
            Status::Running => {}
            Status::Completed | Status::Failed => {
                let row = self.instance_mut(key)?;
                row.status = status;
                row.pending.end = Some(status);
            }
            Status::ContinuedAsNew => {
                self.drop_timers(key, commit.execution_id, None)?;
                let next = commit.execution_id.saturating_add(1);
                self.call.changes.next_executions.push((key, next));
                let row = self.instance_mut(key)?;
                if next > row.current_execution_id {
                    row.current_execution_id = next;
                    row.pinned_key = NOT_PINNED;
                }
            }
        }
        Ok(())
    }

    /// Writes name, version and parent where the turn changed them.
    fn rename(&mut self, key: i64, metadata: &ExecutionMetadata) -> Result<(), Fault> {
        let row = self.instance_mut(key)?;
        let mut changed = false;
        for (field, new) in [
            (&mut row.name, &metadata.orchestration_name),
            (&mut row.version, &metadata.orchestration_version),
        ] {
            if let Some(new) = new
                && field != new
            {
                field.clone_from(new);
                changed = true;
            }
        }
        if metadata.parent_instance_id.is_some() && metadata.parent_instance_id != row.parent_instance {
            row.parent_instance.clone_from(&metadata.parent_instance_id);
            changed = true;
        }
        row.pending.description |= changed;
        Ok(())
    }

    /// Sends what the turn sends.
    fn send(&mut self, own: &mut Own, item: &EncodedItem) -> Result<(), Stop> {
        if item.kind() == ItemKind::Start {
            // The answer to a start whose id is taken may come back to this very inbox.
            return match self.start(item, None)? {
                Start::IdTaken { reply: Some(reply) } => self.send_message(own, &reply),
                Start::IdTaken { reply: None } | Start::Created => Ok(()),
            };
        }
        self.send_message(own, item)
    }

    fn send_message(&mut self, own: &mut Own, item: &EncodedItem) -> Result<(), Stop> {
        let columns = columns_of(&item.item);
        if columns.instance != own.instance {
            if columns.kind == ItemKind::Cancel && !self.is_own_child(own, columns.instance)? {
                self.call.effects.dropped_unknown += 1;
                return Ok(());
            }
            return self.deliver(item, None, FullInbox::Admit).map(drop);
        }
        if self.loaded(own.key)?.is_ended() {
            self.call.effects.dropped_finished += 1;
            return Ok(());
        }
        let now = self.now;
        let visible = if columns.kind.goes_before_inbox() {
            let front = self.front(own)?;
            // First in its own inbox, but not before the other instances.
            let row = self.instance_mut(own.key)?;
            row.not_before = now;
            row.next_arrival(now);
            Visible::At(front)
        } else {
            Visible::without_delay(&columns)
        };
        self.put_message(own.key, &columns, &item.json, visible)
    }

    /// Whether a turn may cancel `target`.
    fn is_own_child(&self, own: &Own, target: &str) -> Result<bool, Stop> {
        let key = self.key_of(target)?;
        let parent = key.and_then(|key| self.instance(key)).and_then(|row| row.parent_instance.as_deref());
        Ok(cancel_reaches(&own.instance, target, parent))
    }

    fn front(&self, own: &mut Own) -> Result<Ms, Stop> {
        if let Some(front) = own.front {
            return Ok(front);
        }
        let first = self.first_message(own.key)?;
        let front = first.unwrap_or(0).min(0).saturating_sub(1);
        own.front = Some(front);
        Ok(front)
    }

    /// Nobody will admit what is left.
    fn drop_inbox(&mut self, key: i64) -> Result<(), Fault> {
        let row = self.instance_mut(key)?;
        let left = row.inbox_count;
        row.inbox_count = 0;
        row.note_removal();
        row.pending.first_stored = Some(None);
        row.pending.first_left = None;
        row.pending.first_added = None;
        row.pending.added = 0;
        if left != 0 {
            self.call.changes.inbox.retain(|message| message.key != key);
            self.call.changes.emptied.push(key);
            self.call.effects.dropped_finished += u64::try_from(left).unwrap_or(0);
        }
        Ok(())
    }
}

//! The commit of a turn: everything it did, or nothing.

use duroxide_core::redrive::{KeptMessages, kept_after_failure};
use duroxide_core::{
    Event, ExecutionMetadata, ItemKind, Route, ScheduledActivityIdentifier, WorkItem, cancel_reaches,
    columns_of, pack_version, route_after_turn, state_changes,
};
use duroxide_provider::support::Status;

use crate::execution_row::ExecutionRow;
use crate::fault::Fault;
use crate::history::{EncodedEvents, stored_among};
use crate::item::{EncodedItem, check_message, check_work};
use crate::messages::{FullInbox, Obstacle, Start, Visible};
use crate::token::Token;
use crate::values::{Ms, NOT_PINNED, to_column};
use crate::working_set::{Wanted, WorkingSet};

/// What a turn commits, in its stored form.
#[derive(Debug)]
pub(crate) struct TurnCommit {
    pub(crate) execution_id: u64,
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
    pub(crate) fn new(
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
    pub(crate) fn rows(&self) -> usize {
        self.history_delta.events().len() + self.worker_items.len() + self.orchestrator_items.len()
    }

    /// What it weighs in a group.
    pub(crate) fn bytes(&self) -> usize {
        let items = self.worker_items.iter().chain(&self.orchestrator_items);
        self.history_delta.bytes() + items.map(|item| item.json.len()).sum::<usize>()
    }

    /// The handler that the instance needs after the turn, if that changes.
    fn route(&self, instance: &str, current_execution_id: u64) -> Option<Route> {
        if self.execution_id < current_execution_id {
            return None;
        }
        let continues = self.status == Some(Status::ContinuedAsNew);
        let messages = self.orchestrator_items.iter().map(|item| &item.item);
        route_after_turn(instance, None, continues, messages).or_else(|| self.began.clone())
    }

    /// What must be locked and read to commit it.
    pub(crate) fn wants(&self, token: Token, wanted: &mut Wanted) {
        wanted.keys.insert(token.key);
        wanted.acks.push((token.key, self.execution_id));
        for item in &self.orchestrator_items {
            let id = item.item.instance().to_string();
            if item.kind() == ItemKind::Start {
                wanted.reserved.insert(id.clone());
                wanted.starts += 1;
            }
            wanted.ids.insert(id);
        }
        let changes = state_changes(self.history_delta.events());
        if changes.drops_all_timers || self.status == Some(Status::ContinuedAsNew) {
            wanted.timers.push((token.key, self.execution_id, None));
        } else {
            let timers = changes.cancelled_timers.iter();
            wanted.timers.extend(timers.map(|id| (token.key, self.execution_id, Some(*id))));
        }
        for cancelled in &self.cancelled_activities {
            let id = (cancelled.instance.clone(), cancelled.execution_id, cancelled.activity_id);
            wanted.cancelled.push(id);
        }
    }
}

/// The instance whose turn is committed.
struct Own {
    key: i64,
    instance: String,
    /// Where messages that are put back go: before all that waited when the turn was committed.
    front: Option<Ms>,
}

impl WorkingSet<'_> {
    /// Refuses a call that is wrong in itself, unless its lock is lost, which is what the caller must know
    /// first.
    pub(crate) fn check_held(&self, token: Token) -> Result<(), Fault> {
        let held = self.instances.get(&token.key).is_some_and(|row| row.is_held_by(token, self.now));
        if held { Ok(()) } else { Err(Fault::LockLost) }
    }

    /// Commits a turn.
    pub(crate) async fn ack_turn(&mut self, token: Token, commit: &TurnCommit) -> Result<(), Obstacle> {
        self.check_held(token)?;
        let key = token.key;
        let id = (key, commit.execution_id);
        let mut execution = self.executions.get(&id).cloned().unwrap_or_else(ExecutionRow::new);
        let numbered = commit.history_delta.numbered(execution.last_event_id)?;
        self.check_new_events(key, commit.execution_id, &execution, &numbered).await?;
        self.begun = true;
        if let Some(kept) = &commit.kept {
            self.keep_messages(key, kept.clone()).await?;
        }
        self.remove_locked_messages(key)?;
        let row = self.instance(key)?;
        if let Some(route) = commit.route(&row.instance, row.current_execution_id) {
            row.pending.route = Some(route);
        }
        self.append(key, &mut execution, commit.execution_id, &numbered)?;
        self.write_metadata(key, &mut execution, commit)?;
        self.executions.insert(id, execution);
        self.rename(key, &commit.metadata)?;
        for item in &commit.worker_items {
            self.put_work(item);
        }
        for cancelled in &commit.cancelled_activities {
            self.cancel_work(cancelled);
        }
        let instance = self.instance(key)?.instance.clone();
        let mut own = Own { key, instance, front: None };
        for item in &commit.orchestrator_items {
            self.send(&mut own, item).await?;
        }
        self.finish_turn(own, !numbered.is_history_only()).await?;
        Ok(())
    }

    async fn finish_turn(&mut self, own: Own, state_changed: bool) -> Result<(), Fault> {
        let now = self.now;
        let row = self.instance(own.key)?;
        row.updated_at = now;
        let ended = row.ended;
        if std::mem::take(&mut row.bounced) {
            self.writes.bounces.insert(own.key, None);
        }
        if ended {
            self.drop_inbox(own.key)?;
        }
        self.recompute_ready_at(own.key).await?;
        if state_changed || ended {
            self.effects.changed.push(own.instance);
        }
        Ok(())
    }

    /// An event id that is stored already is refused before anything is changed.
    pub(crate) async fn check_new_events(
        &self,
        key: i64,
        execution_id: u64,
        execution: &ExecutionRow,
        events: &EncodedEvents,
    ) -> Result<(), Fault> {
        let mut ids: Vec<u64> = events.events().iter().map(|event| event.event_id).collect();
        let doubtful: Vec<i64> =
            ids.iter().filter(|id| **id <= execution.last_event_id).map(|id| to_column(*id)).collect();
        let stored = match doubtful.as_slice() {
            [] => None,
            doubtful => stored_among(self.conn()?, key, execution_id, doubtful).await?,
        };
        ids.sort_unstable();
        let twice =
            ids.windows(2).find_map(|pair| (pair.first() == pair.last()).then(|| pair.first().copied()));
        match stored.or(twice.flatten()) {
            Some(id) => Err(Fault::Invalid(format!("event {id} is already stored"))),
            None => Ok(()),
        }
    }

    fn remove_locked_messages(&mut self, key: i64) -> Result<(), Fault> {
        let row = self.instance(key)?;
        let lock = row.lock.take();
        row.suspect = false;
        row.suspect_before = false;
        row.not_before = 0;
        row.pending.queue = true;
        row.note_removal();
        if let Some(lock) = lock {
            row.inbox_count = row.inbox_count.saturating_sub(lock.count);
            self.writes.covered.push((key, lock));
        }
        Ok(())
    }

    /// Appends events and makes the changes that they stand for.
    pub(crate) fn append(
        &mut self,
        key: i64,
        execution: &mut ExecutionRow,
        execution_id: u64,
        delta: &EncodedEvents,
    ) -> Result<(), Fault> {
        let row = self.instance(key)?;
        if execution_id > row.current_execution_id {
            row.current_execution_id = execution_id;
            row.pinned_key = NOT_PINNED;
        }
        execution.changed = true;
        self.insert_events(key, execution, execution_id, delta);
        let changes = state_changes(delta.events());
        if let Some(failure) = changes.failure {
            execution.new_failure = Some(crate::values::to_json(failure)?);
        }
        if let Some(change) = &changes.custom_status {
            self.writes.custom_statuses.push((key, change.times, change.status.map(str::to_string)));
        }
        let has_kv = self.writes.kv.apply(key, &changes.kv);
        if let Some(has_kv) = has_kv {
            self.instance(key)?.has_kv = has_kv;
        }
        for event_id in &changes.cancelled_timers {
            self.drop_timers(key, execution_id, Some(*event_id))?;
        }
        if changes.drops_all_timers {
            self.drop_timers(key, execution_id, None)?;
        }
        Ok(())
    }

    /// Adds events to a history.
    pub(crate) fn insert_events(
        &mut self,
        key: i64,
        execution: &mut ExecutionRow,
        execution_id: u64,
        delta: &EncodedEvents,
    ) {
        for (event, json) in delta.iter() {
            execution.event_count = execution.event_count.saturating_add(1);
            execution.last_event_id = execution.last_event_id.max(event.event_id);
            execution.history_bytes =
                execution.history_bytes.saturating_add(crate::values::count(json.len()));
            self.writes.history.push((key, execution_id, event.event_id, json.clone()));
        }
    }

    /// Deletes a timer, or all timers of an execution. Those in the store were counted when the turn was
    /// loaded.
    pub(crate) fn drop_timers(
        &mut self,
        key: i64,
        execution_id: u64,
        schedule: Option<u64>,
    ) -> Result<(), Fault> {
        self.writes.timers.push((key, execution_id, schedule));
        let added = self.writes.drop_added_timers(key, execution_id, schedule);
        let first_added = self.writes.first_added(key);
        let stored = self.timers.iter().filter(|timer| timer.0 == key).count();
        // Counted once, however often they are dropped.
        self.timers.retain(|timer| timer.0 != key);
        let row = self.instance(key)?;
        row.inbox_count = row.inbox_count.saturating_sub(crate::values::count(stored + added));
        if added > 0 {
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
            let row = self.instance(key)?;
            if commit.execution_id == row.current_execution_id {
                row.pinned_key = pack_version(pinned);
            }
        }
        let Some(status) = commit.status else { return Ok(()) };
        execution.set_status(status, now);
        match status {
            Status::Running => {}
            Status::Completed | Status::Failed => {
                let row = self.instance(key)?;
                row.ended = true;
                row.pending.end = Some(status);
            }
            Status::ContinuedAsNew => {
                self.drop_timers(key, commit.execution_id, None)?;
                let next = commit.execution_id.saturating_add(1);
                self.writes.next_executions.push((key, next));
                let row = self.instance(key)?;
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
        let row = self.instance(key)?;
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
    async fn send(&mut self, own: &mut Own, item: &EncodedItem) -> Result<(), Obstacle> {
        if item.kind() == ItemKind::Start {
            // The answer to a start whose id is taken may come back to this very inbox.
            return match self.start(item, None).await? {
                Start::IdTaken { reply: Some(reply) } => self.send_message(own, &reply).await,
                Start::IdTaken { reply: None } | Start::Created => Ok(()),
            };
        }
        self.send_message(own, item).await
    }

    async fn send_message(&mut self, own: &mut Own, item: &EncodedItem) -> Result<(), Obstacle> {
        let columns = columns_of(&item.item);
        if columns.instance != own.instance {
            if columns.kind == ItemKind::Cancel && !self.is_own_child(own, columns.instance).await? {
                self.effects.dropped_unknown += 1;
                return Ok(());
            }
            return self.deliver(item, None, FullInbox::Admit).await.map(drop);
        }
        if self.instance(own.key)?.ended {
            self.effects.dropped_finished += 1;
            return Ok(());
        }
        let visible = if columns.kind.goes_before_inbox() {
            let front = self.front(own).await?;
            // First in its own inbox, but not before the other instances.
            let now = self.now;
            self.instance(own.key)?.not_before = now;
            Visible::At(front)
        } else {
            Visible::without_delay(&columns)
        };
        self.put_message(own.key, &columns, &item.json, visible).await?;
        Ok(())
    }

    /// Whether a turn may cancel `target`.
    async fn is_own_child(&mut self, own: &Own, target: &str) -> Result<bool, Fault> {
        let key = self.key_of(target).await?;
        let parent =
            key.and_then(|key| self.instances.get(&key)).and_then(|row| row.parent_instance.as_deref());
        Ok(cancel_reaches(&own.instance, target, parent))
    }

    async fn front(&mut self, own: &mut Own) -> Result<Ms, Fault> {
        if let Some(front) = own.front {
            return Ok(front);
        }
        let first = self.first_message(own.key).await?;
        let front = first.unwrap_or(0).min(0).saturating_sub(1);
        own.front = Some(front);
        Ok(front)
    }

    /// Nobody will admit what is left.
    fn drop_inbox(&mut self, key: i64) -> Result<(), Fault> {
        let row = self.instance(key)?;
        let left = row.inbox_count;
        row.inbox_count = 0;
        row.note_removal();
        row.pending.first_stored = Some(None);
        row.pending.first_added = None;
        if left > 0 {
            self.writes.inbox.retain(|message| message.key != key);
            self.writes.emptied.push(key);
            self.effects.dropped_finished += u64::try_from(left).unwrap_or(0);
        }
        Ok(())
    }
}

//! The rows on plain maps: what the rules ask for is looked up, what they changed is written.

use std::collections::BTreeMap;

use duroxide_core::{ItemKind, NodeRecord, Route, limits};

use crate::KvEntry;
use crate::rules::values::{Ms, count, from_json, to_column};
use crate::rules::{
    Answer, Call, Changes, Early, Effects, ExecutionRow, Fault, FirstInputRow, FirstMessage, InstanceRow,
    KeptItem, KeptRow, Need, NewKey, Pending, PulledBack, Rows, Stop, StoredMessage, TurnLock, Wanted,
    WorkRow,
};

/// All rows.
#[derive(Debug, Clone, Default)]
pub(super) struct Tables {
    pub(super) instances: BTreeMap<i64, Instance>,
    pub(super) keys: BTreeMap<String, i64>,
    pub(super) work: BTreeMap<i64, Work>,
    /// Work items by instance, execution and activity.
    pub(super) queued: BTreeMap<(String, u64, u64), i64>,
    pub(super) sessions: BTreeMap<String, Session>,
    /// Messages for instances that have not started, by id and position.
    pub(super) early: BTreeMap<(String, i64), EarlyRow>,
    pub(super) nodes: BTreeMap<String, NodeRecord>,
    pub(super) last_key: i64,
    pub(super) last_work: i64,
    pub(super) nonces: u64,
    pub(super) seed: u64,
    /// The time of the last transaction.
    pub(super) now: Ms,
    /// What has to follow the transaction under way.
    pub(super) effects: Option<Effects>,
}

/// The row of an instance, and the rows that belong to it.
#[derive(Debug, Clone)]
pub(super) struct Instance {
    pub(super) row: InstanceRow,
    pub(super) route: Route,
    pub(super) ended_at: Option<Ms>,
    pub(super) first_input: Option<i64>,
    pub(super) custom_status: Option<String>,
    pub(super) custom_status_version: u64,
    pub(super) bounce: Option<(Ms, String)>,
    pub(super) kv: BTreeMap<String, KvEntry>,
    pub(super) executions: BTreeMap<u64, Execution>,
    /// By visible time and position.
    pub(super) inbox: BTreeMap<(Ms, i64), Message>,
    pub(super) kept: Vec<String>,
}

#[derive(Debug, Clone)]
pub(super) struct Execution {
    pub(super) row: ExecutionRow,
    pub(super) output: Option<String>,
    pub(super) failure: Option<String>,
    pub(super) started_at: Ms,
    pub(super) history: BTreeMap<u64, String>,
}

#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) kind: ItemKind,
    pub(super) execution_id: Option<i64>,
    pub(super) event_id: Option<i64>,
    pub(super) attempts: u32,
    pub(super) json: String,
}

#[derive(Debug, Clone)]
pub(super) struct Work {
    pub(super) row: WorkRow,
    pub(super) json: String,
    pub(super) suspect: bool,
    pub(super) forgiven: u32,
    pub(super) queued_at: Ms,
    pub(super) delayed: bool,
    pub(super) progress: Option<String>,
    pub(super) bounce: Option<(Ms, String)>,
}

#[derive(Debug, Clone)]
pub(super) struct Session {
    pub(super) owner: String,
    pub(super) locked_until: Ms,
    pub(super) last_activity_at: Ms,
}

#[derive(Debug, Clone)]
pub(super) struct EarlyRow {
    pub(super) visible_at: Ms,
    pub(super) kept_at: Ms,
    pub(super) json: String,
}

impl Tables {
    /// Carries out calls in one transaction: each succeeds, or changes nothing.
    pub(super) fn apply(&mut self, now: Ms, calls: &[Call]) -> Vec<Result<Answer, Fault>> {
        let mut rows = Rows::new(now);
        let mut wanted = Wanted::default();
        calls.iter().for_each(|call| call.wants(&mut wanted));
        let mut last_key = self.last_key;
        self.load(&mut rows, &wanted, &mut last_key);
        let answers = calls.iter().map(|call| self.apply_one(&mut rows, call, &mut last_key)).collect();
        let expired = self.write(&rows);
        let (effects, _unused_keys) = rows.finish();
        self.effects(now).expired += expired;
        self.effects(now).merge(effects);
        answers
    }

    pub(super) fn effects(&mut self, now: Ms) -> &mut Effects {
        self.effects.get_or_insert_with(|| Effects::at(now))
    }

    pub(super) fn take_effects(&mut self) -> Option<Effects> {
        self.effects.take()
    }

    fn apply_one(&self, rows: &mut Rows, call: &Call, last_key: &mut i64) -> Result<Answer, Fault> {
        loop {
            match rows.apply(call) {
                Ok(answer) => return Ok(answer),
                Err(Stop::Fault(fault)) => return Err(fault),
                Err(Stop::Need(need)) => self.tell(rows, need, last_key)?,
            }
        }
    }

    /// Loads what a rule takes for absent if it is not known, and what calls with many messages would ask for one by
    /// one. Everything else is told when it is asked for.
    pub(super) fn load(&self, rows: &mut Rows, wanted: &Wanted, last_key: &mut i64) {
        let instances = wanted.keys.iter().filter_map(|key| self.instances.get(key));
        instances.for_each(|instance| rows.learn_instance(instance.row.clone()));
        wanted.ids.iter().for_each(|id| self.tell_instance(rows, id));
        wanted.reserved.iter().for_each(|id| rows.reserve(id, self.early_of(id, rows.now())));
        let keys = (0..wanted.starts).map(|_| self.new_key(last_key)).collect::<Vec<_>>();
        rows.learn_keys(keys.into_iter().rev());
        let cancelled = wanted.cancelled.iter().filter_map(|activity| self.queued.get(activity));
        let work = wanted.work.iter().chain(cancelled).filter_map(|id| self.work.get(id));
        work.for_each(|work| rows.learn_work(work.row.clone()));
    }

    fn tell_instance(&self, rows: &mut Rows, id: &str) {
        match self.keys.get(id).and_then(|key| self.instances.get(key)) {
            Some(instance) => rows.learn_instance(instance.row.clone()),
            None => rows.learn_absent(id),
        }
    }

    fn new_key(&self, last_key: &mut i64) -> NewKey {
        *last_key += 1;
        NewKey { key: *last_key, incarnation: mix(self.seed, last_key.cast_unsigned()) }
    }

    /// Answers what a rule asks.
    pub(super) fn tell(&self, rows: &mut Rows, need: Need, last_key: &mut i64) -> Result<(), Fault> {
        match need {
            Need::Instance(id) => self.tell_instance(rows, &id),
            Need::Reserve(id) => rows.reserve(&id, self.early_of(&id, rows.now())),
            Need::Key => rows.learn_keys([self.new_key(last_key)]),
            Need::Execution { key, execution_id } => {
                let execution = self.instances.get(&key).and_then(|one| one.executions.get(&execution_id));
                rows.learn_execution(key, execution_id, execution.map(|execution| execution.row.clone()));
            }
            Need::FirstMessage(asked) => {
                let first = self.first_message(&asked);
                rows.learn_first_message(asked, first);
            }
            Need::Timers { key, timers } => {
                let lock = rows.instance(key).and_then(|row| row.lock);
                let removed = self.inbox(key).filter(|((visible_at, position), message)| {
                    let covered = lock.is_some_and(|lock| lock.covers(*visible_at, *position));
                    !covered && timers.iter().any(|timer| message.is_timer(*timer))
                });
                rows.learn_timers(key, count(removed.count()));
            }
            Need::InboxBytes(key) => {
                let bytes = self.inbox(key).map(|(_, message)| message.json.len()).sum();
                rows.learn_inbox_bytes(key, count(bytes));
            }
            Need::Inbox(key) => {
                let inbox = self.inbox(key).map(|((visible_at, position), message)| {
                    let (execution_id, event_id) = (message.execution_id, message.event_id);
                    let (visible_at, position, kind) = (*visible_at, *position, message.kind.code());
                    StoredMessage { visible_at, position, kind, execution_id, event_id }
                });
                rows.learn_inbox(key, inbox.collect());
            }
            Need::Kept { key, execution_id } => {
                let instance = self.instance(key)?;
                let failure = instance.executions.get(&execution_id).and_then(|one| one.failure.clone());
                rows.learn_kept(key, KeptRow { failure, count: count(instance.kept.len()) });
            }
            Need::StoredEvents { key, execution_id, ids } => {
                let execution = self.instances.get(&key).and_then(|one| one.executions.get(&execution_id));
                let is_stored = |id: &&u64| execution.is_some_and(|one| one.history.contains_key(*id));
                let stored = ids.iter().find(is_stored).copied();
                rows.learn_stored_event(key, execution_id, ids, stored);
            }
            Need::FirstInput(key) => {
                let fingerprint = self.instance(key)?.first_input;
                rows.learn_first_input(key, FirstInputRow { fingerprint, ..FirstInputRow::default() });
            }
            Need::KeptItems { key, seen } => {
                let kept = self.instance(key)?.kept.iter().skip(seen).map(|json| from_json(json));
                rows.learn_kept_items(key, kept.collect::<Result<_, _>>().map_err(Fault::Corrupt)?);
            }
            Need::Queued { instance, execution_id, activity_id } => {
                let is_queued = self.queued.contains_key(&(instance.clone(), execution_id, activity_id));
                rows.learn_queued(&instance, execution_id, activity_id, is_queued);
            }
        }
        Ok(())
    }

    fn instance(&self, key: i64) -> Result<&Instance, Fault> {
        self.instances.get(&key).ok_or_else(|| Fault::Corrupt(format!("instance {key} is gone")))
    }

    /// The stored messages of an inbox: none of an instance that the group itself creates.
    fn inbox(&self, key: i64) -> impl Iterator<Item = (&(Ms, i64), &Message)> {
        self.instances.get(&key).into_iter().flat_map(|instance| &instance.inbox)
    }

    fn early_of(&self, id: &str, now: Ms) -> Option<Early> {
        let kept = self.early.range((id.to_string(), 0)..).take_while(|((other, _), _)| other == id);
        let kept = kept.filter(|(_, early)| early.kept_at >= oldest_early(now));
        let positions: Vec<i64> = kept.map(|((_, position), _)| *position).collect();
        positions.last().map(|last| Early { last: *last, count: count(positions.len()) })
    }

    fn first_message(&self, asked: &FirstMessage) -> Option<Ms> {
        let stays = |(visible_at, position): (Ms, i64), message: &Message| {
            !asked.without.iter().any(|lock| lock.covers(visible_at, position))
                && !asked.without_timers.iter().any(|timer| message.is_timer(*timer))
                && !asked.without_messages.contains(&(visible_at, position))
        };
        let left = self.inbox(asked.key).filter(|(place, message)| stays(**place, message));
        let visible = left.map(|((visible_at, _), message)| match asked.pulled_back {
            Some((now, until)) => message.pulled_back(*visible_at, now, until),
            None => *visible_at,
        });
        visible.min()
    }

    /// Writes what a group changed, in the order that [`Changes`] asks for; how many early messages expired.
    fn write(&mut self, rows: &Rows) -> u64 {
        let (now, changes) = (rows.now(), rows.changes());
        for row in rows.instances().filter(|row| row.pending.created) {
            self.last_key = self.last_key.max(row.key);
            self.keys.insert(row.instance.clone(), row.key);
            self.instances.insert(row.key, Instance::created(row));
        }
        self.remove_messages(changes);
        for new in &changes.inbox {
            let message = Message {
                kind: new.kind,
                execution_id: new.execution_id,
                event_id: new.event_id,
                attempts: 0,
                json: new.json.clone(),
            };
            let inbox = self.instances.get_mut(&new.key).map(|instance| &mut instance.inbox);
            inbox.map(|inbox| inbox.insert((new.visible_at, new.position), message));
        }
        let expired = self.write_early(now, changes);
        self.write_state(now, rows);
        self.write_work(now, changes);
        for used in &changes.session_uses {
            if let Some(session) = self.sessions.get_mut(&used.session_id) {
                session.last_activity_at = now;
                session.locked_until = session.locked_until.max(used.item_locked_until);
            }
        }
        expired
    }

    /// Writes what leaves the inboxes, or changes there.
    fn remove_messages(&mut self, changes: &Changes) {
        for one in &changes.kept {
            let Some(instance) = self.instances.get_mut(&one.key) else { continue };
            let stored = |place| instance.inbox.get(&place).map(|message: &Message| message.json.clone());
            instance.kept.extend(match &one.item {
                KeptItem::Stored { visible_at, position } => stored((*visible_at, *position)),
                KeptItem::New(json) => Some(json.clone()),
            });
        }
        for key in &changes.redriven {
            if let Some(instance) = self.instances.get_mut(key) {
                instance.kept.clear();
                instance.ended_at = None;
            }
        }
        for (key, lock) in &changes.ended_attempts {
            self.count_attempt(*key, *lock);
        }
        let mut retain = |key: i64, stays: &dyn Fn((Ms, i64), &Message) -> bool| {
            let inbox = self.instances.get_mut(&key).map(|instance| &mut instance.inbox);
            inbox.into_iter().for_each(|inbox| inbox.retain(|place, message| stays(*place, message)));
        };
        for (key, lock) in &changes.covered {
            retain(*key, &|(visible_at, position), _| !lock.covers(visible_at, position));
        }
        for one in &changes.aside_messages {
            retain(one.key, &|place, _| place != (one.visible_at, one.position));
        }
        for (key, execution_id, schedule) in &changes.timers {
            retain(*key, &|_, message| !message.is_timer((*execution_id, *schedule)));
        }
        for key in &changes.emptied {
            retain(*key, &|_, _| false);
        }
        for pulled in &changes.pulled_back {
            self.pull_back(*pulled);
        }
    }

    /// Counts an attempt that ended with the messages that its lock covers.
    pub(super) fn count_attempt(&mut self, key: i64, lock: TurnLock) {
        let inbox = self.instances.get_mut(&key).into_iter().flat_map(|instance| &mut instance.inbox);
        for ((visible_at, position), message) in inbox {
            if lock.covers(*visible_at, *position) {
                message.attempts = message.attempts.saturating_add(1);
            }
        }
    }

    /// Makes messages visible that came while the clock was ahead.
    pub(super) fn pull_back(&mut self, pulled: PulledBack) {
        let Some(instance) = self.instances.get_mut(&pulled.key) else { return };
        let inbox =
            std::mem::take(&mut instance.inbox).into_iter().map(|((visible_at, position), message)| {
                ((message.pulled_back(visible_at, pulled.now, pulled.until), position), message)
            });
        instance.inbox = inbox.collect();
    }

    fn write_early(&mut self, now: Ms, changes: &Changes) -> u64 {
        let before = self.early.len();
        if changes.expire_early {
            self.early.retain(|_, early| early.kept_at >= oldest_early(now));
        }
        let expired = before - self.early.len();
        for one in &changes.early {
            let early = EarlyRow { visible_at: one.visible_at, kept_at: now, json: one.json.clone() };
            self.early.insert((one.instance.clone(), one.position), early);
        }
        for admitted in &changes.admitted_early {
            let is_its = |(id, _): &(String, i64)| *id == admitted.instance;
            let (its, others) = std::mem::take(&mut self.early).into_iter().partition(|(id, _)| is_its(id));
            let its: BTreeMap<(String, i64), EarlyRow> = its;
            self.early = others;
            let Some(instance) = self.instances.get_mut(&admitted.key) else { continue };
            for (position, early) in (admitted.first_position..).zip(its.into_values()) {
                // Nothing is admitted before the start, and what has no delay in the order of its arrival.
                let delayed = early.visible_at > early.kept_at;
                let visible_at =
                    if delayed { early.visible_at.max(admitted.start_at) } else { admitted.start_at };
                let json = early.json;
                let message =
                    Message { kind: ItemKind::Event, execution_id: None, event_id: None, attempts: 0, json };
                instance.inbox.insert((visible_at, position), message);
            }
        }
        u64::try_from(expired).unwrap_or(u64::MAX)
    }

    /// Writes the rows of instances and executions, histories, and what clients see.
    fn write_state(&mut self, now: Ms, rows: &Rows) {
        let changes = rows.changes();
        for row in rows.instances() {
            let Some(instance) = self.instances.get_mut(&row.key) else { continue };
            instance.row = InstanceRow { pending: Pending::default(), ..row.clone() };
            instance.route = row.pending.route.clone().unwrap_or_else(|| instance.route.clone());
            instance.ended_at = row.pending.end.map_or(instance.ended_at, |_| Some(now));
            if row.pending.cancels {
                instance.row.cancelled = instance.inbox.values().any(|one| one.kind == ItemKind::Cancel);
            }
        }
        for ((key, execution_id), row) in rows.executions().filter(|(_, row)| row.changed) {
            let execution = self.execution_mut(*key, *execution_id, now);
            let (output, failure) = (row.new_output.clone(), row.new_failure.clone());
            execution.output = output.or(execution.output.take());
            execution.failure = failure.or(execution.failure.take());
            let clean = ExecutionRow { new_output: None, new_failure: None, ..row.clone() };
            execution.row = ExecutionRow { is_stored: true, changed: false, ..clean };
        }
        for event in &changes.history {
            let execution = self.execution_mut(event.key, event.execution_id, now);
            execution.history.insert(event.event_id, event.json.clone());
        }
        for (key, execution_id) in &changes.next_executions {
            self.execution_mut(*key, *execution_id, now);
        }
        for (key, bounce) in &changes.bounces {
            if let Some(instance) = self.instances.get_mut(key) {
                instance.bounce = bounce.clone().map(|cause| (now, cause));
            }
        }
        for (key, times, status) in &changes.custom_statuses {
            if let Some(instance) = self.instances.get_mut(key) {
                instance.custom_status_version += times;
                instance.custom_status.clone_from(status);
            }
        }
        for key in &changes.kv.cleared {
            self.instances.get_mut(key).into_iter().for_each(|instance| instance.kv.clear());
        }
        for ((key, name), value) in &changes.kv.values {
            let Some(instance) = self.instances.get_mut(key) else { continue };
            match value.clone() {
                Some((value, last_updated_at_ms)) => {
                    instance.kv.insert(name.clone(), KvEntry { value, last_updated_at_ms });
                }
                None => drop(instance.kv.remove(name)),
            }
        }
    }

    fn execution_mut(&mut self, key: i64, execution_id: u64, now: Ms) -> &mut Execution {
        let instance = self.instances.get_mut(&key).expect("its row was loaded or created by the group");
        instance.executions.entry(execution_id).or_insert_with(|| Execution {
            row: ExecutionRow { is_stored: true, changed: false, ..ExecutionRow::default() },
            output: None,
            failure: None,
            started_at: now,
            history: BTreeMap::new(),
        })
    }

    fn write_work(&mut self, now: Ms, changes: &Changes) {
        for (id, _) in &changes.deleted_work {
            self.remove_work(*id);
        }
        for (id, change) in &changes.work {
            let Some(work) = self.work.get_mut(id) else { continue };
            work.row.nonce = change.nonce;
            work.row.stored_nonce = change.nonce;
            work.row.visible_at = change.visible_at;
            work.row.ready_at = change.ready_at;
            work.row.suspect_before = change.suspect_before;
            work.row.attempts = change.attempts;
            work.suspect = change.suspect;
            work.delayed |= change.delayed;
            work.bounce = change.cause.clone().map(|cause| (now, cause)).or(work.bounce.take());
        }
        for (id, details) in &changes.progress {
            self.work.get_mut(id).into_iter().for_each(|work| work.progress = Some(details.clone()));
        }
        for id in &changes.forgiven {
            self.work.get_mut(id).into_iter().for_each(|work| work.forgiven += 1);
        }
        for new in &changes.new_work {
            let activity = (new.instance.clone(), new.execution_id, new.activity_id);
            if self.queued.contains_key(&activity) {
                continue;
            }
            self.last_work += 1;
            self.queued.insert(activity, self.last_work);
            let row = WorkRow {
                id: self.last_work,
                nonce: None,
                stored_nonce: None,
                ready_at: now,
                place: new.place.clone(),
                instance: new.instance.clone(),
                execution_id: new.execution_id,
                activity_id: new.activity_id,
                visible_at: now,
                suspect_before: false,
                attempts: 0,
            };
            self.work.insert(row.id, Work::queued(row, new.json.clone(), now));
        }
    }

    pub(super) fn remove_work(&mut self, id: i64) {
        if let Some(Work { row, .. }) = self.work.remove(&id) {
            self.queued.remove(&(row.instance, row.execution_id, row.activity_id));
        }
    }
}

impl Instance {
    fn created(row: &InstanceRow) -> Self {
        Self {
            row: row.clone(),
            route: Route::AnyNode,
            ended_at: None,
            first_input: row.pending.first_input,
            custom_status: None,
            custom_status_version: 0,
            bounce: None,
            kv: BTreeMap::new(),
            executions: BTreeMap::new(),
            inbox: BTreeMap::new(),
            kept: Vec::new(),
        }
    }
}

impl Work {
    fn queued(row: WorkRow, json: String, now: Ms) -> Self {
        Self {
            row,
            json,
            suspect: false,
            forgiven: 0,
            queued_at: now,
            delayed: false,
            progress: None,
            bounce: None,
        }
    }
}

impl Message {
    /// Whether it is this timer; any of the execution without a schedule.
    fn is_timer(&self, (execution_id, schedule): (u64, Option<u64>)) -> bool {
        self.kind == ItemKind::Timer
            && self.execution_id == Some(to_column(execution_id))
            && schedule.is_none_or(|schedule| self.event_id == Some(to_column(schedule)))
    }

    /// When it is visible, once what came while the clock was ahead is pulled back.
    fn pulled_back(&self, visible_at: Ms, now: Ms, until: Ms) -> Ms {
        let ahead = visible_at > now && visible_at <= until && self.kind != ItemKind::Timer;
        if ahead { now } else { visible_at }
    }
}

/// What is kept for starts since before this time has expired.
fn oldest_early(now: Ms) -> Ms {
    now.saturating_sub(to_column(limits::EARLY_MESSAGE_RETENTION_MS))
}

/// Number `n` of the sequence that a seed begins (SplitMix64).
pub(super) fn mix(seed: u64, n: u64) -> u64 {
    let mut mixed = seed.wrapping_add(n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

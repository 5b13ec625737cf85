//! Turns: locking ready instances, giving them back, renewing their locks.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use duroxide_core::{
    DispatcherCapabilityFilter, Event, HandlerSet, ItemKind, WhenUndecodable, WorkItem, can_replay, limits,
    test_fault, unpack_version,
};

use super::ready::Pick;
use super::rows::{ExecutionRow, InstanceRow, KeptCause, MessageKey, Ms, TurnKey, TurnLock, expired, to_ms};
use super::state::State;
use crate::clock::millis;
use crate::room::{ByteRoom, HistoryRoom, HistorySize};
use crate::stored_bytes::stored_bytes;
use crate::{
    FetchedTurn, FilteredOut, GiveBack, HeldHistory, HistoryPart, OrchestrationItem, ProviderError,
    TurnFacts, TurnRequest,
};

/// What a fetch found.
#[derive(Debug)]
pub(super) enum Fetched<T> {
    /// At least one item.
    Items(Vec<T>),
    /// None before this time, or before something changes.
    NotBefore(Option<Ms>),
}

impl State {
    /// The ready instances that the filter leaves out, by pinned version.
    pub(super) fn filtered_out(&self, now: Ms, filter: &DispatcherCapabilityFilter) -> Vec<FilteredOut> {
        let mut by_version: BTreeMap<Option<i64>, usize> = BTreeMap::new();
        for (key, instances) in self.ready_turns.count_ready(now, |key| !can_replay(Some(filter), key.pinned))
        {
            *by_version.entry(key.pinned).or_default() += instances;
        }
        let counted = by_version
            .into_iter()
            .map(|(pinned, instances)| FilteredOut { pinned_version: pinned.map(unpack_version), instances });
        counted.collect()
    }
}

/// From when on an instance with this routing key may be taken.
fn open_from(request: &TurnRequest, key: &TurnKey) -> Option<Ms> {
    let handled = |handlers: &HandlerSet| handlers.has(&key.route);
    let matches =
        can_replay(request.filter.as_ref(), key.pinned) && request.handlers.as_deref().is_none_or(handled);
    matches.then_some(Ms::MIN)
}

/// What the messages of a fetch are, once the undecodable ones are dealt with.
struct Admitted {
    keys: Vec<MessageKey>,
    items: Vec<WorkItem>,
    error: Option<String>,
}

impl State {
    pub(super) fn fetch_turns(&mut self, now: Ms, request: &TurnRequest) -> Fetched<FetchedTurn> {
        let mut turns = Vec::new();
        let mut suspects = request.suspects;
        test_fault!(UnknownInstancesStopNobody => if !self.early.is_empty() { return Fetched::Items(turns) });
        let (mut histories, mut messages) = (HistoryRoom::default(), ByteRoom::for_messages());
        while turns.len() < request.max_items.max(1) {
            let pick = self.ready_turns.oldest(now, suspects.are_admitted(), |key| open_from(request, key));
            let (seq, suspect) = match pick {
                Pick::Ready { seq, suspect } => (seq, suspect),
                Pick::NotBefore(next) if turns.is_empty() => return Fetched::NotBefore(next),
                Pick::NotBefore(_) => break,
            };
            let Some(instance) = self.created.get(&seq).cloned() else { break };
            if !turns.is_empty() {
                let fits = messages.fits(self.first_message_bytes(now, &instance));
                if !fits || !histories.take(self.history_to_read(&instance, request)) {
                    break;
                }
            }
            if let Some(turn) = self.take_turn(now, &instance, request, &mut messages) {
                turns.push(turn);
                if suspect {
                    suspects = suspects.after_one();
                }
            }
        }
        Fetched::Items(turns)
    }

    /// What a fetch of an instance reads of its history.
    fn history_to_read(&self, instance: &str, request: &TurnRequest) -> HistorySize {
        let Some(row) = self.instances.get(instance) else { return HistorySize::NOTHING };
        let stored = stored_history(row);
        if request.held.held(instance) == Some(stored) {
            return HistorySize::NOTHING;
        }
        let bytes = row.current_execution().map_or(0, ExecutionRow::stored_bytes);
        HistorySize { events: stored.last_event_id, bytes }
    }

    /// The bytes of the message that a fetch of an instance brings first; 0 if none decodes.
    pub(super) fn first_message_bytes(&self, now: Ms, instance: &str) -> usize {
        let Some(row) = self.instances.get(instance) else { return 0 };
        let mut visible = row.inbox().range(..=last_visible(now));
        visible.find_map(|(_, message)| message.item.value().ok()).map_or(0, stored_bytes)
    }

    /// Locks an instance that is ready. `None` when none of its messages can be admitted.
    pub(super) fn take_turn(
        &mut self,
        now: Ms,
        instance: &str,
        request: &TurnRequest,
        room: &mut ByteRoom,
    ) -> Option<FetchedTurn> {
        let admitted = self.admit_messages(now, instance, room);
        if admitted.keys.is_empty() {
            // Also when an expired lock still stood in the row.
            self.instances.get_mut(instance)?.lock = None;
            self.reindex_turn(instance);
            return None;
        }
        let seq = self.instances.get(instance)?.seq;
        let token = self.new_token(seq);
        let row = self.instances.get_mut(instance)?;
        let mut attempts = 0;
        for key in &admitted.keys {
            if let Some(message) = row.message_mut(*key) {
                message.attempts = message.attempts.saturating_add(1);
                attempts = attempts.max(message.attempts);
            }
        }
        let suspect = row.suspicion.is_suspect();
        let expired = row.lock.as_ref().filter(|_| suspect).map(|lock| expired(lock.holder, lock.until));
        row.suspicion = row.suspicion.when_locked();
        let holder = request.holder;
        let until = now.saturating_add(to_ms(millis(request.lock_timeout)));
        row.lock =
            Some(TurnLock { token: token.clone(), holder, until, messages: admitted.keys, cancelled: false });
        let loaded = match admitted.error {
            Some(error) => Loaded { events: Vec::new(), part: HistoryPart::Whole, error: Some(error) },
            None => load_history(row, request.held.held(instance)),
        };
        let turn = FetchedTurn {
            item: OrchestrationItem {
                instance: instance.to_string(),
                orchestration_name: row.name.clone(),
                execution_id: row.current_execution_id,
                version: row.version.clone(),
                history: loaded.events,
                messages: admitted.items,
                history_error: loaded.error,
                kv_snapshot: match loaded.part {
                    HistoryPart::Held => HashMap::new(),
                    HistoryPart::Whole => row.kv.clone().into_iter().collect(),
                },
            },
            lock_token: token,
            attempts,
            facts: Some(TurnFacts {
                now_ms: u64::try_from(now).unwrap_or(0),
                suspect,
                expired,
                incarnation: row.incarnation,
                created_at_ms: u64::try_from(row.created_at).unwrap_or(0),
                last_event_id: row.current_execution().map_or(0, ExecutionRow::last_event_id),
                parent: row.parent(),
                history: loaded.part,
                last_cause: row.bounce.as_ref().map(|bounce| bounce.cause.clone()),
            }),
        };
        self.reindex_turn(instance);
        Some(turn)
    }

    /// The visible messages of an instance; those it can do without and that do not decode are set aside.
    fn admit_messages(&mut self, now: Ms, instance: &str, room: &mut ByteRoom) -> Admitted {
        let mut admitted = Admitted { keys: Vec::new(), items: Vec::new(), error: None };
        let mut aside: Vec<(MessageKey, ItemKind, String)> = Vec::new();
        let Some(row) = self.instances.get_mut(instance) else { return admitted };
        for (key, message) in row.inbox().range(..=last_visible(now)) {
            if admitted.keys.len() == limits::MAX_MESSAGES_PER_FETCH {
                break;
            }
            match message.item.value() {
                Ok(item) => {
                    let bytes = stored_bytes(item);
                    if !room.fits(bytes) {
                        break;
                    }
                    room.take(bytes);
                    admitted.keys.push(*key);
                    admitted.items.push(item.clone());
                }
                Err(cause) => match message.kind.when_undecodable() {
                    WhenUndecodable::SetAside => aside.push((*key, message.kind, cause.to_string())),
                    WhenUndecodable::Poison => {
                        admitted.keys.push(*key);
                        let position = admitted.keys.len();
                        admitted
                            .error
                            .get_or_insert_with(|| format!("message at position {position}: {cause}"));
                    }
                },
            }
        }
        for (key, _, _) in &aside {
            row.take_message(*key);
        }
        for (_, kind, cause) in aside {
            self.keep_aside(instance, kind, &cause);
        }
        admitted
    }

    pub(super) fn give_back_turn(
        &mut self,
        now: Ms,
        token: &str,
        give_back: GiveBack,
    ) -> Result<(), ProviderError> {
        let GiveBack { delay, ignore_attempt, cause } = give_back;
        let instance = self.holder_of_turn(now, "give_back_turn", token)?;
        let Some(row) = self.instances.get_mut(&instance) else { return Ok(()) };
        let Some(lock) = row.lock.take() else { return Ok(()) };
        if ignore_attempt {
            for key in &lock.messages {
                if let Some(message) = row.message_mut(*key) {
                    message.attempts = message.attempts.saturating_sub(1);
                }
            }
        }
        row.suspicion = row.suspicion.when_abandoned(ignore_attempt);
        row.not_before = match delay {
            Some(delay) if !lock.cancelled => now.saturating_add(to_ms(millis(delay))),
            Some(_) | None => 0,
        };
        if let Some(cause) = cause {
            row.bounce = Some(KeptCause { at: now, cause: cause.bounded() });
        }
        self.reindex_turn(&instance);
        Ok(())
    }

    pub(super) fn renew_turn(
        &mut self,
        now: Ms,
        token: &str,
        extend_for: Duration,
    ) -> Result<(), ProviderError> {
        let instance = self.holder_of_turn(now, "renew_orchestration_item_lock", token)?;
        if let Some(lock) = self.instances.get_mut(&instance).and_then(|row| row.lock.as_mut()) {
            lock.until = now.saturating_add(to_ms(millis(extend_for)));
        }
        self.reindex_turn(&instance);
        Ok(())
    }
}

/// The end of what is visible.
fn last_visible(now: Ms) -> MessageKey {
    MessageKey { visible_at: now, position: u64::MAX }
}

struct Loaded {
    events: Vec<Event>,
    part: HistoryPart,
    error: Option<String>,
}

/// The history of the current execution, or nothing if the node holds exactly that.
/// What the store knows of an instance's history.
fn stored_history(row: &InstanceRow) -> HeldHistory {
    HeldHistory {
        incarnation: row.incarnation,
        execution_id: row.current_execution_id,
        last_event_id: row.current_execution().map_or(0, ExecutionRow::last_event_id),
    }
}

fn load_history(row: &InstanceRow, held: Option<HeldHistory>) -> Loaded {
    if held == Some(stored_history(row)) {
        return Loaded { events: Vec::new(), part: HistoryPart::Held, error: None };
    }
    let mut events = Vec::new();
    for (event_id, event) in row.current_execution().iter().flat_map(|execution| &execution.events) {
        match event.value() {
            Ok(event) => events.push(event.clone()),
            Err(cause) => {
                let error = Some(format!("event at position {event_id}: {cause}"));
                return Loaded { events: Vec::new(), part: HistoryPart::Whole, error };
            }
        }
    }
    Loaded { events, part: HistoryPart::Whole, error: None }
}

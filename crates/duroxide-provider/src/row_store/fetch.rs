//! Finding rows that are ready, and locking them.

use std::collections::HashMap;

use duroxide_core::protection::Protection;
use duroxide_core::{
    BounceCause, Event, ItemKind, ParentLink, Route, WhenUndecodable, WorkItem, can_replay, limits,
};

use super::tables::{Execution, Instance, Tables, mix};
use crate::room::{ByteRoom, HistoryRoom, HistorySize};
use crate::rules::values::{Ms, NOT_PINNED, count, from_column, from_json};
use crate::rules::{AsideMessage, Call, PulledBack, Token, TurnLock, expired_lock, expires_at};
use crate::{
    FetchedTurn, FetchedWork, HeldHistory, HistoryPart, LockHolder, OrchestrationItem, OrchestrationRef,
    Suspects, TurnFacts, TurnRequest, WorkRequest,
};

/// What a look at a queue found.
#[derive(Debug)]
pub(super) enum Found<T> {
    /// These were locked.
    Items(Vec<T>),
    /// Nothing is ready before this time, or before something changes.
    NotBefore(Option<Ms>),
}

/// The row that has been ready longest, or when the next one is.
pub(super) enum Oldest {
    Ready { id: i64, suspect: bool },
    NotBefore(Option<Ms>),
}

/// A row that a fetch may take, once it is ready.
pub(super) struct Candidate {
    pub(super) id: i64,
    pub(super) suspect: bool,
    pub(super) ready_at: Ms,
    /// Not before this time, however long it has been ready.
    pub(super) open_from: Ms,
}

impl Oldest {
    pub(super) fn of(now: Ms, suspects: Suspects, candidates: impl Iterator<Item = Candidate>) -> Self {
        let (mut oldest, mut next_due): (Option<Candidate>, Option<Ms>) = (None, None);
        for one in candidates.filter(|one| !one.suspect || suspects.are_admitted()) {
            let due = one.ready_at.max(one.open_from);
            if due > now {
                next_due = Some(next_due.map_or(due, |next| next.min(due)));
            } else if oldest.as_ref().is_none_or(|first| (one.ready_at, one.id) < (first.ready_at, first.id))
            {
                oldest = Some(one);
            }
        }
        match oldest {
            Some(Candidate { id, suspect, .. }) => Self::Ready { id, suspect },
            None => Self::NotBefore(next_due),
        }
    }
}

/// The messages that a fetch brings.
#[derive(Default)]
struct Admitted {
    items: Vec<WorkItem>,
    aside: Vec<AsideMessage>,
    error: Option<String>,
    attempts: u32,
    /// How many, the undecodable ones that stay included.
    stay: usize,
    last: Option<(Ms, i64)>,
}

impl Tables {
    pub(super) fn nonce(&mut self, holder: LockHolder) -> i64 {
        self.nonces += 1;
        holder.nonce(mix(self.seed, u64::MAX - self.nonces))
    }

    pub(super) fn fetch_turns(&mut self, now: Ms, request: &TurnRequest) -> Found<FetchedTurn> {
        if !self.early.is_empty() && Protection::UnknownInstancesStopNobody.is_off() {
            return Found::NotBefore(None);
        }
        let mut turns = Vec::new();
        let mut suspects = request.suspects;
        let (mut histories, mut room) = (HistoryRoom::default(), ByteRoom::for_messages());
        while turns.len() < request.max_items.max(1) {
            let takes = |instance: &&Instance| instance.suits(request);
            let ready = self.instances.values().filter(takes).filter_map(Instance::candidate);
            let (key, suspect) = match Oldest::of(now, suspects, ready) {
                Oldest::Ready { id, suspect } => (id, suspect),
                Oldest::NotBefore(next) if turns.is_empty() => return Found::NotBefore(next),
                Oldest::NotBefore(_) => break,
            };
            let fits = |instance: &Instance| room.fits(instance.first_message_bytes(now));
            let instance = self.instances.get(&key);
            let history = instance.map_or(HistorySize::NOTHING, |instance| instance.history_to_read(request));
            let has_room = turns.is_empty() || (instance.is_some_and(fits) && histories.take(history));
            if !has_room {
                break;
            }
            if let Some(turn) = self.take_turn(now, key, request, &mut room) {
                turns.push(turn);
                suspects = if suspect { suspects.after_one() } else { suspects };
            }
        }
        Found::Items(turns)
    }

    /// Locks an instance that is ready; `None` if nothing of its inbox can be admitted.
    pub(super) fn take_turn(
        &mut self,
        now: Ms,
        key: i64,
        request: &TurnRequest,
        room: &mut ByteRoom,
    ) -> Option<FetchedTurn> {
        let nonce = self.nonce(request.holder);
        let row = &mut self.instances.get_mut(&key)?.row;
        let (suspect, ended, until) = (row.suspect, row.lock.take(), row.last_arrival);
        let expired = ended.filter(|_| suspect).zip(row.ready_at);
        row.last_arrival = until.min(now);
        if let Some(lock) = ended {
            self.count_attempt(key, lock);
        }
        if until > now {
            self.pull_back(PulledBack { key, now, until });
        }
        let instance = self.instances.get_mut(&key)?;
        let admitted = instance.admit(now, room);
        let Some((visible_at, position)) = admitted.last else {
            let first = instance.inbox.first_key_value().map(|((visible_at, _), _)| *visible_at);
            instance.row.ready_at = first.map(|first| first.max(instance.row.not_before));
            return None;
        };
        let row = &mut instance.row;
        let taken = count(admitted.stay + admitted.aside.len());
        let watermark = row.next_position;
        row.lock = Some(TurnLock { nonce, visible_at, position, watermark, count: taken });
        row.suspect_before = suspect;
        row.suspect = true;
        row.not_before = 0;
        row.ready_at = Some(expires_at(now, request.lock_timeout));
        let turn = instance.turn(now, request, admitted.error, admitted.items);
        let token = Token { key, nonce };
        let left = admitted.stay;
        if !admitted.aside.is_empty() {
            self.apply(now, &[Call::AsideMessages { token, aside: admitted.aside, left }]);
        }
        (left > 0).then(|| {
            let facts = turn.facts.map(|facts| TurnFacts {
                suspect,
                expired: expired.map(|(lock, at)| expired_lock(lock.nonce, at)),
                ..facts
            });
            FetchedTurn { lock_token: token.text(), attempts: admitted.attempts, facts, ..turn }
        })
    }

    pub(super) fn fetch_work(&mut self, now: Ms, request: &WorkRequest) -> Found<FetchedWork> {
        let mut items = Vec::new();
        let mut suspects = request.suspects;
        let mut bytes_left = ByteRoom::for_work();
        while items.len() < request.max_items.max(1) {
            let room = self.room_for_session(now, request);
            self.give_up_claims(now, request, suspects, room);
            let ready = self.work.values().filter_map(|work| {
                let open_from = self.open_from(now, request, room, &work.row.place)?;
                let (id, ready_at) = (work.row.id, work.row.ready_at);
                Some(Candidate { id, suspect: work.suspect, ready_at, open_from })
            });
            let (id, suspect) = match Oldest::of(now, suspects, ready) {
                Oldest::Ready { id, suspect } => (id, suspect),
                Oldest::NotBefore(next) if items.is_empty() => {
                    let claim = self.next_claim_to_give_up(now, request, room);
                    return Found::NotBefore(next.into_iter().chain(claim).min());
                }
                Oldest::NotBefore(_) => break,
            };
            let bytes = self.work_bytes(id);
            if !bytes_left.fits(bytes) {
                break;
            }
            if let Some(item) = self.take_work(now, id, request) {
                bytes_left.take(bytes);
                items.push(item);
                suspects = if suspect { suspects.after_one() } else { suspects };
            }
        }
        // The last item may have used up the room.
        let room = self.room_for_session(now, request);
        self.give_up_claims(now, request, suspects, room);
        Found::Items(items)
    }

    /// The bytes that a fetch of a work item brings.
    pub(super) fn work_bytes(&self, id: i64) -> usize {
        self.work.get(&id).map_or(0, |work| work.json.len())
    }

    /// Locks a work item that is ready; `None` if it does not decode and is set aside.
    pub(super) fn take_work(&mut self, now: Ms, id: i64, request: &WorkRequest) -> Option<FetchedWork> {
        let nonce = self.nonce(request.holder);
        let until = expires_at(now, request.lock_timeout);
        let work = self.work.get_mut(&id)?;
        let suspect = work.suspect;
        let expired = work.row.nonce.filter(|_| suspect).map(|nonce| expired_lock(nonce, work.row.ready_at));
        let row = &mut work.row;
        (row.nonce, row.stored_nonce, row.ready_at) = (Some(nonce), Some(nonce), until);
        row.suspect_before = suspect;
        row.attempts = row.attempts.saturating_add(1);
        work.suspect = true;
        let token = Token { key: id, nonce };
        let item: WorkItem = match from_json(&work.json) {
            Ok(item) => item,
            Err(cause) => {
                self.apply(now, &[Call::AsideWork { token, cause }]);
                return None;
            }
        };
        let orchestration = self.keys.get(&work.row.instance).and_then(|key| self.instances.get(key));
        let orchestration = orchestration.map(|instance| OrchestrationRef {
            name: instance.row.name.clone(),
            version: instance.row.version.clone(),
        });
        let session = work.row.place.session_id.clone();
        let fetched = FetchedWork {
            item,
            lock_token: token.text(),
            attempts: u32::try_from(work.row.attempts).unwrap_or(u32::MAX),
            forgiven: work.forgiven,
            suspect,
            expired,
            orchestration,
            progress: work.progress.clone(),
            last_cause: work.bounce.as_ref().and_then(|(_, cause)| BounceCause::from_stored(cause)),
        };
        if let (Some(session_id), Some(config)) = (session, &request.session) {
            self.claim_session(now, session_id, config, until);
        }
        Some(fetched)
    }
}

impl Instance {
    pub(super) fn pinned(&self) -> Option<i64> {
        (self.row.pinned_key != NOT_PINNED).then_some(self.row.pinned_key)
    }

    /// The handler that its next turn needs. A cancel needs none.
    pub(super) fn needed_route(&self) -> Route {
        if self.row.cancelled { Route::AnyNode } else { self.route.clone() }
    }

    pub(super) fn current(&self) -> Option<&Execution> {
        self.executions.get(&self.row.current_execution_id)
    }

    pub(super) fn parent(&self) -> Option<ParentLink> {
        let row = &self.row;
        let (execution_id, event_id) = (row.parent_execution_id, row.parent_event_id);
        ParentLink::from_fields(
            row.parent_instance.as_deref(),
            execution_id.map(from_column),
            event_id.map(from_column),
        )
    }

    fn candidate(&self) -> Option<Candidate> {
        let (id, suspect) = (self.row.key, self.row.suspect);
        Some(Candidate { id, suspect, ready_at: self.row.ready_at?, open_from: Ms::MIN })
    }

    fn suits(&self, request: &TurnRequest) -> bool {
        can_replay(request.filter.as_ref(), self.pinned())
            && request.handlers.as_deref().is_none_or(|handlers| handlers.has(&self.needed_route()))
    }

    fn stored_history(&self) -> HeldHistory {
        HeldHistory {
            incarnation: self.row.incarnation,
            execution_id: self.row.current_execution_id,
            last_event_id: self.current().map_or(0, |execution| execution.row.last_event_id),
        }
    }

    fn history_to_read(&self, request: &TurnRequest) -> HistorySize {
        let stored = self.stored_history();
        if request.held.held(&self.row.instance) == Some(stored) {
            return HistorySize::NOTHING;
        }
        let bytes = self.current().map_or(0, |execution| from_column(execution.row.history_bytes));
        HistorySize { events: stored.last_event_id, bytes }
    }

    /// The bytes of the message that a fetch brings first.
    pub(super) fn first_message_bytes(&self, now: Ms) -> usize {
        let first = self.inbox.first_key_value().filter(|((visible_at, _), _)| *visible_at <= now);
        first.map_or(0, |(_, message)| message.json.len())
    }

    /// The visible messages, as many as one fetch brings.
    fn admit(&self, now: Ms, room: &mut ByteRoom) -> Admitted {
        let mut admitted = Admitted::default();
        let visible = self.inbox.iter().take_while(|((visible_at, _), _)| *visible_at <= now);
        for (&(visible_at, position), message) in visible {
            if admitted.stay == limits::MAX_MESSAGES_PER_FETCH || !room.fits(message.json.len()) {
                break;
            }
            admitted.last = Some((visible_at, position));
            match from_json(&message.json) {
                Ok(item) => admitted.items.push(item),
                Err(cause) if message.kind.when_undecodable() == WhenUndecodable::SetAside => {
                    admitted.aside.push(AsideMessage { key: self.row.key, visible_at, position, cause });
                    continue;
                }
                Err(cause) => {
                    let text = format!("message at position {}: {cause}", admitted.stay + 1);
                    admitted.error.get_or_insert(text);
                }
            }
            room.take(message.json.len());
            admitted.stay += 1;
            admitted.attempts = admitted.attempts.max(message.attempts.saturating_add(1));
        }
        admitted
    }

    fn turn(
        &self,
        now: Ms,
        request: &TurnRequest,
        error: Option<String>,
        messages: Vec<WorkItem>,
    ) -> FetchedTurn {
        let stored = self.stored_history();
        let held = error.is_none() && request.held.held(&self.row.instance) == Some(stored);
        let part = if held { HistoryPart::Held } else { HistoryPart::Whole };
        let history = if held || error.is_some() { Ok(Vec::new()) } else { self.events() };
        let kv = if held { HashMap::new() } else { self.kv.clone().into_iter().collect() };
        FetchedTurn {
            item: OrchestrationItem {
                instance: self.row.instance.clone(),
                orchestration_name: self.row.name.clone(),
                execution_id: self.row.current_execution_id,
                version: self.row.version.clone(),
                history_error: error.or(history.as_ref().err().cloned()),
                history: history.unwrap_or_default(),
                messages,
                kv_snapshot: kv,
            },
            lock_token: String::new(),
            attempts: 0,
            facts: Some(TurnFacts {
                now_ms: from_column(now),
                suspect: false,
                expired: None,
                incarnation: self.row.incarnation,
                created_at_ms: from_column(self.row.created_at),
                last_event_id: stored.last_event_id,
                parent: self.parent(),
                history: part,
                last_cause: self.bounce.as_ref().and_then(|(_, cause)| BounceCause::from_stored(cause)),
            }),
        }
    }

    fn events(&self) -> Result<Vec<Event>, String> {
        let stored = self.current().into_iter().flat_map(|execution| &execution.history);
        let decoded = stored
            .map(|(id, json)| from_json(json).map_err(|cause| format!("event at position {id}: {cause}")));
        decoded.collect()
    }

    /// How many timers are in its inbox.
    pub(super) fn timer_count(&self) -> usize {
        self.inbox.values().filter(|message| message.kind == ItemKind::Timer).count()
    }
}

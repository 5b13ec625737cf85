//! Work items: activities to run.

use std::collections::BTreeMap;
use std::time::Duration;

use duroxide_core::{AppErrorKind, ErrorDetails, ItemKind, WorkItem, columns_of};

use super::messages::check_message;
use super::ready::Pick;
use super::rows::{KeptCause, Ms, Stored, Suspicion, WorkKey, WorkLock, WorkRoute, WorkRow, expired, to_ms};
use super::state::{State, check_instance, invalid};
use super::turns::Fetched;
use crate::clock::millis;
use crate::room::ByteRoom;
use crate::stored_bytes::stored_bytes;
use crate::{FetchedWork, GiveBack, OrchestrationRef, ProviderError, WaitingByTag, WorkRequest};

/// Checks that an item belongs into the worker queue.
pub(super) fn check_work(operation: &str, item: &WorkItem) -> Result<(), ProviderError> {
    check_instance(operation, item)?;
    match columns_of(item).kind {
        ItemKind::Activity => Ok(()),
        ItemKind::Start
        | ItemKind::ContinueAsNew
        | ItemKind::Completion
        | ItemKind::Timer
        | ItemKind::Event
        | ItemKind::Note
        | ItemKind::Cancel => Err(invalid(operation, "only an activity belongs into the worker queue")),
    }
}

fn check_completion(operation: &str, item: &WorkItem) -> Result<(), ProviderError> {
    check_message(operation, item)?;
    match columns_of(item).kind {
        ItemKind::Completion => Ok(()),
        ItemKind::Start
        | ItemKind::ContinueAsNew
        | ItemKind::Activity
        | ItemKind::Timer
        | ItemKind::Event
        | ItemKind::Note
        | ItemKind::Cancel => Err(invalid(operation, "the item is not a completion")),
    }
}

impl State {
    pub(super) fn enqueue_for_worker(&mut self, now: Ms, item: WorkItem) -> Result<(), ProviderError> {
        check_work("enqueue_for_worker", &item)?;
        self.put_work(now, item);
        Ok(())
    }

    /// Queues a checked activity; one that is queued already stays as it is.
    pub(super) fn put_work(&mut self, now: Ms, item: WorkItem) {
        let columns = columns_of(&item);
        let key = WorkKey {
            instance: columns.instance.to_string(),
            execution_id: columns.execution_id.unwrap_or(0),
            event_id: columns.event_id.unwrap_or(0),
        };
        if self.work_by_key.contains_key(&key) {
            return;
        }
        let seq = self.next_number();
        let route = WorkRoute {
            session_id: columns.session_id.map(str::to_string),
            tag: columns.tag.map(str::to_string),
            name: columns.name.unwrap_or_default().to_string(),
        };
        if let Some(session) = &route.session_id {
            *self.queued_by_session.entry(session.clone()).or_default() += 1;
        }
        let row = WorkRow {
            key: key.clone(),
            route,
            attempts: 0,
            forgiven: 0,
            queued_at: now,
            visible_at: now,
            delayed: false,
            suspicion: Suspicion::Clean,
            lock: None,
            bounce: None,
            progress: None,
            item: Stored::Value(item),
            indexed: None,
        };
        self.work_by_key.insert(key, seq);
        self.work.insert(seq, row);
        self.reindex_work(seq);
    }

    pub(super) fn fetch_work(&mut self, now: Ms, request: &WorkRequest) -> Fetched<FetchedWork> {
        let mut items = Vec::new();
        let mut suspects = request.suspects;
        let mut bytes_left = ByteRoom::for_work();
        while items.len() < request.max_items.max(1) {
            let room = self.room_for_session(now, request);
            self.give_up_claims(now, request, suspects, room);
            let pick = self
                .ready_work
                .oldest(now, suspects.are_admitted(), |route| self.open_from(now, request, room, route));
            let (seq, suspect) = match pick {
                Pick::Ready { seq, suspect } => (seq, suspect),
                Pick::NotBefore(next) if items.is_empty() => {
                    let claim = self.next_claim_to_give_up(now, request, room);
                    return Fetched::NotBefore(next.into_iter().chain(claim).min());
                }
                Pick::NotBefore(_) => break,
            };
            let bytes = self.work_bytes(seq);
            if !bytes_left.fits(bytes) {
                break;
            }
            if let Some(item) = self.take_work(now, seq, request) {
                bytes_left.take(bytes);
                items.push(item);
                if suspect {
                    suspects = suspects.after_one();
                }
            }
        }
        // The last item may have used up the room.
        let room = self.room_for_session(now, request);
        self.give_up_claims(now, request, suspects, room);
        Fetched::Items(items)
    }

    /// The bytes that a fetch of a work item brings; 0 if it does not decode.
    pub(super) fn work_bytes(&self, seq: u64) -> usize {
        self.work.get(&seq).and_then(|row| row.item.value().ok()).map_or(0, stored_bytes)
    }

    /// Locks a work item that is ready. `None` when it had to be set aside.
    pub(super) fn take_work(&mut self, now: Ms, seq: u64, request: &WorkRequest) -> Option<FetchedWork> {
        let item = match self.work.get(&seq)?.item.value() {
            Ok(item) => item.clone(),
            Err(cause) => {
                let cause = cause.to_string();
                self.fail_undecodable(now, seq, &cause);
                return None;
            }
        };
        let token = self.new_token(seq);
        let row = self.work.get_mut(&seq)?;
        let suspect = row.suspicion.is_suspect();
        let expired = row.lock.as_ref().filter(|_| suspect).map(|lock| expired(lock.holder, lock.until));
        row.suspicion = row.suspicion.when_locked();
        row.attempts = row.attempts.saturating_add(1);
        let (attempts, forgiven, progress) = (row.attempts, row.forgiven, row.progress.clone());
        let last_cause = row.bounce.as_ref().map(|bounce| bounce.cause.clone());
        let until = now.saturating_add(to_ms(millis(request.lock_timeout)));
        row.lock = Some(WorkLock { token: token.clone(), holder: request.holder, until });
        if let (Some(session_id), Some(config)) = (row.route.session_id.clone(), &request.session) {
            self.claim_session(now, session_id, config, until);
        }
        self.reindex_work(seq);
        let orchestration = self
            .instances
            .get(item.instance())
            .map(|row| OrchestrationRef { name: row.name.clone(), version: row.version.clone() });
        Some(FetchedWork {
            item,
            lock_token: token,
            attempts,
            forgiven,
            suspect,
            expired,
            orchestration,
            progress,
            last_cause,
        })
    }

    /// Sets an undecodable work item aside and fails its activity, so that nobody waits for it in vain.
    fn fail_undecodable(&mut self, now: Ms, seq: u64, cause: &str) {
        let Some(row) = self.remove_work(seq) else { return };
        self.keep_aside(&row.key.instance, ItemKind::Activity, cause);
        let message =
            format!("the stored work item of activity '{}' cannot be decoded: {cause}", row.route.name);
        let failed = WorkItem::ActivityFailed {
            instance: row.key.instance,
            execution_id: row.key.execution_id,
            id: row.key.event_id,
            details: ErrorDetails::Application {
                kind: AppErrorKind::ActivityFailed,
                message,
                retryable: false,
            },
        };
        self.deliver(now, failed, None);
    }

    pub(super) fn ack_work(
        &mut self,
        now: Ms,
        token: &str,
        completion: Option<WorkItem>,
    ) -> Result<(), ProviderError> {
        const OPERATION: &str = "ack_work_item";
        let seq = self.holder_of_work(now, OPERATION, token)?;
        if let Some(completion) = &completion {
            check_completion(OPERATION, completion)?;
        }
        if let Some(row) = self.remove_work(seq) {
            self.note_activity(now, row.route.session_id.as_deref(), now);
        }
        if let Some(completion) = completion {
            self.deliver(now, completion, None);
        }
        Ok(())
    }

    pub(super) fn give_back_work(
        &mut self,
        now: Ms,
        token: &str,
        give_back: GiveBack,
    ) -> Result<(), ProviderError> {
        let GiveBack { delay, ignore_attempt, cause } = give_back;
        let seq = self.holder_of_work(now, "give_back_work", token)?;
        let Some(row) = self.work.get_mut(&seq) else { return Ok(()) };
        row.lock = None;
        row.suspicion = row.suspicion.when_abandoned(ignore_attempt);
        if ignore_attempt {
            row.attempts = row.attempts.saturating_sub(1);
        }
        if let Some(delay) = delay {
            row.visible_at = now.saturating_add(to_ms(millis(delay)));
            row.delayed = true;
        }
        if let Some(cause) = cause {
            row.bounce = Some(KeptCause { at: now, cause: cause.bounded() });
        }
        self.reindex_work(seq);
        Ok(())
    }

    pub(super) fn renew_work(
        &mut self,
        now: Ms,
        token: &str,
        extend_for: Duration,
    ) -> Result<(), ProviderError> {
        let seq = self.holder_of_work(now, "renew_work_item_lock", token)?;
        let Some(row) = self.work.get_mut(&seq) else { return Ok(()) };
        let until = now.saturating_add(to_ms(millis(extend_for)));
        if let Some(lock) = &mut row.lock {
            lock.until = until;
        }
        let session_id = row.route.session_id.clone();
        self.note_activity(now, session_id.as_deref(), until);
        self.reindex_work(seq);
        Ok(())
    }

    pub(super) fn waiting_by_tag(&self, now: Ms) -> Vec<WaitingByTag> {
        let mut by_tag: BTreeMap<Option<String>, (usize, Ms)> = BTreeMap::new();
        for row in self.work.values().filter(|row| row.lock.as_ref().is_none_or(|lock| lock.until <= now)) {
            let (waiting, oldest) = by_tag.entry(row.route.tag.clone()).or_insert((0, row.queued_at));
            *waiting += 1;
            *oldest = row.queued_at.min(*oldest);
        }
        let waiting = by_tag.into_iter().map(|(tag, (waiting, oldest))| {
            let age = u64::try_from(now.saturating_sub(oldest)).unwrap_or(0);
            WaitingByTag { tag, waiting, oldest_age: Duration::from_millis(age) }
        });
        waiting.collect()
    }

    pub(super) fn record_progress(
        &mut self,
        now: Ms,
        token: &str,
        details: String,
    ) -> Result<(), ProviderError> {
        let seq = self.holder_of_work(now, "record_progress", token)?;
        if let Some(row) = self.work.get_mut(&seq) {
            row.progress = Some(details);
        }
        Ok(())
    }

    pub(super) fn forgive_attempt(&mut self, now: Ms, token: &str) -> Result<(), ProviderError> {
        let seq = self.holder_of_work(now, "forgive_attempt", token)?;
        if let Some(row) = self.work.get_mut(&seq) {
            row.attempts = row.attempts.saturating_sub(1);
            row.forgiven = row.forgiven.saturating_add(1);
        }
        Ok(())
    }

    pub(super) fn lost_work(&self, now: Ms, tokens: &[String]) -> Vec<String> {
        let lost = |token: &&String| self.holder_of_work(now, "lost_work_items", token).is_err();
        tokens.iter().filter(lost).cloned().collect()
    }
}

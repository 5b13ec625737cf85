//! The sessions that a runtime owns.
//!
//! The store decides who owns a session, in the transaction of each fetch and by its own clock; nothing here is
//! believed in its place. This module only keeps claims alive while they are in use. Where the store cannot, it also
//! lets activities of one session run one at a time, and those of so many sessions at most.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedMutexGuard};
use tokio::time::Instant;

use super::RuntimeOptions;
use super::backoff::Backoff;
use super::keeper::LockTimes;
use super::node::Node;
use super::recent_sessions::RecentSessions;
use super::store_call::first_answer;
use crate::providers::{Provider, SessionFetchConfig, SessionLimits, SessionOverlap};

/// The sessions of one owner: this runtime.
pub(super) struct Sessions {
    owner: String,
    limits: SessionLimits,
    counted_by: CountedBy,
    state: Mutex<State>,
    first_used: Notify,
}

/// Who sees to it that activities of no more sessions run than may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CountedBy {
    /// The store hands out nothing else.
    Store,
    /// This runtime, for a store that knows no limits.
    Runtime,
}

/// How a fetch asks for activities of sessions.
pub(super) enum Asks {
    /// This runtime takes none.
    Never,
    /// It has no room for another session now.
    NotNow,
    For(SessionFetchConfig),
}

#[derive(Default)]
struct State {
    recent: RecentSessions,
    /// Whether this owner may have a live claim.
    claims: bool,
    gates: BTreeMap<String, Arc<tokio::sync::Mutex<()>>>,
    /// Sessions with fetched activities, and how many.
    running: BTreeMap<String, usize>,
}

impl Sessions {
    pub(super) fn new(owner: &str, options: &RuntimeOptions, store: &dyn Provider) -> Self {
        let overlap = if options.worker_node_id.is_some() {
            SessionOverlap::Parallel
        } else {
            SessionOverlap::OneAtATime
        };
        Self {
            owner: owner.to_string(),
            limits: SessionLimits { max_running: options.max_sessions_per_runtime, overlap },
            counted_by: if store.limits_sessions() { CountedBy::Store } else { CountedBy::Runtime },
            state: Mutex::default(),
            first_used: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn limits(&self) -> SessionLimits {
        self.limits
    }

    /// How a fetch asks for activities of sessions.
    pub(super) fn asks(&self, options: &RuntimeOptions) -> Asks {
        if self.limits.max_running == 0 {
            return Asks::Never;
        }
        if self.is_full(&self.lock()) {
            return Asks::NotNow;
        }
        Asks::For(SessionFetchConfig {
            owner_id: self.owner.clone(),
            lock_timeout: options.session_lock_timeout,
        })
    }

    /// Whether this runtime must see to it that no other session is begun.
    fn is_full(&self, state: &State) -> bool {
        match self.counted_by {
            CountedBy::Store => false,
            CountedBy::Runtime => state.running.len() >= self.limits.max_running,
        }
    }

    /// Notes that an activity of a session was fetched: its claim needs care from now on. `None` if there is no room
    /// for the session.
    pub(super) fn begin(self: &Arc<Self>, session_id: &str) -> Option<RunningSession> {
        let mut state = self.lock();
        state.recent.used(session_id);
        if !std::mem::replace(&mut state.claims, true) {
            self.first_used.notify_one();
        }
        if self.is_full(&state) && !state.running.contains_key(session_id) {
            return None;
        }
        *state.running.entry(session_id.to_string()).or_default() += 1;
        Some(RunningSession { sessions: self.clone(), session_id: session_id.to_string() })
    }

    /// Waits for the session's turn, if its activities run one at a time. A store that knows the limits hands out
    /// no second activity of a session; others do, and it waits here.
    pub(super) async fn enter(self: &Arc<Self>, session_id: &str) -> Option<SessionTurn> {
        match self.limits.overlap {
            SessionOverlap::Parallel => None,
            SessionOverlap::OneAtATime => {
                let gate = self.lock().gates.entry(session_id.to_string()).or_default().clone();
                let guard = gate.lock_owned().await;
                Some(SessionTurn {
                    sessions: self.clone(),
                    session_id: session_id.to_string(),
                    guard: Some(guard),
                })
            }
        }
    }
}

/// Held from the fetch of an activity of a session to its end.
pub(super) struct RunningSession {
    sessions: Arc<Sessions>,
    session_id: String,
}

impl Drop for RunningSession {
    fn drop(&mut self) {
        let mut state = self.sessions.lock();
        state.recent.used(&self.session_id);
        let Some(running) = state.running.get_mut(&self.session_id) else { return };
        *running -= 1;
        if *running == 0 {
            state.running.remove(&self.session_id);
        }
    }
}

/// Held while an activity of a session runs whose activities run one at a time.
pub(super) struct SessionTurn {
    sessions: Arc<Sessions>,
    session_id: String,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Drop for SessionTurn {
    fn drop(&mut self) {
        self.guard = None;
        let mut state = self.sessions.lock();
        // New ones wait under this lock only, so a gate with no other reference has nobody at it.
        if state.gates.get(&self.session_id).is_some_and(|gate| Arc::strong_count(gate) == 1) {
            state.gates.remove(&self.session_id);
        }
    }
}

/// Keeps the claims of this runtime alive while its sessions are used. Asks nothing of the store while it owns
/// none.
pub(super) async fn keep_claims(node: Arc<Node>) {
    let options = &node.options;
    let sessions = &node.sessions;
    let times = LockTimes::new(options.session_lock_timeout, options.session_lock_renewal_buffer);
    let mut backoff = Backoff::default();
    // The process that had this name before may have left claims behind.
    let mut renew_now = options.worker_node_id.is_some() && sessions.limits.max_running > 0;
    loop {
        if !renew_now {
            if !sessions.lock().claims {
                sessions.first_used.notified().await;
            }
            tokio::time::sleep(times.renew_after).await;
        }
        let (uses, idle_time) = {
            let recent = &sessions.lock().recent;
            (recent.uses(), recent.idle_time_kept(options.session_idle_timeout))
        };
        let owners = [sessions.owner.as_str()];
        let renew = || node.provider.renew_session_lock(&owners, options.session_lock_timeout, idle_time);
        let Some(renewed) = first_answer(times.ask_again_after(), || true, renew).await else { continue };
        match renewed {
            Ok(renewed) => {
                backoff.reset();
                renew_now = false;
                let mut state = sessions.lock();
                if renewed > 0 || state.recent.uses() == uses {
                    state.claims = renewed > 0;
                }
            }
            Err(error) => {
                node.store_failed("renewing sessions", &error);
                tokio::time::sleep(backoff.next()).await;
                renew_now = true;
            }
        }
    }
}

/// Removes orphaned sessions from time to time, once this runtime has had one.
pub(super) async fn remove_orphans(node: Arc<Node>) {
    let options = &node.options;
    let mut next = Instant::now() + options.session_cleanup_interval;
    loop {
        tokio::time::sleep_until(next).await;
        next = Instant::now() + options.session_cleanup_interval;
        if node.sessions.lock().recent.uses() == 0 {
            continue;
        }
        if let Err(error) = node.provider.cleanup_orphaned_sessions(options.session_idle_timeout).await {
            node.store_failed("removing orphaned sessions", &error);
        }
    }
}

/// Gives all claims up, for an owner that will not come back under its name.
pub(super) async fn give_up(node: &Node) {
    let sessions = &node.sessions;
    if node.options.worker_node_id.is_some() || !sessions.lock().claims {
        return;
    }
    let owners = [sessions.owner.as_str()];
    let now = std::time::Duration::ZERO;
    let given_up = node.provider.renew_session_lock(&owners, now, node.options.session_idle_timeout).await;
    if let Err(error) = given_up {
        node.store_failed("giving sessions up", &error);
    }
}

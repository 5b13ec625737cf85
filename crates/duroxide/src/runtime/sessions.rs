//! The sessions that a runtime owns.
//!
//! The store decides who owns a session, in the transaction of each fetch and by its own clock; nothing here is
//! believed in its place. This module only keeps claims alive while they are in use, and lets activities of one
//! session run one at a time where the store cannot.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedMutexGuard};
use tokio::time::Instant;

use super::RuntimeOptions;
use super::backoff::OutageBackoff;
use super::insist::first_answer;
use super::keeper::LockTimes;
use super::node::Node;
use crate::providers::{SessionFetchConfig, SessionLimits, SessionOverlap};

/// The sessions of one owner: this runtime.
pub(super) struct Sessions {
    owner: String,
    limits: SessionLimits,
    state: Mutex<State>,
    first_used: Notify,
}

#[derive(Default)]
struct State {
    /// Counts fetched activities of sessions.
    uses: u64,
    /// Whether this owner may have a live claim.
    claims: bool,
    gates: BTreeMap<String, Arc<tokio::sync::Mutex<()>>>,
}

impl Sessions {
    pub(super) fn new(owner: &str, options: &RuntimeOptions) -> Self {
        let overlap = if options.worker_node_id.is_some() {
            SessionOverlap::Parallel
        } else {
            SessionOverlap::OneAtATime
        };
        let limits = SessionLimits { max_owned: options.max_sessions_per_runtime, overlap };
        Self { owner: owner.to_string(), limits, state: Mutex::default(), first_used: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn limits(&self) -> SessionLimits {
        self.limits
    }

    /// What a fetch says about sessions; `None` if this runtime takes none.
    pub(super) fn config(&self, options: &RuntimeOptions) -> Option<SessionFetchConfig> {
        (self.limits.max_owned > 0).then(|| SessionFetchConfig {
            owner_id: self.owner.clone(),
            lock_timeout: options.session_lock_timeout,
        })
    }

    /// Notes that an activity of a session was fetched: its claim needs care from now on.
    pub(super) fn used(&self) {
        let mut state = self.lock();
        state.uses += 1;
        if !std::mem::replace(&mut state.claims, true) {
            self.first_used.notify_one();
        }
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
    let mut outage = OutageBackoff::default();
    // The process that had this name before may have left claims behind.
    let mut renew_now = options.worker_node_id.is_some() && sessions.limits.max_owned > 0;
    loop {
        if !renew_now {
            if !sessions.lock().claims {
                sessions.first_used.notified().await;
            }
            tokio::time::sleep(times.renew_after).await;
        }
        let uses = sessions.lock().uses;
        let owners = [sessions.owner.as_str()];
        let renew = || {
            node.provider.renew_session_lock(
                &owners,
                options.session_lock_timeout,
                options.session_idle_timeout,
            )
        };
        let Some(renewed) = first_answer(times.ask_again_after(), || true, renew).await else { continue };
        match renewed {
            Ok(renewed) => {
                outage.reset();
                renew_now = false;
                let mut state = sessions.lock();
                if renewed > 0 || state.uses == uses {
                    state.claims = renewed > 0;
                }
            }
            Err(error) => {
                node.store_failed("renewing sessions", &error);
                tokio::time::sleep(outage.next()).await;
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
        if node.sessions.lock().uses == 0 {
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

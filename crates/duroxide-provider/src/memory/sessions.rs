//! Sessions: who owns them, and which of their work items an owner may take.

use std::time::Duration;

use super::rows::{Ms, SessionRow, WorkRoute, to_ms};
use super::state::State;
use crate::clock::millis;
use crate::{SessionFetchConfig, SessionOverlap, Suspects, WorkRequest};

/// Whether an owner may begin with a session that has nothing in progress.
#[derive(Debug, Clone, Copy)]
pub(super) enum Room {
    /// It takes no work items of sessions.
    NoSessions,
    /// It may.
    Free,
    /// As many of its sessions as it allows have something in progress: until then, if no lock is renewed.
    Full { until: Option<Ms> },
}

impl State {
    pub(super) fn room_for_session(&self, now: Ms, request: &WorkRequest) -> Room {
        let Some(config) = &request.session else { return Room::NoSessions };
        let mut ends: Vec<Ms> = Vec::new();
        for session_id in self.locked_by_session.keys() {
            let owned = self.owned_session(now, config, session_id).is_some();
            ends.extend(self.running_until(now, session_id).filter(|_| owned));
        }
        if ends.len() < request.session_limits.max_running {
            Room::Free
        } else {
            Room::Full { until: ends.into_iter().min() }
        }
    }

    /// The live claim of the owner that asks, if it has one.
    fn owned_session(&self, now: Ms, config: &SessionFetchConfig, session_id: &str) -> Option<&SessionRow> {
        let is_owned = |session: &&SessionRow| now < session.locked_until && session.owner == config.owner_id;
        self.sessions.get(session_id).filter(is_owned)
    }

    /// Until when an activity of the session is in progress, unless its lock is renewed.
    fn running_until(&self, now: Ms, session_id: &str) -> Option<Ms> {
        let locked = self.locked_by_session.get(session_id)?;
        locked.values().copied().max().filter(|until| now < *until)
    }

    /// From when on a worker may take items of this route.
    pub(super) fn open_from(
        &self,
        now: Ms,
        request: &WorkRequest,
        room: Room,
        route: &WorkRoute,
    ) -> Option<Ms> {
        if !accepts(request, route) {
            return None;
        }
        let Some(session_id) = &route.session_id else { return Some(Ms::MIN) };
        let config = request.session.as_ref()?;
        let claim = self.sessions.get(session_id).filter(|session| now < session.locked_until);
        match (claim, self.running_until(now, session_id)) {
            (Some(session), _) if session.owner != config.owner_id => Some(session.locked_until),
            (Some(_), Some(until)) => match request.session_limits.overlap {
                SessionOverlap::Parallel => Some(Ms::MIN),
                SessionOverlap::OneAtATime => Some(until),
            },
            // What is locked without a claim is not run, but ended by a sweep.
            (Some(_), None) | (None, _) => match room {
                Room::NoSessions => None,
                Room::Free => Some(Ms::MIN),
                Room::Full { until } => until,
            },
        }
    }

    /// Gives up the claims of an owner without room on idle sessions that wait for it.
    pub(super) fn give_up_claims(&mut self, now: Ms, request: &WorkRequest, suspects: Suspects, room: Room) {
        let waiting: Vec<String> = match room {
            Room::NoSessions | Room::Free => return,
            Room::Full { .. } => {
                let ready = self.ready_work.ready_keys(now, suspects.are_admitted());
                let waiting = ready.filter(|route| self.is_idle_claim(now, request, route));
                waiting.filter_map(|route| route.session_id.clone()).collect()
            }
        };
        for session_id in waiting {
            if let Some(session) = self.sessions.get_mut(&session_id) {
                session.locked_until = now;
                self.wakes.work = true;
            }
        }
    }

    /// When an idle session of an owner without room will next have something for it.
    pub(super) fn next_claim_to_give_up(&self, now: Ms, request: &WorkRequest, room: Room) -> Option<Ms> {
        match room {
            Room::NoSessions | Room::Free => None,
            Room::Full { .. } => {
                self.ready_work.next_ready(now, |route| self.is_idle_claim(now, request, route))
            }
        }
    }

    /// Whether the route belongs to an idle session of the owner that asks, which it would take work of.
    fn is_idle_claim(&self, now: Ms, request: &WorkRequest, route: &WorkRoute) -> bool {
        let (Some(config), Some(session_id)) = (&request.session, &route.session_id) else { return false };
        accepts(request, route)
            && self.owned_session(now, config, session_id).is_some()
            && self.running_until(now, session_id).is_none()
    }

    /// A claim lasts at least as long as the lock of any item of its session.
    pub(super) fn claim_session(
        &mut self,
        now: Ms,
        session_id: String,
        config: &SessionFetchConfig,
        item_locked_until: Ms,
    ) {
        let locked_until = now.saturating_add(to_ms(millis(config.lock_timeout))).max(item_locked_until);
        let claim = SessionRow { owner: config.owner_id.clone(), locked_until, last_activity_at: now };
        let session = self.sessions.entry(session_id).or_insert_with(|| claim.clone());
        if session.locked_until <= now {
            *session = claim;
        } else {
            session.last_activity_at = now;
            session.locked_until = session.locked_until.max(item_locked_until);
        }
    }

    pub(super) fn note_activity(&mut self, now: Ms, session_id: Option<&str>, item_locked_until: Ms) {
        if let Some(session) = session_id.and_then(|session_id| self.sessions.get_mut(session_id)) {
            session.last_activity_at = now;
            session.locked_until = session.locked_until.max(item_locked_until);
        }
    }

    pub(super) fn renew_sessions(
        &mut self,
        now: Ms,
        owners: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> usize {
        let idle = to_ms(millis(idle_timeout));
        let mut renewed = 0;
        for (id, session) in &mut self.sessions {
            let live = now < session.locked_until && owners.contains(&session.owner.as_str());
            if live && session.last_activity_at.saturating_add(idle) >= now {
                let items = self.locked_by_session.get(id).and_then(|items| items.values().copied().max());
                let until = now.saturating_add(to_ms(millis(extend_for)));
                session.locked_until = until.max(items.unwrap_or(until));
                renewed += 1;
            }
        }
        renewed
    }

    pub(super) fn cleanup_sessions(&mut self, now: Ms) -> usize {
        let before = self.sessions.len();
        let queued = &self.queued_by_session;
        self.sessions.retain(|id, session| now < session.locked_until || queued.contains_key(id));
        before - self.sessions.len()
    }
}

/// Whether the worker runs activities of this name and tag.
fn accepts(request: &WorkRequest, route: &WorkRoute) -> bool {
    let known = request.activities.as_ref().is_none_or(|names| names.contains(&route.name));
    known && request.tags.matches(route.tag.as_deref())
}

//! Sessions: which owner may take which of their work items.

use std::time::Duration;

use super::tables::{Session, Tables};
use crate::rules::Place;
use crate::rules::values::{Ms, after, duration};
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

impl Tables {
    pub(super) fn room_for_session(&self, now: Ms, request: &WorkRequest) -> Room {
        let Some(config) = &request.session else { return Room::NoSessions };
        let owned = self.sessions.iter().filter(|(_, session)| session.is_of(config, now));
        let ends: Vec<Ms> = owned.filter_map(|(id, _)| self.running_until(now, id)).collect();
        if ends.len() < request.session_limits.max_running {
            Room::Free
        } else {
            Room::Full { until: ends.into_iter().min() }
        }
    }

    /// The end of the last lock of a session's work items.
    fn locked_until(&self, session_id: &str) -> Option<Ms> {
        let its = self.work.values().filter(|work| work.row.place.session_id.as_deref() == Some(session_id));
        its.filter(|work| work.row.nonce.is_some()).map(|work| work.row.ready_at).max()
    }

    /// Until when an activity of the session is in progress, unless its lock is renewed.
    fn running_until(&self, now: Ms, session_id: &str) -> Option<Ms> {
        self.locked_until(session_id).filter(|until| now < *until)
    }

    /// From when on a worker may take items of this place.
    pub(super) fn open_from(&self, now: Ms, request: &WorkRequest, room: Room, place: &Place) -> Option<Ms> {
        if !accepts(request, place) {
            return None;
        }
        let Some(session_id) = &place.session_id else { return Some(Ms::MIN) };
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
        let Room::Full { .. } = room else { return };
        let ready = self.work.values().filter(|work| {
            work.row.ready_at <= now
                && (!work.suspect || suspects.are_admitted())
                && self.is_idle_claim(now, request, &work.row.place)
        });
        let waiting: Vec<String> = ready.filter_map(|work| work.row.place.session_id.clone()).collect();
        for session_id in waiting {
            if let Some(session) = self.sessions.get_mut(&session_id) {
                session.locked_until = now;
                self.effects(now).work_ready(now);
            }
        }
    }

    /// When an idle session of an owner without room will next have something for it.
    pub(super) fn next_claim_to_give_up(&self, now: Ms, request: &WorkRequest, room: Room) -> Option<Ms> {
        let Room::Full { .. } = room else { return None };
        let idle = self.work.values().filter(|work| self.is_idle_claim(now, request, &work.row.place));
        idle.map(|work| work.row.ready_at).filter(|at| *at > now).min()
    }

    fn is_idle_claim(&self, now: Ms, request: &WorkRequest, place: &Place) -> bool {
        let (Some(config), Some(session_id)) = (&request.session, &place.session_id) else { return false };
        accepts(request, place)
            && self.sessions.get(session_id).is_some_and(|session| session.is_of(config, now))
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
        let locked_until = after(now, config.lock_timeout).max(item_locked_until);
        let claim = Session { owner: config.owner_id.clone(), locked_until, last_activity_at: now };
        let session = self.sessions.entry(session_id).or_insert_with(|| claim.clone());
        if session.locked_until <= now {
            *session = claim;
        } else {
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
        let idle = duration(idle_timeout);
        let live = self.sessions.iter().filter(|(_, session)| {
            now < session.locked_until
                && owners.contains(&session.owner.as_str())
                && session.last_activity_at.saturating_add(idle) >= now
        });
        let renewed: Vec<String> = live.map(|(id, _)| id.clone()).collect();
        for id in &renewed {
            let until = after(now, extend_for);
            let items = self.locked_until(id);
            if let Some(session) = self.sessions.get_mut(id) {
                session.locked_until = until.max(items.unwrap_or(until));
            }
        }
        renewed.len()
    }

    pub(super) fn cleanup_sessions(&mut self, now: Ms) -> usize {
        let before = self.sessions.len();
        let queued = |id: &str| self.work.values().any(|one| one.row.place.session_id.as_deref() == Some(id));
        let mut sessions = std::mem::take(&mut self.sessions);
        sessions.retain(|id, session| now < session.locked_until || queued(id));
        self.sessions = sessions;
        before - self.sessions.len()
    }
}

impl Session {
    /// Whether this owner has a live claim on it.
    fn is_of(&self, config: &SessionFetchConfig, now: Ms) -> bool {
        now < self.locked_until && self.owner == config.owner_id
    }
}

/// Whether the worker runs activities of this name and tag.
fn accepts(request: &WorkRequest, place: &Place) -> bool {
    let known = request.activities.as_ref().is_none_or(|names| names.contains(&place.name));
    known && request.tags.matches((!place.tag.is_empty()).then_some(place.tag.as_str()))
}

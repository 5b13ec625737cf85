//! Which sessions were used last: only so many claims are kept alive.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use duroxide_core::limits::MAX_KEPT_SESSIONS;
use tokio::time::Instant;

/// The sessions that were used last, at most [`MAX_KEPT_SESSIONS`].
#[derive(Debug, Default)]
pub(super) struct RecentSessions {
    uses: u64,
    /// By the number of their last use.
    by_use: BTreeMap<u64, Use>,
    last_use: HashMap<String, u64>,
    /// When the session that made room last was used.
    dropped: Option<Instant>,
}

#[derive(Debug)]
struct Use {
    session_id: String,
    at: Instant,
}

impl RecentSessions {
    /// Notes that a session is used now.
    pub(super) fn used(&mut self, session_id: &str) {
        self.uses += 1;
        if let Some(before) = self.last_use.insert(session_id.to_string(), self.uses) {
            self.by_use.remove(&before);
        }
        self.by_use.insert(self.uses, Use { session_id: session_id.to_string(), at: Instant::now() });
        if self.by_use.len() > MAX_KEPT_SESSIONS
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.last_use.remove(&oldest.session_id);
            self.dropped = Some(oldest.at);
        }
    }

    /// How often a session was used.
    pub(super) fn uses(&self) -> u64 {
        self.uses
    }

    /// For how long a session may have been idle whose claim is kept: shorter than `idle_timeout` when more sessions
    /// than can be kept were used within it.
    pub(super) fn idle_time_kept(&self, idle_timeout: Duration) -> Duration {
        self.dropped.map_or(idle_timeout, |at| at.elapsed().min(idle_timeout))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(300);

    #[tokio::test(start_paused = true)]
    async fn the_sessions_used_last_are_kept_however_many_there_are() {
        let mut sessions = RecentSessions::default();
        for n in 0..MAX_KEPT_SESSIONS {
            sessions.used(&n.to_string());
            sessions.used(&n.to_string());
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(sessions.idle_time_kept(IDLE), IDLE, "no more than can be kept");
        sessions.used("0");
        sessions.used("one more");
        let used_after_session_1 =
            Duration::from_millis(u64::try_from(MAX_KEPT_SESSIONS).expect("small") - 1);
        assert_eq!(sessions.idle_time_kept(IDLE), used_after_session_1, "session 1 was used longest ago");
        assert_eq!(sessions.by_use.len(), MAX_KEPT_SESSIONS);
        assert_eq!(sessions.last_use.len(), MAX_KEPT_SESSIONS);
        tokio::time::advance(IDLE).await;
        assert_eq!(sessions.idle_time_kept(IDLE), IDLE, "what was dropped then has idled out by now");
    }
}

//! The way to a store, which can be cut.

use tokio::sync::watch;

use super::Method;

/// The way to a store. Clones are the same line: everybody on it is cut off together.
#[derive(Debug, Clone)]
pub struct Line {
    state: watch::Sender<State>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Cut,
    CutForCommits,
}

impl State {
    fn stops(self, method: Method) -> bool {
        match self {
            Self::Open => false,
            Self::Cut => true,
            Self::CutForCommits => method.is_of_holder(),
        }
    }
}

impl Default for Line {
    fn default() -> Self {
        Self { state: watch::Sender::new(State::Open) }
    }
}

impl Line {
    /// From now on no call succeeds; those that wait fail.
    pub fn cut(&self) {
        self.state.send_replace(State::Cut);
    }

    /// From now on fetches and enqueues succeed, but nothing that commits, renews or gives back what was fetched.
    pub fn cut_commits(&self) {
        self.state.send_replace(State::CutForCommits);
    }

    /// From now on calls succeed again.
    pub fn mend(&self) {
        self.state.send_replace(State::Open);
    }

    /// Whether a call cannot get through now.
    pub fn stops(&self, method: Method) -> bool {
        self.state.borrow().stops(method)
    }

    /// Resolves when a call can no longer get through.
    pub(super) async fn stopped(&self, method: Method) {
        // The sender lives as long as this line, so that waiting ends only with the state.
        let waited = self.state.subscribe().wait_for(|state| state.stops(method)).await.is_ok();
        debug_assert!(waited, "a line outlives those that wait on it");
    }
}

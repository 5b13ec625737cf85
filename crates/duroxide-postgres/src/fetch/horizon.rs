//! Where a look begins.
//!
//! A row of a queue leaves a dead entry in an index whenever it changes. While a transaction somewhere in the database
//! keeps a snapshot, no vacuum may remove the entries that are younger, and a look that began with the first entry would
//! visit all of them. So a look begins where the last look for the same request found the first row that it left: its
//! horizon. Every way in which a row gets behind the horizon is known or found in time:
//!
//! - What this process writes lowers the horizon before the next look, whether or not the commit succeeds.
//! - What another process writes comes with a notification, which says how far back the rows are ready.
//! - Everything else (a notification that was lost, rows written by hand) is found by [`crate::fetch::behind`], which reads all
//!   entries on a connection of its own, as often as that is cheap.
//!
//! A fetch that does not wait begins with the first entry: it must find what any other process has committed before.

use std::collections::BTreeSet;

use crate::values::{Ms, NEVER};

/// Before the first entry of any index.
const BEGINNING: Ms = Ms::MIN;

/// Different requests remembered at most: a node makes two or three.
const MAX_REQUESTS: usize = 8;

/// Different versions remembered at most. A store has executions of a few; with more, every look finds them anew.
const MAX_VERSIONS: usize = 64;

/// What most transactions need at most from their time to their commit. The row of one that needs longer may get behind
/// the horizon.
const COMMIT_TIME_MS: Ms = 100;

/// No row is ready before this time: one bound for clean rows, one for suspects, which stand apart in the indexes. The
/// second is mostly later than the first, because a suspect is ready when a lock expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) clean: Ms,
    pub(crate) suspect: Ms,
}

impl Bounds {
    /// Nothing is known.
    pub(crate) const UNKNOWN: Self = Self { clean: BEGINNING, suspect: BEGINNING };
    /// There is no row.
    pub(crate) const NO_ROWS: Self = Self { clean: NEVER, suspect: NEVER };

    /// What a look at `now` left: the first clean row and the first suspect that it did not take, if there were any as far
    /// ahead as it saw.
    ///
    /// The locks of many short turns leave entries that lie in the future. So the horizon lies ahead, too, but not farther
    /// than other processes write without a notification.
    pub(crate) fn left(clean: Option<Ms>, suspect: Option<Ms>, now: Ms, silent: Silence) -> Self {
        let bound = |first: Option<Ms>, silence: Ms| {
            let last = now.saturating_add(silence.saturating_sub(COMMIT_TIME_MS).max(0));
            first.map_or(last, |first| first.min(last))
        };
        Self { clean: bound(clean, silent.clean), suspect: bound(suspect, silent.suspect) }
    }

    /// A row is ready at `at`.
    pub(crate) fn include(&mut self, suspect: bool, at: Ms) {
        let bound = if suspect { &mut self.suspect } else { &mut self.clean };
        *bound = at.min(*bound);
    }

    /// The bounds of all rows of both.
    pub(crate) fn lower(&mut self, other: Self) {
        self.clean = self.clean.min(other.clean);
        self.suspect = self.suspect.min(other.suspect);
    }
}

/// For how long from now on, in ms, nothing is ready that another process writes without a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Silence {
    pub(crate) clean: Ms,
    /// As long as a lock lasts.
    pub(crate) suspect: Ms,
}

/// What a transaction wrote, or other transactions did: how far back its rows are ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WrittenRows {
    pub(crate) turns: Bounds,
    pub(crate) work: Bounds,
    /// The packed versions of the executions among them.
    pub(crate) versions: BTreeSet<i64>,
}

impl Default for WrittenRows {
    fn default() -> Self {
        Self { turns: Bounds::NO_ROWS, work: Bounds::NO_ROWS, versions: BTreeSet::new() }
    }
}

impl WrittenRows {
    pub(crate) fn turn(&mut self, version: i64, suspect: bool, ready_at: Option<Ms>) {
        if let Some(at) = ready_at {
            self.turns.include(suspect, at);
            self.versions.insert(version);
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.turns.lower(other.turns);
        self.work.lower(other.work);
        self.versions.extend(&other.versions);
    }

    /// As a notification says it; empty if it cannot say it.
    pub(crate) fn text(&self) -> String {
        if self.versions.len() > MAX_VERSIONS {
            return String::new();
        }
        let Self { turns, work, versions } = self;
        let bounds = [turns.clean, turns.suspect, work.clean, work.suspect];
        let numbers: Vec<String> = bounds.iter().chain(versions).map(Ms::to_string).collect();
        format!("@{}", numbers.join(","))
    }

    /// What a notification says; `None` if it does not say it.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let (_, numbers) = text.split_once('@')?;
        let numbers: Option<Vec<Ms>> = numbers.split(',').map(|number| number.parse().ok()).collect();
        let numbers = numbers?;
        let [turns_clean, turns_suspect, work_clean, work_suspect, versions @ ..] = numbers.as_slice() else {
            return None;
        };
        Some(Self {
            turns: Bounds { clean: *turns_clean, suspect: *turns_suspect },
            work: Bounds { clean: *work_clean, suspect: *work_suspect },
            versions: versions.iter().copied().collect(),
        })
    }
}

/// The horizons of the requests that were made lately.
pub(crate) struct Horizons<R>(Vec<(R, Bounds)>);

impl<R> Default for Horizons<R> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<R: crate::group::parked::Request> Horizons<R> {
    /// Where a look for this request begins.
    pub(crate) fn of(&self, request: &R) -> Bounds {
        let known = self.0.iter().find(|(asked, _)| asked.same_question(request));
        known.map_or(Bounds::UNKNOWN, |(_, bounds)| *bounds)
    }

    /// A look for this request left nothing before these.
    pub(crate) fn note(&mut self, request: &R, bounds: Bounds) {
        self.0.retain(|(asked, _)| !asked.same_question(request));
        if self.0.len() == MAX_REQUESTS {
            self.0.remove(0);
        }
        self.0.push((request.clone(), bounds));
    }

    /// Rows were written that are ready from these times on.
    pub(crate) fn lower(&mut self, bounds: Bounds) {
        self.0.iter_mut().for_each(|(_, known)| known.lower(bounds));
    }

    /// Lowers the horizons behind which one of these rows stands. Whether there is one.
    pub(crate) fn lower_to_heads(&mut self, heads: &[Head<R::Class>]) -> bool {
        let mut lowered = false;
        for (request, known) in &mut self.0 {
            let before = *known;
            for head in heads.iter().filter(|head| request.may_take(head)) {
                known.include(head.suspect, head.ready_at);
            }
            lowered |= before != *known;
        }
        lowered
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }
}

/// The first row among those of one class and suspicion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head<C> {
    /// The packed version of the execution, or the tag of the work item.
    pub(crate) class: C,
    pub(crate) suspect: bool,
    pub(crate) ready_at: Ms,
}

/// The packed versions of the executions in the store, so that a look need not walk through the index to find them.
#[derive(Debug, Default)]
pub(crate) struct Versions(Option<BTreeSet<i64>>);

impl Versions {
    /// The versions, if they are known.
    pub(crate) fn known(&self) -> Option<Vec<i64>> {
        self.0.as_ref().map(|versions| versions.iter().copied().collect())
    }

    /// These are all.
    pub(crate) fn found(&mut self, versions: Vec<i64>) {
        // One that was written after the look is not among them.
        let all: BTreeSet<i64> = self.0.take().into_iter().flatten().chain(versions).collect();
        self.0 = (all.len() <= MAX_VERSIONS).then_some(all);
    }

    /// These exist, too.
    pub(crate) fn add(&mut self, versions: &BTreeSet<i64>) {
        if self.0.is_some() {
            self.found(versions.iter().copied().collect());
        }
    }

    pub(crate) fn forget(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_says_what_was_written() {
        let mut written = WrittenRows::default();
        written.turn(-1, false, Some(-5));
        written.turn(7, true, Some(1_700_000_000_000));
        written.turn(8, true, None);
        written.work.include(false, 12);
        let text = format!("tw{}", written.text());
        assert_eq!(text, "tw@-5,1700000000000,12,9223372036854775807,-1,7");
        assert_eq!(WrittenRows::from_text(&text), Some(written));
    }

    #[test]
    fn a_notification_without_bounds_says_nothing() {
        for text in ["tw", "", "t@", "tw@1,2,3", "tw@1,2,3,x"] {
            assert_eq!(WrittenRows::from_text(text), None, "{text:?}");
        }
        let versions = (0..100).collect();
        assert_eq!(WrittenRows { versions, ..WrittenRows::default() }.text(), "");
    }

    #[test]
    fn a_horizon_lies_ahead_as_far_as_others_write_nothing_silently() {
        let none = Silence { clean: 0, suspect: 0 };
        assert_eq!(Bounds::left(Some(50), None, 10, none), Bounds { clean: 10, suspect: 10 });
        assert_eq!(Bounds::left(Some(5), Some(-3), 10, none), Bounds { clean: 5, suspect: -3 });
        let both = Silence { clean: 1_000, suspect: 5_000 };
        assert_eq!(Bounds::left(Some(500), None, 10, both), Bounds { clean: 500, suspect: 4_910 });
        assert_eq!(Bounds::left(None, Some(6_000), 10, both), Bounds { clean: 910, suspect: 4_910 });
        assert_eq!(Bounds::left(None, Some(NEVER), NEVER, both), Bounds { clean: NEVER, suspect: NEVER });
    }

    #[test]
    fn more_versions_than_are_remembered_are_found_anew_each_time() {
        let mut versions = Versions::default();
        versions.add(&[1].into());
        assert_eq!(versions.known(), None, "others may exist");
        versions.found(vec![2]);
        versions.add(&[1].into());
        assert_eq!(versions.known(), Some(vec![1, 2]));
        versions.found((0..100).collect());
        assert_eq!(versions.known(), None);
    }
}

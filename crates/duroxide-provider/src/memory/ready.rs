//! The index that a fetch looks at: what is ready, by routing key, oldest first.

use std::collections::{BTreeMap, BTreeSet};

use super::rows::Ms;

/// Rows by routing key. The cost of a look is that of the distinct keys, whatever waits behind them.
#[derive(Debug)]
pub(super) struct ReadyIndex<K> {
    by_key: BTreeMap<K, Lanes>,
}

/// Clean rows and suspects of one key, each as (ready_at, seq).
#[derive(Debug, Default)]
struct Lanes {
    clean: BTreeSet<(Ms, u64)>,
    suspect: BTreeSet<(Ms, u64)>,
}

impl Lanes {
    fn lane(&mut self, suspect: bool) -> &mut BTreeSet<(Ms, u64)> {
        if suspect { &mut self.suspect } else { &mut self.clean }
    }
}

/// What a look at the index found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pick {
    /// The row to take.
    Ready { seq: u64, suspect: bool },
    /// Nothing before this time, or before something changes.
    NotBefore(Option<Ms>),
}

impl<K: Ord + Clone> ReadyIndex<K> {
    pub(super) fn new() -> Self {
        Self { by_key: BTreeMap::new() }
    }

    pub(super) fn insert(&mut self, key: &K, suspect: bool, ready_at: Ms, seq: u64) {
        // Most insertions meet a key that is there: no clone for those.
        if let Some(lanes) = self.by_key.get_mut(key) {
            lanes.lane(suspect).insert((ready_at, seq));
            return;
        }
        self.by_key.entry(key.clone()).or_default().lane(suspect).insert((ready_at, seq));
    }

    pub(super) fn remove(&mut self, key: &K, suspect: bool, ready_at: Ms, seq: u64) {
        let Some(lanes) = self.by_key.get_mut(key) else { return };
        lanes.lane(suspect).remove(&(ready_at, seq));
        if lanes.clean.is_empty() && lanes.suspect.is_empty() {
            self.by_key.remove(key);
        }
    }

    /// How many rows of each key are ready, of those keys that count.
    pub(super) fn count_ready(&self, now: Ms, counts: impl Fn(&K) -> bool) -> Vec<(K, usize)> {
        let ready = |lane: &BTreeSet<(Ms, u64)>| lane.range(..=(now, u64::MAX)).count();
        let counted = self.by_key.iter().filter(|(key, _)| counts(key));
        let counted = counted.map(|(key, lanes)| (key.clone(), ready(&lanes.clean) + ready(&lanes.suspect)));
        counted.filter(|(_, ready)| *ready > 0).collect()
    }

    /// The keys for which something is ready.
    pub(super) fn ready_keys(&self, now: Ms, admit_suspects: bool) -> impl Iterator<Item = &K> {
        let ready =
            move |lane: &BTreeSet<(Ms, u64)>| lane.first().is_some_and(|(ready_at, _)| *ready_at <= now);
        let any = move |lanes: &Lanes| ready(&lanes.clean) || (admit_suspects && ready(&lanes.suspect));
        self.by_key.iter().filter(move |(_, lanes)| any(lanes)).map(|(key, _)| key)
    }

    /// When the next row of these keys becomes ready.
    pub(super) fn next_ready(&self, now: Ms, counts: impl Fn(&K) -> bool) -> Option<Ms> {
        let after = (now, u64::MAX);
        let next = |lane: &BTreeSet<(Ms, u64)>| lane.range(after..).next().map(|(ready_at, _)| *ready_at);
        let counted = self.by_key.iter().filter(|(key, _)| counts(key));
        counted.flat_map(|(_, lanes)| [next(&lanes.clean), next(&lanes.suspect)]).flatten().min()
    }

    /// The row that has been ready longest. `open_from` says from when on a key may be taken, if ever.
    pub(super) fn oldest(&self, now: Ms, admit_suspects: bool, open_from: impl Fn(&K) -> Option<Ms>) -> Pick {
        let mut oldest: Option<((Ms, u64), bool)> = None;
        let mut next_due: Option<Ms> = None;
        for (key, lanes) in &self.by_key {
            let Some(open_from) = open_from(key) else { continue };
            let suspects = if admit_suspects { lanes.suspect.first() } else { None };
            for (entry, suspect) in [(lanes.clean.first(), false), (suspects, true)] {
                let Some(&(ready_at, seq)) = entry else { continue };
                let due = ready_at.max(open_from);
                if due > now {
                    next_due = Some(next_due.map_or(due, |next| next.min(due)));
                } else if oldest.is_none_or(|(first, _)| (ready_at, seq) < first) {
                    oldest = Some(((ready_at, seq), suspect));
                }
            }
        }
        match oldest {
            Some(((_, seq), suspect)) => Pick::Ready { seq, suspect },
            None => Pick::NotBefore(next_due),
        }
    }
}

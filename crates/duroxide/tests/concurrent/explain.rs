//! The search for an order of calls that gives the same answers on the store in memory.

use std::collections::BTreeSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

use duroxide::clock::ManualClock;
use duroxide::providers::memory::MemoryProvider;
use futures::FutureExt as _;

use super::calls::Call;
use super::session::{Session, Takes, instance_name, orchestration_of, start};
use super::{CLIENTS, Made, NOW_MS};

/// States that are looked at in one search.
const MOST_STATES: usize = 200_000;

/// What a fetch promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fetches {
    /// What has waited longest.
    TheOldest,
    /// The same, or nothing where another process has just made it ready.
    TheOldestOrNothing,
    /// Something that is ready, or nothing where another call is just about to change it. The history is read behind
    /// the lock: of an instance that is deleted by force meanwhile it may be gone. Nobody can commit that turn.
    AnyReady,
}

/// What the search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Explanation {
    /// An order, by the places of the calls.
    Order(Vec<usize>),
    None,
    /// It was given up.
    TooMany,
}

/// Whether some order explains the answers.
pub(crate) fn explain(made: &[Made], fetches: Fetches) -> Explanation {
    let mut search = Search { made, fetches, seen: BTreeSet::new() };
    let mut order = Vec::new();
    if search.go_on(&mut order) {
        Explanation::Order(order)
    } else if search.seen.len() >= MOST_STATES {
        Explanation::TooMany
    } else {
        Explanation::None
    }
}

struct Search<'a> {
    made: &'a [Made],
    fetches: Fetches,
    /// Which calls were made, and the state after them, of what did not lead to an end.
    seen: BTreeSet<(u64, u64)>,
}

impl Search<'_> {
    fn go_on(&mut self, order: &mut Vec<usize>) -> bool {
        if order.len() == self.made.len() {
            return true;
        }
        for next in self.possible(order) {
            order.push(next);
            // From the beginning: the store in memory cannot be copied, and a round is short.
            if let Some(state) = self.replay(order)
                && self.seen.len() < MOST_STATES
                && self.seen.insert((made_so_far(order), state))
                && self.go_on(order)
            {
                return true;
            }
            order.pop();
        }
        false
    }

    /// Calls that may come next: none that has not been made ended before they began.
    fn possible(&self, order: &[usize]) -> Vec<usize> {
        let open = || (0..self.made.len()).filter(|at| !order.contains(at));
        let earliest_end = open().map(|at| self.made[at].ended).min().unwrap_or(u64::MAX);
        open().filter(|at| self.made[*at].begun < earliest_end).collect()
    }

    /// The state after these calls, if they give the answers that were given.
    fn replay(&self, order: &[usize]) -> Option<u64> {
        let clock = Arc::new(ManualClock::new(NOW_MS));
        let store = Arc::new(MemoryProvider::with_clock_and_seed(clock, 1));
        let mut sessions: Vec<Session> =
            (0..CLIENTS).map(|client| Session::new(client, store.clone())).collect();
        for at in order {
            let made = &self.made[*at];
            if self.may_find_nothing(made) {
                continue;
            }
            let chosen = self.chosen(made);
            let takes = chosen.as_deref().map_or(Takes::Anything, Takes::Only);
            let answer = sessions[made.client].make_taking(&made.call, takes).now_or_never();
            let answer = answer.expect("the memory store answers at once");
            if self.comparable(made, &answer) != self.comparable(made, &made.answer) {
                return None;
            }
        }
        let mut state = DefaultHasher::new();
        format!("{:?}", store.snapshot()).hash(&mut state);
        Some(state.finish())
    }

    fn may_find_nothing(&self, made: &Made) -> bool {
        let is_fetch = matches!(made.call, Call::FetchTurn | Call::FetchWork);
        self.fetches != Fetches::TheOldest && is_fetch && made.answer == "nothing"
    }

    /// An answer without what this store leaves open.
    fn comparable<'a>(&self, made: &Made, answer: &'a str) -> &'a str {
        let is_deleted = |other: &Made| {
            let Call::Delete { instance } = other.call else { return false };
            let overlaps = other.begun < made.ended && made.begun < other.ended;
            overlaps && answer.contains(&format!(" of {}, attempt ", instance_name(instance)))
        };
        let torn = self.fetches == Fetches::AnyReady
            && made.call == Call::FetchTurn
            && self.made.iter().any(is_deleted);
        match answer.rsplit_once("] after [") {
            Some((before_history, _)) if torn => before_history,
            Some(_) | None => answer,
        }
    }

    /// What a fetch took, where it might have taken something else.
    fn chosen(&self, made: &Made) -> Option<String> {
        if self.fetches != Fetches::AnyReady {
            return None;
        }
        match made.call {
            Call::FetchTurn => {
                let (_, instance) = made.answer.split_once(" of execution ")?;
                let (_, instance) = instance.split_once(" of ")?;
                Some(orchestration_of(instance.split_once(", attempt ")?.0))
            }
            Call::FetchWork => {
                let (_, name) = made.answer.split_once("name: \"")?;
                Some(name.split_once('"')?.0.to_string())
            }
            Call::Start { .. }
            | Call::Raise { .. }
            | Call::Cancel { .. }
            | Call::AckTurn(_)
            | Call::AbandonTurn
            | Call::AckWork { .. }
            | Call::AbandonWork
            | Call::ReadStatus { .. }
            | Call::ReadHistory { .. }
            | Call::ReadValue { .. }
            | Call::Delete { .. }
            | Call::List => None,
        }
    }
}

fn made_so_far(order: &[usize]) -> u64 {
    order.iter().fold(0, |made, at| made | 1 << at)
}

/// A cancelled instance suits every node. Taking another one before it is as good.
#[test]
fn a_fetch_may_pass_over_a_cancelled_instance() {
    let fetched = format!(
        "{} of execution 1 of {}, attempt 1: [{:?}] after [] with {{}}",
        orchestration_of(&instance_name(2)),
        instance_name(2),
        start(2)
    );
    let calls = [
        (Call::Start { instance: 1 }, "Start(Started)".to_string()),
        (Call::Cancel { instance: 1 }, "Message(Delivered)".to_string()),
        (Call::Start { instance: 2 }, "Start(Started)".to_string()),
        (Call::FetchTurn, fetched),
    ];
    let made: Vec<Made> = calls
        .into_iter()
        .zip(0_u64..)
        .map(|((call, answer), at)| Made { client: 0, call, answer, begun: 2 * at, ended: 2 * at + 1 })
        .collect();
    assert_eq!(explain(&made, Fetches::AnyReady), Explanation::Order(vec![0, 1, 2, 3]));
    assert_eq!(explain(&made, Fetches::TheOldest), Explanation::None);
}

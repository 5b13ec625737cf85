//! What goes wrong in a chaos run, and when. All of it follows from the seed.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::testing::{Fault, FaultSource, FrozeWhen, Method};

/// Process deaths of every seed.
const DEATHS: usize = 3;
/// More faults than one of each kind, at most.
const MAX_EXTRA: u64 = 8;
/// How many calls go well between two faults, at most; the seed chooses one of these. Small ones come early and together, large
/// ones spread over a long program.
const LONGEST_GAPS: [u64; 4] = [0, 1, 2, 4];
/// The longest delay of a call, in milliseconds: longer than the locks of a chaos run, so that they are renewed meanwhile.
const LONGEST_DELAY_MS: u64 = 4_000;
/// How late a fetch answers whose locks have expired: by then they have.
const PAST_EXPIRED_LOCK: Duration = Duration::from_millis(5);
/// The longest time until a process follows one that died, in milliseconds.
const LONGEST_DOWN_MS: u64 = 1_000;
/// How often the handler of an activity is polled before its process dies, at most.
const MAX_POLLS: u64 = 3;

/// One thing that goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Card {
    FailBefore,
    LoseAnswer,
    Delay,
    Drop,
    ExpireLock,
    Duplicate,
    Reorder,
    RunDry,
    Die(Death),
}

/// Where a process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Death {
    BeforeCall,
    AfterCall,
    InHandler,
}

const KINDS: [Card; 8] = [
    Card::FailBefore,
    Card::LoseAnswer,
    Card::Delay,
    Card::Drop,
    Card::ExpireLock,
    Card::Duplicate,
    Card::Reorder,
    Card::RunDry,
];

/// Where a card can be played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Site {
    Call(Method),
    Handler,
}

impl Card {
    fn fits(self, site: Site) -> bool {
        let method = match (site, self) {
            (Site::Handler, Self::Die(Death::InHandler)) => return true,
            (Site::Handler, _) | (Site::Call(_), Self::Die(Death::InHandler)) => return false,
            (Site::Call(method), _) => method,
        };
        let is_fetch = matches!(method, Method::FetchTurns | Method::FetchWork);
        let is_ack = matches!(method, Method::AckTurn | Method::AckWork);
        match self {
            Self::FailBefore | Self::LoseAnswer | Self::Delay => is_fetch || is_ack,
            Self::Drop | Self::Die(Death::BeforeCall) => is_ack,
            Self::Die(Death::AfterCall) => is_fetch || is_ack,
            Self::ExpireLock | Self::RunDry | Self::Reorder => is_fetch,
            Self::Duplicate => matches!(method, Method::FetchTurns | Method::AckWork),
            Self::Die(Death::InHandler) => false,
        }
    }
}

/// The faults of one chaos run, in the order in which they come.
pub(super) struct Deck {
    state: Mutex<State>,
}

struct State {
    random: u64,
    cards: Vec<Card>,
    /// Drawn for a call that has not had its effect yet, and will not if the process dies before.
    in_play: Vec<Card>,
    /// Whether the process is about to die: no more goes wrong with it.
    dying: bool,
    /// Whether an instance that the test started is about to end: what is left comes now.
    ending: bool,
    longest_gap: u64,
    gap: u64,
    happened: BTreeMap<&'static str, u32>,
}

impl Deck {
    pub(super) fn of(seed: u64) -> Self {
        let mut state = State {
            random: seed,
            cards: Vec::new(),
            in_play: Vec::new(),
            dying: false,
            ending: false,
            longest_gap: 0,
            gap: 0,
            happened: BTreeMap::new(),
        };
        let mut cards: Vec<Card> = KINDS.to_vec();
        for _ in 0..DEATHS {
            let deaths = [Death::BeforeCall, Death::AfterCall, Death::InHandler];
            cards.push(Card::Die(deaths[state.below(3)]));
        }
        for last in (1..cards.len()).rev() {
            let other = state.below(last + 1);
            cards.swap(last, other);
        }
        for _ in 0..state.next() % (MAX_EXTRA + 1) {
            cards.push(KINDS[state.below(KINDS.len())]);
        }
        // The last one is drawn first.
        cards.reverse();
        state.cards = cards;
        state.longest_gap = LONGEST_GAPS[state.below(LONGEST_GAPS.len())];
        Self { state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// After how many polls the handler that begins now dies with its process; `None` if it lives.
    pub(super) fn dies_in_handler(&self) -> Option<u32> {
        let mut state = self.lock();
        if state.dying {
            return None;
        }
        state.draw(Site::Handler)?;
        state.dying = true;
        let polls = state.next() % (MAX_POLLS + 1);
        Some(u32::try_from(polls).unwrap_or(0))
    }

    /// The program of an instance that the test started has returned. Its last commit does not succeed before all that the seed
    /// has in store has happened.
    pub(super) fn ends(&self) {
        self.lock().ending = true;
    }

    /// The process froze at a call.
    pub(super) fn froze(&self, when: FrozeWhen) {
        let death = match when {
            FrozeWhen::Before => Death::BeforeCall,
            FrozeWhen::After => Death::AfterCall,
        };
        let mut state = self.lock();
        state.dying = true;
        state.played(Card::Die(death));
    }

    /// The process has died; how long until the next one begins. What its calls had not suffered yet comes later.
    pub(super) fn died(&self) -> Duration {
        let mut state = self.lock();
        let not_played = std::mem::take(&mut state.in_play);
        state.cards.extend(not_played);
        state.dying = false;
        *state.happened.entry("process died").or_default() += 1;
        Duration::from_millis(1 + state.next() % LONGEST_DOWN_MS)
    }

    /// A fault has had its effect.
    pub(super) fn suffered(&self, fault: Fault) {
        let (card, word) = match fault {
            Fault::FailBefore => (Card::FailBefore, "call failed"),
            Fault::LoseAnswer => (Card::LoseAnswer, "answer lost"),
            Fault::DelayAfter(delay) if delay == PAST_EXPIRED_LOCK => return,
            Fault::DelayBefore(_) | Fault::DelayAfter(_) => (Card::Delay, "call delayed"),
            Fault::Drop(_) => (Card::Drop, "call dropped"),
            Fault::ExpireLock => (Card::ExpireLock, "lock expired"),
            Fault::Duplicate => (Card::Duplicate, "delivered twice"),
            Fault::Reorder => (Card::Reorder, "delivered in another order"),
            Fault::RunDry => (Card::RunDry, "nothing found"),
            Fault::SkewTime(_)
            | Fault::Corrupt
            | Fault::Refuse
            | Fault::Panic
            | Fault::Pretend
            | Fault::Freeze
            | Fault::FreezeAfter => return,
        };
        let mut state = self.lock();
        state.played(card);
        *state.happened.entry(word).or_default() += 1;
    }

    /// What has gone wrong so far, and how often.
    pub(super) fn happened(&self) -> BTreeMap<&'static str, u32> {
        self.lock().happened.clone()
    }
}

impl State {
    /// The next number of SplitMix64.
    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next() % end).unwrap_or(0)
    }

    /// The next card that can be played here, unless this call goes well.
    fn draw(&mut self, site: Site) -> Option<Card> {
        let place = self.cards.iter().rposition(|card| card.fits(site))?;
        if self.gap > 0 {
            self.gap -= 1;
            return None;
        }
        self.gap = self.next() % (self.longest_gap + 1);
        Some(self.cards.remove(place))
    }
}

impl State {
    /// A card has had its effect.
    fn played(&mut self, card: Card) {
        if let Some(place) = self.in_play.iter().position(|played| *played == card) {
            self.in_play.remove(place);
        }
    }

    /// What happens to the last calls of an instance. A commit that succeeds would be too early while anything is left, so
    /// that the process dies once more if need be.
    fn draw_last(&mut self, method: Method) -> Vec<Card> {
        let mut take = |wanted: &[Card]| -> Option<Card> {
            let place = self.cards.iter().position(|card| wanted.contains(card))?;
            Some(self.cards.remove(place))
        };
        if method == Method::AckTurn {
            if take(&[Card::Die(Death::InHandler), Card::Die(Death::AfterCall)]).is_some() {
                return vec![Card::Die(Death::BeforeCall)];
            }
            let before_commit = [Card::FailBefore, Card::Drop, Card::Die(Death::BeforeCall)];
            if let Some(card) = take(&before_commit) {
                return vec![card];
            }
            let is_left = !self.cards.is_empty() || !self.in_play.is_empty();
            return if is_left { vec![Card::Die(Death::BeforeCall)] } else { Vec::new() };
        }
        if method != Method::FetchTurns {
            return Vec::new();
        }
        // These keep a fetch from bringing anything.
        if let Some(card) = take(&[Card::RunDry, Card::LoseAnswer]) {
            return vec![card];
        }
        let together = [Card::ExpireLock, Card::Duplicate, Card::Reorder, Card::Delay];
        together.iter().filter_map(|kind| take(&[*kind])).collect()
    }

    fn faults_of(&mut self, card: Card) -> Vec<Fault> {
        match card {
            Card::FailBefore => vec![Fault::FailBefore],
            Card::LoseAnswer => vec![Fault::LoseAnswer],
            Card::Delay => {
                let delay = Duration::from_millis(10 + self.next() % LONGEST_DELAY_MS);
                let late = self.next().is_multiple_of(2);
                vec![if late { Fault::DelayAfter(delay) } else { Fault::DelayBefore(delay) }]
            }
            Card::Drop => vec![Fault::Drop(0)],
            Card::ExpireLock => vec![Fault::ExpireLock, Fault::DelayAfter(PAST_EXPIRED_LOCK)],
            Card::Duplicate => vec![Fault::Duplicate],
            Card::Reorder => vec![Fault::Reorder],
            Card::RunDry => vec![Fault::RunDry],
            Card::Die(Death::BeforeCall) => vec![Fault::Freeze],
            Card::Die(Death::AfterCall) => vec![Fault::FreezeAfter],
            Card::Die(Death::InHandler) => Vec::new(),
        }
    }
}

impl FaultSource for Deck {
    fn faults(&self, method: Method) -> Vec<Fault> {
        let mut state = self.lock();
        if state.dying {
            return Vec::new();
        }
        let drawn = if state.ending {
            state.draw_last(method)
        } else {
            state.draw(Site::Call(method)).into_iter().collect()
        };
        state.dying = drawn.contains(&Card::Die(Death::BeforeCall));
        state.in_play.extend(&drawn);
        drawn.into_iter().flat_map(|card| state.faults_of(card)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_has_each_kind_of_fault_and_three_deaths_and_repeats() {
        for seed in 0..200 {
            let deck = Deck::of(seed);
            let state = deck.lock();
            let deaths = state.cards.iter().filter(|card| matches!(card, Card::Die(_))).count();
            assert_eq!(deaths, DEATHS, "seed {seed}");
            for kind in KINDS {
                assert!(state.cards.contains(&kind), "seed {seed} has no {kind:?}");
            }
            assert_eq!(state.cards, Deck::of(seed).lock().cards);
        }
        assert_ne!(Deck::of(1).lock().cards, Deck::of(2).lock().cards);
    }
}

//! Faults by chance, decided by a seed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::{Fault, FaultSource, Method};

/// The unit of [`FaultRates`]: once in so many calls.
const PER: u64 = 10_000;

/// How often each fault happens, in ten thousand calls. What is not named does not happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FaultRates {
    /// [`Fault::FailBefore`]
    pub fail_before: u64,
    /// [`Fault::LoseAnswer`]
    pub lose_answer: u64,
    /// [`Fault::DelayBefore`] and [`Fault::DelayAfter`], each half of the time
    pub delay: u64,
    /// The longest delay; the shortest is a millisecond.
    pub longest_delay: Duration,
    /// [`Fault::Drop`], after a few times
    pub dropped: u64,
    /// [`Fault::ExpireLock`]
    pub expire_lock: u64,
    /// [`Fault::Duplicate`]
    pub duplicate: u64,
    /// [`Fault::Reorder`]
    pub reorder: u64,
    /// [`Fault::RunDry`]
    pub run_dry: u64,
    /// [`Fault::Corrupt`]
    pub corrupt: u64,
}

impl FaultRates {
    /// A bad day: every fault that a healthy program survives, together in a fifth of the calls.
    pub fn stormy() -> Self {
        Self {
            fail_before: 600,
            lose_answer: 400,
            delay: 300,
            longest_delay: Duration::from_millis(200),
            dropped: 200,
            expire_lock: 100,
            duplicate: 300,
            reorder: 200,
            run_dry: 100,
            corrupt: 0,
        }
    }
}

/// Faults by chance. The same seed gives the same faults to the same sequence of calls.
#[derive(Debug)]
pub struct SeededFaults {
    rates: FaultRates,
    state: AtomicU64,
    stopped: AtomicBool,
}

impl SeededFaults {
    /// Faults at these rates.
    pub fn new(seed: u64, rates: FaultRates) -> Self {
        Self { rates, state: AtomicU64::new(seed), stopped: AtomicBool::new(false) }
    }

    /// From now on nothing goes wrong.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
    }

    /// The next number of SplitMix64.
    fn next(&self) -> u64 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut mixed = self.state.fetch_add(STEP, Ordering::SeqCst).wrapping_add(STEP);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn delay(&self) -> Fault {
        let longest_ms = u64::try_from(self.rates.longest_delay.as_millis()).unwrap_or(u64::MAX).max(1);
        let delay = Duration::from_millis(1 + self.next() % longest_ms);
        if self.next().is_multiple_of(2) { Fault::DelayBefore(delay) } else { Fault::DelayAfter(delay) }
    }
}

impl FaultSource for SeededFaults {
    fn faults(&self, _method: Method) -> Vec<Fault> {
        if self.stopped.load(Ordering::SeqCst) {
            return Vec::new();
        }
        let FaultRates {
            fail_before,
            lose_answer,
            delay,
            longest_delay: _,
            dropped,
            expire_lock,
            duplicate,
            reorder,
            run_dry,
            corrupt,
        } = self.rates;
        let kinds = [
            (fail_before, Fault::FailBefore),
            (lose_answer, Fault::LoseAnswer),
            (dropped, Fault::Drop(1 + u32::try_from(self.next() % 8).unwrap_or(0))),
            (expire_lock, Fault::ExpireLock),
            (duplicate, Fault::Duplicate),
            (reorder, Fault::Reorder),
            (run_dry, Fault::RunDry),
            (corrupt, Fault::Corrupt),
        ];
        let mut roll = self.next() % PER;
        for (rate, fault) in kinds {
            if roll < rate {
                return vec![fault];
            }
            roll -= rate;
        }
        if roll < delay { vec![self.delay()] } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_faults_and_every_kind_comes() {
        let rates = FaultRates { corrupt: 50, ..FaultRates::stormy() };
        let draw = |seed| -> Vec<Vec<Fault>> {
            let source = SeededFaults::new(seed, rates);
            (0..2_000).map(|_| source.faults(Method::FetchTurns)).collect()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        let drawn = draw(7).concat();
        for kind in
            [Fault::FailBefore, Fault::LoseAnswer, Fault::ExpireLock, Fault::Duplicate, Fault::Corrupt]
        {
            assert!(drawn.contains(&kind), "{kind:?} never came");
        }
        assert!(drawn.iter().any(|fault| matches!(fault, Fault::DelayBefore(_))));
    }

    #[test]
    fn a_stopped_source_lets_every_call_through() {
        let source = SeededFaults::new(7, FaultRates { fail_before: PER, ..FaultRates::default() });
        assert_eq!(source.faults(Method::Read), [Fault::FailBefore]);
        source.stop();
        assert_eq!(source.faults(Method::Read), []);
    }
}

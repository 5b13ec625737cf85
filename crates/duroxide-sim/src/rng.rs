//! The only source of chance: a small generator (SplitMix64) that follows from the seed alone.

use std::time::Duration;

/// A sequence of numbers that looks random.
#[derive(Debug, Clone)]
pub(crate) struct Rng {
    state: u64,
}

impl Rng {
    /// The sequence of a seed. Different purposes take different streams, so that one does not shift another.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut rng = Self { state: seed.wrapping_mul(0xD134_2543_DE82_EF95) ^ stream.rotate_left(32) };
        rng.next();
        rng
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number from `low` up to, not including, `high`.
    pub(crate) fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low).max(1)
    }

    /// True once in `n` times.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.range(0, n) == 0
    }

    /// A duration from `low` up to, not including, `high` milliseconds.
    pub(crate) fn millis(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.range(low, high))
    }

    /// One of the choices.
    pub(crate) fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        let count = u64::try_from(choices.len()).unwrap_or(u64::MAX);
        let index = usize::try_from(self.range(0, count)).unwrap_or(0);
        &choices[index]
    }
}

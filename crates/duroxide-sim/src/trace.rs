//! What happened, in order. Equal seeds give equal traces, and the hash tells.

use std::fmt::Write;

/// Lines kept at most when nobody reads along; enough to see what led to a failure.
const KEPT_LINES: usize = 200_000;

/// The offset and the prime of FNV-1a with 64 bits.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// Whether the lines of a trace are kept, or only their hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// All lines, to be read.
    Lines,
    /// Only the hash.
    Hash,
}

/// The trace of one simulation.
#[derive(Debug)]
pub(crate) struct Trace {
    keep: Keep,
    lines: Vec<String>,
    scratch: String,
    hash: u64,
}

impl Trace {
    pub(crate) fn new(keep: Keep) -> Self {
        Self { keep, lines: Vec::new(), scratch: String::new(), hash: FNV_OFFSET }
    }

    pub(crate) fn add(&mut self, now_ms: u64, who: &str, what: std::fmt::Arguments<'_>) {
        self.scratch.clear();
        write!(self.scratch, "{now_ms:>8} {who:<7} {what}").expect("a string takes every text");
        for byte in self.scratch.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
        }
        if self.keep == Keep::Lines && self.lines.len() < KEPT_LINES {
            self.lines.push(self.scratch.clone());
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn take_lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }
}

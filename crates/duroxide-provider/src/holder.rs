//! Who holds a lock: the run of a node, in a few bits of the random number that names the lock.
//!
//! It stands in every lock without a column of its own, so that no fetch writes more for it.

use duroxide_core::{NodeRecord, lock_holder_bits};

/// The bits of a nonce that are random. Two locks of one row by one holder differ in them.
const RANDOM_BITS: u32 = 40;

/// One run of a node, from its start to its end. Two runs have the same one by chance in one of 16 million cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LockHolder(u32);

impl LockHolder {
    /// A caller that does not say which node it is.
    pub const UNKNOWN: Self = Self(0);

    /// The run that a node's [start id](duroxide_core::NodeInfo::start_id) names.
    pub fn of_start(start_id: &str) -> Self {
        Self(lock_holder_bits(start_id))
    }

    /// A number for a lock of this holder, made of random bits.
    #[doc(hidden)]
    pub fn nonce(self, random: u64) -> i64 {
        let random = random & ((1 << RANDOM_BITS) - 1);
        ((u64::from(self.0) << RANDOM_BITS) | random).cast_signed()
    }

    /// The holder of the lock with this number.
    #[doc(hidden)]
    pub fn of_nonce(nonce: i64) -> Self {
        let bits = nonce.cast_unsigned() >> RANDOM_BITS;
        Self(u32::try_from(bits).expect("24 bits are left of 64"))
    }
}

/// A lock that was not renewed in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpiredLock {
    /// Whose it was.
    pub holder: LockHolder,
    /// When it expired, by the store's clock.
    pub expired_at_ms: u64,
}

impl ExpiredLock {
    /// Whether its holder was heard of after it had expired: then that process did not die of what it ran.
    pub fn was_outlived_by(&self, node: &NodeRecord) -> bool {
        let same_run =
            node.info.as_ref().is_some_and(|info| LockHolder::of_start(&info.start_id) == self.holder);
        same_run && self.holder != LockHolder::UNKNOWN && node.last_seen_ms > self.expired_at_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_leads_back_to_its_holder() {
        for start_id in ["", "a", "6d1f2c0e-0f67-4d6c-9d3e-1f0f1f2f3f4f"] {
            let holder = LockHolder::of_start(start_id);
            assert_ne!(holder, LockHolder::UNKNOWN);
            for random in [0, 1, u64::MAX] {
                assert_eq!(LockHolder::of_nonce(holder.nonce(random)), holder);
            }
            assert_ne!(holder.nonce(1), holder.nonce(2));
            assert_ne!(holder.nonce(0), i64::MIN, "which stands for no lock");
        }
    }
}

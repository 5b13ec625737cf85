//! Lock tokens: the row's key, so that a lookup is by primary key, and a random number that is compared.

use super::Fault;
use super::values::{Ms, from_column};
use crate::holder::{ExpiredLock, LockHolder};
use crate::random;

/// Stands where a column for locks may not be empty: not locked. No token has it.
pub const UNLOCKED: i64 = i64::MIN;

/// Names one lock of one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token {
    /// The row: of an instance, or of a work item.
    pub key: i64,
    /// What the row must show as its lock.
    pub nonce: i64,
}

impl Token {
    /// The token behind its text. One that is none is a lock that nobody holds.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let (key, nonce) = text.split_once('-').ok_or(Fault::LockLost)?;
        let key = u64::from_str_radix(key, 16).map_err(|_| Fault::LockLost)?.cast_signed();
        let nonce = u64::from_str_radix(nonce, 16).map_err(|_| Fault::LockLost)?.cast_signed();
        if nonce == UNLOCKED { Err(Fault::LockLost) } else { Ok(Self { key, nonce }) }
    }

    /// The token as the runtime holds it.
    pub fn text(self) -> String {
        format!("{:x}-{:016x}", self.key, self.nonce.cast_unsigned())
    }
}

/// A number for a lock of this holder that no other lock has.
pub fn nonce(holder: LockHolder) -> i64 {
    let nonce = holder.nonce(random::bits_64());
    if nonce == UNLOCKED { 1 } else { nonce }
}

/// Numbers for the locks of one fetch.
pub fn nonces(holder: LockHolder, count: usize) -> Vec<i64> {
    (0..count).map(|_| nonce(holder)).collect()
}

/// The lock with this number, which was not renewed in time.
pub fn expired_lock(nonce: i64, expired_at: Ms) -> ExpiredLock {
    ExpiredLock { holder: LockHolder::of_nonce(nonce), expired_at_ms: from_column(expired_at) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_leads_back_to_itself() {
        for key in [1, 77, i64::MAX, -77, i64::MIN] {
            let token = Token { key, nonce: random::bits_64().cast_signed() };
            assert_eq!(Token::parse(&token.text()), Ok(token));
        }
    }

    #[test]
    fn a_malformed_token_is_a_lost_lock() {
        for text in ["", "-", "1", "1-", "x-1", "1-x", "1-11111111111111111", "1-8000000000000000"] {
            assert_eq!(Token::parse(text), Err(Fault::LockLost), "{text}");
        }
    }
}

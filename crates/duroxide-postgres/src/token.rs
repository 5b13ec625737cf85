//! Lock tokens: the row's key, so that a lookup is by primary key, and a random number that is compared.

use duroxide_provider::{ExpiredLock, LockHolder};

use crate::fault::Fault;
use crate::values::{Ms, from_column, random_bits};

/// Names one lock of one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) key: i64,
    pub(crate) nonce: i64,
}

impl Token {
    pub(crate) fn parse(text: &str) -> Result<Self, Fault> {
        let (key, nonce) = text.split_once('-').ok_or(Fault::LockLost)?;
        let key = u64::from_str_radix(key, 16).map_err(|_| Fault::LockLost)?.cast_signed();
        let nonce = u64::from_str_radix(nonce, 16).map_err(|_| Fault::LockLost)?.cast_signed();
        Ok(Self { key, nonce })
    }

    pub(crate) fn text(self) -> String {
        format!("{:x}-{:016x}", self.key, self.nonce.cast_unsigned())
    }
}

/// A number for a lock of this holder that no other lock has.
pub(crate) fn nonce(holder: LockHolder) -> i64 {
    holder.nonce(random_bits().cast_unsigned())
}

/// Numbers for the locks of one fetch.
pub(crate) fn nonces(holder: LockHolder, count: usize) -> Vec<i64> {
    (0..count).map(|_| nonce(holder)).collect()
}

/// The lock with this number, which was not renewed in time.
pub(crate) fn expired_lock(nonce: i64, expired_at: Ms) -> ExpiredLock {
    ExpiredLock { holder: LockHolder::of_nonce(nonce), expired_at_ms: from_column(expired_at) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_leads_back_to_itself() {
        for key in [1, 77, i64::MAX, -77, i64::MIN] {
            let token = Token { key, nonce: random_bits() };
            assert_eq!(Token::parse(&token.text()).unwrap(), token);
        }
    }

    #[test]
    fn a_malformed_token_is_a_lost_lock() {
        for text in ["", "-", "1", "1-", "x-1", "1-x", "1-11111111111111111"] {
            assert!(matches!(Token::parse(text), Err(Fault::LockLost)), "{text}");
        }
    }
}

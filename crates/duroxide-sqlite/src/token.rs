//! Lock tokens: the row's key, so that a lookup is by primary key, and a random number that is compared.

use duroxide_provider::{LockHolder, random};

use super::fault::Fault;

/// Stands in a work item that is not locked. No token has it.
pub(super) const UNLOCKED: i64 = i64::MIN;

/// Names one lock of one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) key: i64,
    pub(super) nonce: i64,
}

impl Token {
    /// A token for the row `key` that no other fetch has.
    pub(super) fn new(key: i64, holder: LockHolder) -> Self {
        let nonce = holder.nonce(random::bits_64());
        Self { key, nonce: if nonce == UNLOCKED { 1 } else { nonce } }
    }

    pub(super) fn parse(text: &str) -> Result<Self, Fault> {
        let (key, nonce) = text.split_once('-').ok_or(Fault::LockLost)?;
        let key = u64::from_str_radix(key, 16).map_err(|_| Fault::LockLost)?.cast_signed();
        let nonce = u64::from_str_radix(nonce, 16).map_err(|_| Fault::LockLost)?.cast_signed();
        if nonce == UNLOCKED {
            return Err(Fault::LockLost);
        }
        Ok(Self { key, nonce })
    }

    pub(super) fn text(self) -> String {
        format!("{:x}-{:016x}", self.key, self.nonce.cast_unsigned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_leads_back_to_itself() {
        for key in [1, 77, i64::MAX, -77, i64::MIN] {
            let token = Token::new(key, LockHolder::of_start("a start"));
            assert_eq!(Token::parse(&token.text()).unwrap(), token);
        }
    }

    #[test]
    fn a_malformed_token_is_a_lost_lock() {
        for text in ["", "-", "1", "1-", "x-1", "1-x", "1-11111111111111111", "1-8000000000000000"] {
            assert!(matches!(Token::parse(text), Err(Fault::LockLost)), "{text}");
        }
    }
}

//! The row of a work item as the queue sees it.

use super::token::Token;
use super::values::Ms;

/// The row of a work item.
#[derive(Debug, Clone)]
pub struct WorkRow {
    /// Its primary key.
    pub id: i64,
    /// The lock.
    pub nonce: Option<i64>,
    /// The lock as it stands in the store.
    pub stored_nonce: Option<i64>,
    /// When a fetch may take it; when locked, the end of the lock.
    pub ready_at: Ms,
    /// Its tag, session and activity.
    pub place: Place,
    /// The instance that waits for it.
    pub instance: String,
    /// The execution that scheduled it.
    pub execution_id: u64,
    /// The event that scheduled it.
    pub activity_id: u64,
    /// When it was or will be ready, without its locks.
    pub visible_at: Ms,
    /// `suspect` as it was when the lock was taken.
    pub suspect_before: bool,
    /// How often it was fetched.
    pub attempts: i64,
}

/// Where a work item stands: its session, its tag and its activity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The session, if it belongs to one.
    pub session_id: Option<String>,
    /// Empty for none.
    pub tag: String,
    /// The activity.
    pub name: String,
}

impl WorkRow {
    /// Whether this token holds it at this time.
    pub fn is_held_by(&self, token: Token, now: Ms) -> bool {
        self.nonce == Some(token.nonce) && now < self.ready_at
    }
}

//! Questions about work items.

use std::time::Duration;

use duroxide_provider::WaitingByTag;
use duroxide_provider::rules::{Place, Token, UNLOCKED};

use super::damaged::{lossy, optional_lossy};
use super::db::Db;
use super::fault::Fault;
use super::values::{Ms, from_column};

/// The place of a work item, from the columns `tag`, `session_id`, `name`.
pub(super) fn place(row: &rusqlite::Row<'_>) -> rusqlite::Result<Place> {
    Ok(Place { tag: lossy(row, 0)?, session_id: optional_lossy(row, 1)?, name: lossy(row, 2)? })
}

/// What waits for a worker, by tag.
pub(super) fn waiting_by_tag(db: &Db, now: Ms) -> Result<Vec<WaitingByTag>, Fault> {
    const SQL: &str = "SELECT tag, count(*), min(coalesce(waiting_since, visible_at)) FROM work_items \
         WHERE lock_nonce = ?1 OR ready_at <= ?2 GROUP BY tag ORDER BY tag";
    let waiting = db.all(SQL, (UNLOCKED, now), |row| {
        let (tag, waiting, oldest): (String, i64, Ms) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(WaitingByTag {
            tag: (!tag.is_empty()).then_some(tag),
            waiting: usize::try_from(waiting).unwrap_or(0),
            oldest_age: Duration::from_millis(from_column(now.saturating_sub(oldest))),
        })
    })?;
    Ok(waiting)
}

/// Which of these tokens hold no work item any more.
pub(super) fn lost(db: &Db, now: Ms, tokens: Vec<String>) -> Result<Vec<String>, Fault> {
    const SQL: &str = "SELECT 1 FROM work_items WHERE id = ?1 AND lock_nonce = ?2 AND ready_at > ?3";
    db.snapshot(|db| {
        let mut lost = Vec::new();
        for text in tokens {
            let held = match Token::parse(&text) {
                Ok(token) => db.first(SQL, (token.key, token.nonce, now), |_| Ok(()))?.is_some(),
                Err(_) => false,
            };
            if !held {
                lost.push(text);
            }
        }
        Ok(lost)
    })
}

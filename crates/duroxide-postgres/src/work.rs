//! Work items: queueing activities, and the ways in which an attempt at one ends.

use std::time::Duration;

use duroxide_core::{ScheduledActivityIdentifier, columns_of};
use duroxide_provider::{GiveBack, WaitingByTag};
use tokio_postgres::Row;

use crate::connection::Conn;
use crate::fault::Fault;
use crate::item::EncodedItem;
use crate::messages::{FullInbox, Obstacle};
use crate::token::Token;
use crate::values::{Ms, after, from_column, from_text};
use crate::working_set::WorkingSet;
use crate::writes::{NewWork, SessionUse, WorkChange};

/// A work item as the queue sees it.
#[derive(Debug, Clone)]
pub(crate) struct WorkRow {
    pub(crate) id: i64,
    pub(crate) nonce: Option<i64>,
    /// The lock as it stands in the store.
    pub(crate) stored_nonce: Option<i64>,
    pub(crate) ready_at: Ms,
    pub(crate) place: Place,
    pub(crate) instance: String,
    pub(crate) execution_id: u64,
    pub(crate) activity_id: u64,
    pub(crate) visible_at: Ms,
    pub(crate) suspect_before: bool,
    pub(crate) attempts: i64,
}

/// Where a work item stands: its tag and its session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) session_id: Option<String>,
    /// Empty for none.
    pub(crate) tag: String,
}

impl WorkRow {
    pub(crate) fn from_row(row: &Row) -> Self {
        Self::from_columns(row, 0)
    }

    /// The row in the columns from `at` on.
    pub(crate) fn from_columns(row: &Row, at: usize) -> Self {
        Self {
            id: row.get(at),
            nonce: row.get(at + 1),
            stored_nonce: row.get(at + 1),
            ready_at: row.get(at + 2),
            place: Place {
                tag: from_text(row.get(at + 3)),
                session_id: row.get::<_, Option<String>>(at + 4).map(from_text),
            },
            instance: from_text(row.get(at + 5)),
            execution_id: from_column(row.get(at + 6)),
            activity_id: from_column(row.get(at + 7)),
            visible_at: row.get(at + 8),
            suspect_before: row.get(at + 9),
            attempts: row.get(at + 10),
        }
    }

    fn is_held_by(&self, token: Token, now: Ms) -> bool {
        self.nonce == Some(token.nonce) && now < self.ready_at
    }
}

impl WorkingSet<'_> {
    /// Queues a checked activity; one that is queued already stays as it is.
    pub(crate) fn put_work(&mut self, item: &EncodedItem) {
        let columns = columns_of(&item.item);
        let place = Place {
            session_id: columns.session_id.map(str::to_string),
            tag: columns.tag.unwrap_or_default().to_string(),
        };
        self.writes.touch(&place);
        self.effects.item_ready(&place, self.now);
        self.writes.new_work.push(NewWork {
            instance: columns.instance.to_string(),
            execution_id: columns.execution_id.unwrap_or(0),
            activity_id: columns.event_id.unwrap_or(0),
            name: columns.name.unwrap_or_default().to_string(),
            place,
            json: item.json.clone(),
            lock: None,
        });
    }

    /// Deletes the work item of an activity that nobody waits for any more, locked or not.
    pub(crate) fn cancel_work(&mut self, activity: &ScheduledActivityIdentifier) {
        let is_it = |instance: &str, execution_id: u64, activity_id: u64| {
            activity.instance == instance
                && activity.execution_id == execution_id
                && activity.activity_id == activity_id
        };
        self.writes.new_work.retain(|work| !is_it(&work.instance, work.execution_id, work.activity_id));
        let found =
            self.work.values().find(|work| is_it(&work.instance, work.execution_id, work.activity_id));
        if let Some(id) = found.map(|work| work.id)
            && let Some(work) = self.work.remove(&id)
        {
            self.let_go(&work);
            self.writes.deleted_work.push((id, work.stored_nonce));
        }
    }

    /// A work item is no longer in progress: another of its session may begin.
    fn let_go(&mut self, work: &WorkRow) {
        if work.place.session_id.is_some() {
            self.effects.item_ready(&work.place, self.now);
        }
        self.writes.touch(&work.place);
    }

    /// Refuses a call that is wrong in itself, unless its lock is lost.
    pub(crate) fn check_work_held(&self, token: Token) -> Result<(), Fault> {
        let held = self.work.get(&token.key).is_some_and(|work| work.is_held_by(token, self.now));
        if held { Ok(()) } else { Err(Fault::LockLost) }
    }

    fn held_work(&self, token: Token) -> Result<WorkRow, Fault> {
        self.check_work_held(token)?;
        self.work.get(&token.key).cloned().ok_or(Fault::LockLost)
    }

    /// Deletes a work item and enqueues its completion.
    pub(crate) async fn ack_work(
        &mut self,
        token: Token,
        completion: Option<&EncodedItem>,
    ) -> Result<(), Obstacle> {
        let work = self.held_work(token)?;
        self.begun = true;
        self.work.remove(&token.key);
        self.writes.deleted_work.push((work.id, work.stored_nonce));
        self.writes.work_changes.remove(&work.id);
        self.let_go(&work);
        self.note_activity(&work.place, self.now);
        match completion {
            Some(completion) => self.deliver(completion, None, FullInbox::Admit).await.map(drop),
            None => Ok(()),
        }
    }

    /// Gives a work item back.
    pub(crate) fn give_back_work(&mut self, token: Token, give_back: &GiveBack) -> Result<(), Fault> {
        let GiveBack { delay, ignore_attempt, cause } = give_back;
        let ignore_attempt = *ignore_attempt;
        let mut work = self.held_work(token)?;
        let now = self.now;
        // It was there before, whatever the clock said then.
        work.visible_at = delay.map_or(work.visible_at.min(now), |delay| after(now, delay));
        work.ready_at = work.visible_at;
        work.nonce = None;
        // With the attempt ignored, an expiry before it still counts.
        let suspect = ignore_attempt && work.suspect_before;
        if ignore_attempt {
            work.attempts = work.attempts.saturating_sub(1).max(0);
        }
        work.suspect_before = false;
        self.effects.item_ready(&work.place, work.ready_at);
        self.let_go(&work);
        let change = WorkChange {
            delayed: delay.is_some(),
            cause: cause.as_ref().map(|cause| cause.clone().bounded().to_stored()),
            ..WorkChange::new(&work, suspect)
        };
        self.writes.work_changes.insert(work.id, change);
        self.work.insert(work.id, work);
        Ok(())
    }

    /// Lets the lock hold from now on for `extend_for`.
    pub(crate) fn renew_work(&mut self, token: Token, extend_for: Duration) -> Result<(), Fault> {
        let mut work = self.held_work(token)?;
        work.ready_at = after(self.now, extend_for);
        self.effects.work_ready(work.ready_at);
        self.writes.touch(&work.place);
        self.note_activity(&work.place, work.ready_at);
        self.writes.work_changes.insert(work.id, WorkChange::new(&work, true));
        self.work.insert(work.id, work);
        Ok(())
    }

    /// Keeps the progress of an activity for its next attempt.
    pub(crate) fn record_progress(&mut self, token: Token, details: &str) -> Result<(), Fault> {
        self.check_work_held(token)?;
        self.writes.progress.insert(token.key, details.to_string());
        Ok(())
    }

    /// Counts the attempt of the present lock as forgiven.
    pub(crate) fn forgive_attempt(&mut self, token: Token) -> Result<(), Fault> {
        let mut work = self.held_work(token)?;
        work.attempts = work.attempts.saturating_sub(1).max(0);
        self.writes.forgiven.push(work.id);
        self.writes.work_changes.insert(work.id, WorkChange::new(&work, true));
        self.work.insert(work.id, work);
        Ok(())
    }

    fn note_activity(&mut self, place: &Place, item_locked_until: Ms) {
        if let Some(session_id) = &place.session_id {
            self.writes.session_uses.push(SessionUse { session_id: session_id.clone(), item_locked_until });
        }
    }
}

/// What waits for a worker, by tag.
pub(crate) async fn waiting_by_tag(conn: &Conn<'_>, manual: Option<Ms>) -> Result<Vec<WaitingByTag>, Fault> {
    const SQL: &str = "WITH c AS MATERIALIZED (SELECT coalesce($1::bigint, \
           (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now) \
         SELECT w.tag, count(*), (SELECT now FROM c) - min(coalesce(w.waiting_since, w.visible_at)) FROM {s}.work_items w \
         WHERE w.lock_nonce IS NULL OR w.ready_at <= (SELECT now FROM c) GROUP BY w.tag ORDER BY w.tag";
    let rows = conn.query(SQL, &[&manual]).await?;
    let waiting = rows.iter().map(|row| {
        let tag: String = from_text(row.get(0));
        WaitingByTag {
            tag: (!tag.is_empty()).then_some(tag),
            waiting: usize::try_from(row.get::<_, i64>(1)).unwrap_or(0),
            oldest_age: Duration::from_millis(from_column(row.get(2))),
        }
    });
    Ok(waiting.collect())
}

/// Which of these tokens hold no work item any more.
pub(crate) async fn lost(
    conn: &Conn<'_>,
    manual: Option<Ms>,
    tokens: &[String],
) -> Result<Vec<String>, Fault> {
    const SQL: &str = "SELECT u.key, u.nonce FROM unnest($2::bigint[], $3::bigint[]) AS u (key, nonce) \
         JOIN {s}.work_items w ON w.id = ANY (ARRAY[u.key]) AND w.lock_nonce = u.nonce \
         WHERE w.ready_at > coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)";
    let parsed: Vec<Token> = tokens.iter().filter_map(|text| Token::parse(text).ok()).collect();
    let keys: Vec<i64> = parsed.iter().map(|token| token.key).collect();
    let nonces: Vec<i64> = parsed.iter().map(|token| token.nonce).collect();
    let rows = conn.query(SQL, &[&manual, &keys, &nonces]).await?;
    let held: std::collections::HashSet<(i64, i64)> =
        rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let is_lost =
        |text: &&String| Token::parse(text).map_or(true, |token| !held.contains(&(token.key, token.nonce)));
    Ok(tokens.iter().filter(is_lost).cloned().collect())
}

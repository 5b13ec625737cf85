//! What calls need that nobody could say before they were carried out, read from the store.

use duroxide_core::{INITIAL_EVENT_ID, INITIAL_EXECUTION_ID, ItemKind, WorkItem};
use duroxide_provider::rules::{FirstInputRow, FirstMessage, KeptRow, Need, StoredMessage};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::connections::connection::Conn;
use crate::fault::Fault;
use crate::rows::execution_row;
use crate::rows::instance_row;
use crate::rows::working_set::{EXECUTIONS, KEYS, LOCK, TIMERS, WorkingSet, timer_columns};
use crate::rows::write_group::column;
use crate::values::{Ms, count, from_column, from_json, new_key, owned_text, to_column};

/// The messages of an inbox that stay: neither those of some locks, nor some timers, nor some messages.
macro_rules! messages_left {
    () => {
        "FROM {s}.inbox n WHERE n.instance_key = $1 \
           AND NOT EXISTS (SELECT 1 FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) AS l (v, p, w) \
             WHERE (n.visible_at, n.position) <= (l.v, l.p) AND n.position < l.w) \
           AND NOT EXISTS (SELECT 1 FROM unnest($5::bigint[], $6::bigint[]) AS t (e, s) \
             WHERE n.kind = 5 AND n.execution_id = t.e AND (t.s IS NULL OR t.s = n.event_id)) \
           AND NOT EXISTS (SELECT 1 FROM unnest($7::bigint[], $8::bigint[]) AS m (v, p) \
             WHERE n.visible_at = m.v AND n.position = m.p)"
    };
}

/// The first of them. Those after one time and up to another, timers and delayed ones left out, count as visible at the
/// first.
const FIRST_LEFT: &str = concat!(
    "SELECT least((SELECT n.visible_at ",
    messages_left!(),
    " ORDER BY n.visible_at, n.position LIMIT 1), (SELECT $9::bigint ",
    messages_left!(),
    " AND n.kind <> 5 AND n.delayed IS NOT TRUE AND n.visible_at > $9::bigint AND n.visible_at <= $10::bigint LIMIT 1))"
);
const INBOX_BYTES: &str =
    "SELECT sum(octet_length(n.item))::bigint FROM {s}.inbox n WHERE n.instance_key = $1";
const INBOX: &str = "SELECT visible_at, position, kind, execution_id, event_id FROM {s}.inbox \
     WHERE instance_key = $1 ORDER BY visible_at, position";
/// The failure, and how many messages are kept: their positions count from 0 and have no gaps.
const KEPT: &str = "SELECT (SELECT e.failure FROM {s}.executions e WHERE e.instance_key = $1 AND e.execution_id = $2), \
     (SELECT coalesce(max(m.position) + 1, 0) FROM {s}.kept_messages m WHERE m.instance_key = $1)";
const KEPT_ITEMS: &str =
    "SELECT k.item FROM {s}.kept_messages k WHERE k.instance_key = $1 ORDER BY k.position OFFSET $2";
const STORED_EVENT: &str = "SELECT event_id FROM {s}.history WHERE instance_key = $1 AND execution_id = $2 \
     AND event_id = ANY($3::bigint[]) LIMIT 1";
/// The fingerprint of the first input; without one, the first event or the start that still waits.
const FIRST_INPUT: &str = "SELECT i.first_input, \
       CASE WHEN i.first_input IS NULL THEN (SELECT h.event FROM {s}.history h \
         WHERE h.instance_key = i.key AND h.execution_id = $2 AND h.event_id = $3) END, \
       CASE WHEN i.first_input IS NULL THEN (SELECT n.item FROM {s}.inbox n \
         WHERE n.instance_key = i.key AND n.kind = $4 ORDER BY n.visible_at, n.position LIMIT 1) END \
     FROM {s}.instances i WHERE i.key = $1";
const QUEUED: &str =
    "SELECT 1 FROM {s}.work_items WHERE instance_id = $1 AND execution_id = $2 AND activity_id = $3";

impl WorkingSet<'_> {
    /// Reads what a call needs.
    pub(crate) async fn learn(&mut self, conn: &Conn<'_>, need: Need) -> Result<(), Fault> {
        let rows = &mut self.rows;
        match need {
            Need::Instance(id) => {
                // Locked from now on, as those are that were wanted before.
                let found = conn.first(LOCK, &[&Vec::<i64>::new(), &vec![owned_text(&id)]]).await?;
                found.iter().for_each(|row| rows.learn_instance(instance_row::read(row)));
                rows.learn_absent(&id);
            }
            Need::Reserve(id) => return Err(not_reserved(&id)),
            Need::Key => {
                let key = match self.spare_keys.pop() {
                    Some(key) => key,
                    None => next_key(conn).await?,
                };
                rows.learn_keys([new_key(key)]);
            }
            Need::Execution { key, execution_id } => {
                let (keys, ids) = (vec![key], vec![to_column(execution_id)]);
                let row = conn.first(EXECUTIONS, &[&keys, &ids]).await?;
                let execution = row.map(|row| execution_row::read(&row, 0)).transpose()?;
                rows.learn_execution(key, execution_id, execution);
            }
            Need::FirstMessage(question) => {
                let first = first_message(conn, &question).await?;
                rows.learn_first_message(question, first);
            }
            Need::Timers { key, timers } => {
                let timers: Vec<_> = timers.iter().map(|(id, schedule)| (key, *id, *schedule)).collect();
                let (keys, executions, schedules) = timer_columns(&timers);
                let found = conn.query(TIMERS, &[&keys, &executions, &schedules]).await?;
                rows.learn_timers(key, count(found.len()));
            }
            Need::InboxBytes(key) => {
                let row = conn.first(INBOX_BYTES, &[&key]).await?;
                rows.learn_inbox_bytes(key, row.and_then(|row| row.get(0)).unwrap_or(0));
            }
            Need::Inbox(key) => {
                let messages = conn.query(INBOX, &[&key]).await?;
                rows.learn_inbox(key, messages.iter().map(stored_message).collect());
            }
            Need::Kept { key, execution_id } => {
                let row = conn.first(KEPT, &[&key, &to_column(execution_id)]).await?;
                let kept = row.map(|row| KeptRow { failure: row.get(0), count: row.get(1) });
                rows.learn_kept(key, kept.unwrap_or_default());
            }
            Need::StoredEvents { key, execution_id, ids } => {
                let asked: Vec<i64> = ids.iter().copied().map(to_column).collect();
                let row = conn.first(STORED_EVENT, &[&key, &to_column(execution_id), &asked]).await?;
                rows.learn_stored_event(key, execution_id, ids, row.map(|row| from_column(row.get(0))));
            }
            Need::FirstInput(key) => rows.learn_first_input(key, first_input(conn, key).await?),
            Need::KeptItems { key, seen } => {
                let stored = conn.query(KEPT_ITEMS, &[&key, &count(seen)]).await?;
                let items = kept_items(&stored, rows.instance(key).map_or("", |row| &row.instance))?;
                rows.learn_kept_items(key, items);
            }
            Need::Queued { instance, execution_id, activity_id } => {
                let (execution, activity) = (to_column(execution_id), to_column(activity_id));
                let found = conn.first(QUEUED, &[&owned_text(&instance), &execution, &activity]).await?;
                rows.learn_queued(&instance, execution_id, activity_id, found.is_some());
            }
        }
        Ok(())
    }
}

/// A call sends to an id that it did not name before.
pub(crate) fn not_reserved(id: &str) -> Fault {
    Fault::corrupt(format!("'{id}' was not reserved"))
}

async fn next_key(conn: &Conn<'_>) -> Result<i64, Fault> {
    let row = conn.first(KEYS, &[&1_i64]).await?;
    row.map(|row| row.get(0)).ok_or_else(|| Fault::corrupt("the sequence of keys is empty"))
}

async fn first_message(conn: &Conn<'_>, question: &FirstMessage) -> Result<Option<Ms>, Fault> {
    let FirstMessage { key, without, without_timers, without_messages, pulled_back } = question;
    let (now, until) = pulled_back.unzip();
    let params: [&(dyn ToSql + Sync); 10] = [
        key,
        &column!(without, lock => lock.visible_at),
        &column!(without, lock => lock.position),
        &column!(without, lock => lock.watermark),
        &column!(without_timers, (execution_id, _) => to_column(*execution_id)),
        &column!(without_timers, (_, schedule) => schedule.map(to_column)),
        &column!(without_messages, (visible_at, _) => *visible_at),
        &column!(without_messages, (_, position) => *position),
        &now,
        &until,
    ];
    Ok(conn.first(FIRST_LEFT, &params).await?.and_then(|row| row.get(0)))
}

fn stored_message(row: &Row) -> StoredMessage {
    StoredMessage {
        visible_at: row.get(0),
        position: row.get(1),
        kind: row.get(2),
        execution_id: row.get(3),
        event_id: row.get(4),
    }
}

async fn first_input(conn: &Conn<'_>, key: i64) -> Result<FirstInputRow, Fault> {
    let (execution, event) = (to_column(INITIAL_EXECUTION_ID), to_column(INITIAL_EVENT_ID));
    let params: [&(dyn ToSql + Sync); 4] = [&key, &execution, &event, &ItemKind::Start.code()];
    let row = conn.first(FIRST_INPUT, &params).await?;
    let input = |row: Row| FirstInputRow { fingerprint: row.get(0), started: row.get(1), start: row.get(2) };
    Ok(row.map(input).unwrap_or_default())
}

/// The messages kept for an instance, in their order.
pub(crate) async fn kept_messages(conn: &Conn<'_>, instance: &str) -> Result<Vec<WorkItem>, Fault> {
    const SQL: &str = "SELECT k.item FROM {s}.instances i JOIN {s}.kept_messages k ON k.instance_key = ANY (ARRAY[i.key]) \
         WHERE i.instance_id = $1 ORDER BY k.position";
    kept_items(&conn.query(SQL, &[&owned_text(instance)]).await?, instance)
}

fn kept_items(stored: &[Row], instance: &str) -> Result<Vec<WorkItem>, Fault> {
    let named = |cause| Fault::corrupt(format!("a message kept for instance '{instance}': {cause}"));
    stored.iter().map(|row| from_json(row.get(0)).map_err(named)).collect()
}

//! Putting back what the history proves is missing from the queues.

use duroxide_core::{ItemKind, columns_of};
use duroxide_provider::RepairInstance;

use crate::connection::Conn;
use crate::effects::Effects;
use crate::fault::Fault;
use crate::item::{EncodedItem, check_message, check_work};
use crate::messages::{FullInbox, Obstacle};
use crate::pipeline::Pipeline;
use crate::values::{Ms, owned_text, to_column};
use crate::working_set::{Wanted, WorkingSet};

/// A [`RepairInstance`] in its stored form.
#[derive(Debug)]
pub(crate) struct EncodedRepair {
    instance: String,
    execution_id: u64,
    last_event_id: u64,
    activities: Vec<EncodedItem>,
    messages: Vec<EncodedItem>,
    note: EncodedItem,
}

impl EncodedRepair {
    /// Checks everything that can be wrong by itself, and encodes.
    pub(crate) fn new(request: RepairInstance) -> Result<Self, Fault> {
        request.activities.iter().try_for_each(check_work)?;
        request.messages.iter().chain([&request.note]).try_for_each(check_message)?;
        Ok(Self {
            instance: request.instance,
            execution_id: request.execution_id,
            last_event_id: request.last_event_id,
            activities: EncodedItem::all(request.activities)?,
            messages: EncodedItem::all(request.messages)?,
            note: EncodedItem::new(request.note)?,
        })
    }

    fn wants(&self) -> Wanted {
        let mut wanted = Wanted::default();
        wanted.ids.insert(self.instance.clone());
        for item in self.messages.iter().chain([&self.note]) {
            let id = item.item.instance().to_string();
            wanted.starts += usize::from(item.kind() == ItemKind::Start);
            wanted.reserved.insert(id.clone());
            wanted.ids.insert(id);
        }
        wanted
    }
}

/// Puts back what is not there, in a transaction that the caller began; how much that was.
pub(crate) async fn repair(
    conn: &Conn<'_>,
    manual: Option<Ms>,
    request: &EncodedRepair,
) -> Result<(u64, Effects), Fault> {
    let mut set = WorkingSet::join(conn, manual, request.wants()).await?;
    let key = set.look_at_running(request).await?;
    set.recount(key).await?;
    let mut put_back = 0;
    for item in &request.activities {
        if !is_queued(conn, item).await? {
            set.put_work(item);
            put_back += 1;
        }
    }
    for item in &request.messages {
        if !set.is_delivered(key, item).await? {
            set.deliver(item, None, FullInbox::Admit).await.map_err(reserved)?;
            put_back += 1;
        }
    }
    if put_back > 0 {
        set.deliver(&request.note, None, FullInbox::Admit).await.map_err(reserved)?;
    }
    let mut pipeline = Pipeline::default();
    set.flush(&mut pipeline);
    pipeline.run(conn).await?.all()?;
    Ok((put_back, set.effects))
}

fn reserved(obstacle: Obstacle) -> Fault {
    match obstacle {
        Obstacle::Fault(fault) => fault,
        Obstacle::Reserve(id) => Fault::Corrupt(format!("'{id}' was not reserved")),
    }
}

impl WorkingSet<'_> {
    async fn look_at_running(&mut self, request: &EncodedRepair) -> Result<i64, Fault> {
        let EncodedRepair { instance, execution_id, last_event_id, .. } = request;
        let key = self.key_of(instance).await?;
        let key = key.ok_or_else(|| Fault::NotFound(format!("instance '{instance}'")))?;
        self.load_turn(key, *execution_id, &[]).await?;
        let last = self.executions.get(&(key, *execution_id)).map_or(0, |row| row.last_event_id);
        let now = self.now;
        let row = self.instance(key)?;
        let locked = row.lock.is_some() && row.ready_at.is_some_and(|expires| now < expires);
        let same = row.current_execution_id == *execution_id && last == *last_event_id;
        if row.ended || locked || !same {
            return Err(Fault::Invalid(format!("instance '{instance}' is not as it was looked at")));
        }
        Ok(key)
    }

    /// Rows that are gone may still be counted.
    async fn recount(&mut self, key: i64) -> Result<(), Fault> {
        const SQL: &str = "SELECT count(*) FROM {s}.inbox WHERE instance_key = $1";
        let stored: i64 = self.conn()?.first(SQL, &[&key]).await?.map_or(0, |row| row.get(0));
        self.forget_first(key);
        let row = self.instance(key)?;
        row.inbox_count = stored;
        row.lock = None;
        row.note_cancel();
        self.recompute_ready_at(key).await
    }

    /// Whether the message is in the inbox, or the instance that it starts exists.
    async fn is_delivered(&mut self, key: i64, item: &EncodedItem) -> Result<bool, Fault> {
        const SQL: &str = "SELECT 1 FROM {s}.inbox WHERE instance_key = $1 AND kind = $2 \
             AND execution_id IS NOT DISTINCT FROM $3::bigint AND event_id IS NOT DISTINCT FROM $4::bigint LIMIT 1";
        let columns = columns_of(&item.item);
        if columns.kind == ItemKind::Start {
            return Ok(self.key_of(columns.instance).await?.is_some());
        }
        let (execution_id, event_id) = (columns.execution_id.map(to_column), columns.event_id.map(to_column));
        let found = self.conn()?.first(SQL, &[&key, &columns.kind.code(), &execution_id, &event_id]).await?;
        Ok(found.is_some())
    }
}

/// Whether the activity is in the worker queue.
async fn is_queued(conn: &Conn<'_>, item: &EncodedItem) -> Result<bool, Fault> {
    const SQL: &str =
        "SELECT 1 FROM {s}.work_items WHERE instance_id = $1 AND execution_id = $2 AND activity_id = $3";
    let columns = columns_of(&item.item);
    let execution_id = to_column(columns.execution_id.unwrap_or(0));
    let activity_id = to_column(columns.event_id.unwrap_or(0));
    let found = conn.first(SQL, &[&owned_text(columns.instance), &execution_id, &activity_id]).await?;
    Ok(found.is_some())
}

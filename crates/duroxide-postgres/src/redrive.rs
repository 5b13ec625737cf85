//! Failed instances that go on, and the messages kept for them.

use duroxide_core::redrive::KeptMessages;
use duroxide_core::{ItemKind, Route, WorkItem, columns_of, pack_version, route_after_turn, state_changes};
use duroxide_provider::RedriveInstance;
use duroxide_provider::support::Status;
use semver::Version;

use crate::connection::Conn;
use crate::effects::Effects;
use crate::execution_row::ExecutionRow;
use crate::fault::Fault;
use crate::history::EncodedEvents;
use crate::item::{EncodedItem, check_message, check_work};
use crate::messages::{FullInbox, Obstacle, Visible};
use crate::pipeline::Pipeline;
use crate::values::{Ms, NOT_PINNED, from_column, from_json, owned_text};
use crate::working_set::{Wanted, WorkingSet};

/// A [`RedriveInstance`] in its stored form.
#[derive(Debug)]
pub(crate) struct EncodedRedrive {
    instance: String,
    failed_execution_id: u64,
    last_event_id: u64,
    events: EncodedEvents,
    begins_anew: bool,
    /// The handler that it needs from now on, if that changes.
    route: Option<Route>,
    pinned: Option<Version>,
    activities: Vec<EncodedItem>,
    messages: Vec<EncodedItem>,
    kept_seen: usize,
}

impl EncodedRedrive {
    /// Checks everything that can be wrong by itself, and encodes.
    pub(crate) fn new(one: RedriveInstance) -> Result<Self, Fault> {
        one.activities.iter().try_for_each(check_work)?;
        one.messages.iter().try_for_each(check_message)?;
        let began = state_changes(&one.events).began;
        let route = route_after_turn(&one.instance, began, one.events.is_empty(), &one.messages);
        Ok(Self {
            route,
            instance: one.instance,
            failed_execution_id: one.failed_execution_id,
            last_event_id: one.last_event_id,
            begins_anew: one.events.is_empty(),
            events: EncodedEvents::new(one.events)?,
            pinned: one.pinned,
            activities: EncodedItem::all(one.activities)?,
            messages: EncodedItem::all(one.messages)?,
            kept_seen: one.kept_seen,
        })
    }
}

impl WorkingSet<'_> {
    /// Keeps what is in the inbox of an instance whose turn ends in a failure after which it may go on. Called
    /// before any of it is deleted.
    pub(crate) async fn keep_messages(&mut self, key: i64, mut kept: KeptMessages) -> Result<(), Fault> {
        const INBOX: &str = "SELECT visible_at, position, kind, event_id, item FROM {s}.inbox \
             WHERE instance_key = $1";
        let row = self.instance(key)?;
        let lock = row.lock;
        if row.inbox_count == 0 {
            return Ok(());
        }
        let rows = self.conn()?.query(INBOX, &[&key]).await?;
        let stored = rows.iter().map(|row| {
            let place: (Ms, i64) = (row.get(0), row.get(1));
            (place, row.get::<_, i64>(2), row.get::<_, Option<i64>>(3), row.get::<_, String>(4))
        });
        let added = self
            .writes
            .inbox
            .iter()
            .filter(|row| row.key == key)
            .map(|row| ((row.visible_at, row.position), row.kind.code(), row.event_id, row.json.clone()));
        let mut inbox: Vec<_> = stored.chain(added).collect();
        inbox.sort_unstable();
        let mut order = 0_i64;
        for (place, code, event_id, json) in inbox {
            let taken = lock
                .is_some_and(|lock| place <= (lock.visible_at, lock.position) && place.1 < lock.watermark);
            // A kind that this build does not know is kept: another build may.
            if ItemKind::from_code(code).is_none_or(|kind| kept.keeps(kind, event_id.map(from_column), taken))
            {
                self.writes.kept.push((key, order, json));
                order = order.saturating_add(1);
            }
        }
        Ok(())
    }

    async fn look_at_failed(&mut self, one: &EncodedRedrive) -> Result<i64, Fault> {
        const STATUS: &str = "SELECT status FROM {s}.instances WHERE key = $1";
        let EncodedRedrive { instance, failed_execution_id, last_event_id, .. } = one;
        let key = self.key_of(instance).await?;
        let key = key.ok_or_else(|| Fault::NotFound(format!("instance '{instance}'")))?;
        let status: Option<i64> = self.conn()?.first(STATUS, &[&key]).await?.map(|row| row.get(0));
        self.load_turn(key, *failed_execution_id, &[]).await?;
        self.load_turn(key, failed_execution_id.saturating_add(1), &[]).await?;
        let last = self.executions.get(&(key, *failed_execution_id)).map_or(0, |row| row.last_event_id);
        let current = self.instance(key)?.current_execution_id;
        if status != Some(Status::Failed.code()) || current != *failed_execution_id || last != *last_event_id
        {
            return Err(Fault::Invalid(format!("instance '{instance}' is not as it was looked at")));
        }
        Ok(key)
    }

    /// Makes the next execution current.
    fn begin_again(&mut self, key: i64, one: &EncodedRedrive) -> Result<(), Fault> {
        let now = self.now;
        let next = one.failed_execution_id.saturating_add(1);
        let id = (key, next);
        let mut execution = self.executions.get(&id).cloned().unwrap_or_else(ExecutionRow::new);
        execution.changed = true;
        execution.pinned = one.pinned.as_ref().map(Into::into);
        self.insert_events(key, &mut execution, next, &one.events);
        self.executions.insert(id, execution);
        let row = self.instance(key)?;
        row.ended = false;
        row.updated_at = now;
        row.current_execution_id = next;
        row.pinned_key = one.pinned.as_ref().map_or(NOT_PINNED, pack_version);
        row.not_before = 0;
        row.suspect = false;
        row.suspect_before = false;
        row.pending.queue = true;
        row.pending.route.clone_from(&one.route);
        if one.begins_anew {
            let asked = one.messages.first().and_then(|start| columns_of(&start.item).version);
            row.version = asked.unwrap_or_default().to_string();
            row.pending.description = true;
        }
        self.writes.redriven.push(key);
        self.effects.changed.push(one.instance.clone());
        Ok(())
    }

    /// Puts its activities and messages into the queues, then what was kept since the caller looked.
    async fn fill(
        &mut self,
        key: i64,
        one: &EncodedRedrive,
        kept_since: &[EncodedItem],
    ) -> Result<(), Obstacle> {
        for item in &one.activities {
            self.put_work(item);
        }
        for item in one.messages.iter().chain(kept_since) {
            let columns = columns_of(&item.item);
            if columns.instance == one.instance && columns.kind != ItemKind::Start {
                self.put_message(key, &columns, &item.json, Visible::without_delay(&columns)).await?;
            } else {
                self.deliver(item, None, FullInbox::Admit).await?;
            }
        }
        Ok(())
    }
}

/// Lets these instances go on, all or none, in a transaction that the caller began.
pub(crate) async fn redrive(
    conn: &Conn<'_>,
    manual: Option<Ms>,
    all: &[EncodedRedrive],
) -> Result<Effects, Fault> {
    let mut wanted = Wanted::default();
    for one in all {
        wanted.ids.insert(one.instance.clone());
        for item in &one.messages {
            let id = item.item.instance().to_string();
            wanted.starts += usize::from(item.kind() == ItemKind::Start);
            wanted.reserved.insert(id.clone());
            wanted.ids.insert(id);
        }
    }
    let mut set = WorkingSet::join(conn, manual, wanted).await?;
    let mut keys = Vec::with_capacity(all.len());
    for one in all {
        keys.push(set.look_at_failed(one).await?);
    }
    let mut kept_since = Vec::with_capacity(all.len());
    for (key, one) in keys.iter().zip(all) {
        kept_since.push(EncodedItem::all(kept_messages(conn, &one.instance, one.kept_seen).await?)?);
        set.begin_again(*key, one)?;
    }
    // Only now all of them run, so that what one sends to another finds it.
    for ((key, one), kept_since) in keys.iter().zip(all).zip(&kept_since) {
        set.fill(*key, one, kept_since).await.map_err(|obstacle| match obstacle {
            Obstacle::Fault(fault) => fault,
            Obstacle::Reserve(id) => Fault::Corrupt(format!("'{id}' was not reserved")),
        })?;
    }
    let mut pipeline = Pipeline::default();
    set.flush(&mut pipeline);
    pipeline.run(conn).await?.all()?;
    Ok(set.effects)
}

/// The messages kept for an instance, in their order, without the first ones.
pub(crate) async fn kept_messages(
    conn: &Conn<'_>,
    instance: &str,
    seen: usize,
) -> Result<Vec<WorkItem>, Fault> {
    const SQL: &str = "SELECT k.item FROM {s}.instances i JOIN {s}.kept_messages k ON k.instance_key = ANY (ARRAY[i.key]) \
         WHERE i.instance_id = $1 ORDER BY k.position OFFSET $2";
    let rows = conn.query(SQL, &[&owned_text(instance), &crate::values::count(seen)]).await?;
    let named = |cause| Fault::Corrupt(format!("a message kept for instance '{instance}': {cause}"));
    rows.iter().map(|row| from_json(row.get(0)).map_err(named)).collect()
}

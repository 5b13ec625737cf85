//! Appending to a history without a lock, for tools and tests.

use duroxide_core::{route_after_turn, state_changes};

use crate::connection::Conn;
use crate::effects::Effects;
use crate::execution_row::ExecutionRow;
use crate::fault::Fault;
use crate::history::EncodedEvents;
use crate::pipeline::Pipeline;
use crate::values::Ms;
use crate::working_set::{Wanted, WorkingSet};

/// Appends events, in a transaction that the caller began.
pub(crate) async fn append(
    conn: &Conn<'_>,
    manual: Option<Ms>,
    instance: &str,
    execution_id: u64,
    delta: &EncodedEvents,
) -> Result<Effects, Fault> {
    let mut wanted = Wanted::default();
    wanted.ids.insert(instance.to_string());
    let mut set = WorkingSet::join(conn, manual, wanted).await?;
    let found = set.key_of(instance).await?;
    let key = found.ok_or_else(|| Fault::NotFound(format!("instance '{instance}'")))?;
    let changes = state_changes(delta.events());
    let timers = if changes.drops_all_timers {
        vec![(key, execution_id, None)]
    } else {
        changes.cancelled_timers.iter().map(|id| (key, execution_id, Some(*id))).collect()
    };
    set.load_turn(key, execution_id, &timers).await?;
    let id = (key, execution_id);
    let mut execution = set.executions.get(&id).cloned().unwrap_or_else(ExecutionRow::new);
    let numbered = delta.numbered(execution.last_event_id)?.into_owned();
    set.check_new_events(key, execution_id, &execution, &numbered).await?;
    let row = set.instance(key)?;
    if execution_id >= row.current_execution_id {
        row.pending.route = route_after_turn(instance, changes.began, false, []);
    }
    set.append(key, &mut execution, execution_id, &numbered)?;
    set.executions.insert(id, execution);
    let row = set.instance(key)?;
    row.pending.queue = true;
    if row.lock.is_none() {
        set.recompute_ready_at(key).await?;
    }
    set.effects.changed.push(instance.to_string());
    let mut pipeline = Pipeline::default();
    set.flush(&mut pipeline);
    pipeline.run(conn).await?.all()?;
    Ok(set.effects)
}

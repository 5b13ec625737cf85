//! Calls that are carried out each for itself, in a transaction that somebody else began: those of operators and tools, and
//! messages that are sent inside a transaction of the caller.

use duroxide_provider::rules::{Answer, Call, Effects, Wanted};

use crate::connections::connection::Conn;
use crate::connections::pipeline::Pipeline;
use crate::fault::Fault;
use crate::rows::needs::not_reserved;
use crate::rows::working_set::{Obstacle, WorkingSet};
use crate::values::Ms;

/// Carries a call out in memory. All that it sends to must be reserved.
pub(crate) async fn prepare<'a>(
    conn: &'a Conn<'_>,
    manual: Option<Ms>,
    call: &Call,
    wanted: &Wanted,
) -> Result<(WorkingSet<'a>, Answer), Fault> {
    let mut set = WorkingSet::join(conn, manual, wanted).await?;
    match set.carry_out(conn, call).await {
        Ok(answer) => Ok((set, answer)),
        Err(Obstacle::Fault(fault)) => Err(fault),
        Err(Obstacle::Reserve(id)) => Err(not_reserved(&id)),
    }
}

/// Carries a call out and writes what it changed.
pub(crate) async fn carry_out(
    conn: &Conn<'_>,
    manual: Option<Ms>,
    call: &Call,
) -> Result<(Answer, Effects), Fault> {
    let mut wanted = Wanted::default();
    call.wants(&mut wanted);
    let (set, answer) = prepare(conn, manual, call, &wanted).await?;
    let mut pipeline = Pipeline::default();
    let flushed = set.flush(&mut pipeline);
    let answers = pipeline.run(conn).await?.all()?;
    let (mut effects, _) = set.rows.finish();
    effects.expired += flushed.expired(&answers);
    Ok((answer, effects))
}

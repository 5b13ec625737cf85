//! Deleting old executions.

use duroxide::{InstanceFilter, PruneOptions};
use serde_json::json;

use crate::arguments::Prune;
use crate::chosen::{ChosenBy, Selection, named};
use crate::confirm::{Consent, Go, confirm};
use crate::failure::{Exit, Outcome};
use crate::output::{Output, Record};
use crate::session::Session;

/// How many instances one call prunes.
const STEP: u32 = 1_000;

pub(crate) async fn run(out: &Output, session: &Session, asked: Prune) -> Outcome {
    let selection = if asked.ids.is_empty() {
        let ids = session.admin()?.list_instances_to_prune(asked.keep_last, u32::MAX).await?;
        Selection { ids, by: ChosenBy::Filter }
    } else {
        named(&asked.ids)?
    };
    let consent = Consent { yes: asked.yes, dry_run: asked.dry_run };
    match confirm(&selection, consent, "pruned of old executions")? {
        Go::Ahead => {}
        Go::NoFurther => return Ok(Exit::Done),
    }
    let options = PruneOptions { keep_last: Some(asked.keep_last), completed_before: asked.ended_before };
    let (mut executions, mut events) = (0, 0);
    if let ([id], ChosenBy::OneId) = (selection.ids.as_slice(), selection.by) {
        // Tells of an id that does not exist.
        let pruned = session.client.prune_executions(id, options).await?;
        (executions, events) = (pruned.executions_deleted, pruned.events_deleted);
    } else {
        for ids in selection.ids.chunks(usize::try_from(STEP).unwrap_or(usize::MAX)) {
            let filter =
                InstanceFilter { instance_ids: Some(ids.to_vec()), limit: Some(STEP), ..Default::default() };
            let pruned = session.client.prune_executions_bulk(filter, options.clone()).await?;
            executions += pruned.executions_deleted;
            events += pruned.events_deleted;
        }
    }
    out.record(&Record {
        id: executions.to_string(),
        fields: vec![("executions deleted", executions.to_string()), ("events deleted", events.to_string())],
        json: json!({ "executions_deleted": executions, "events_deleted": events }),
    })?;
    Ok(Exit::Done)
}

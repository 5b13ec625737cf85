//! Cancelling, deleting and redriving instances, one or many.

use duroxide::{ClientError, SendOutcome};
use serde_json::json;

use crate::arguments::{Cancel, Chosen, Delete};
use crate::chosen::{ChosenBy, Selection, select};
use crate::confirm::{Consent, Go, confirm};
use crate::failure::{Exit, Failed, Outcome};
use crate::output::Output;
use crate::session::Session;
use crate::table::{Column, Listing, Row, whole};

const RESULTS: &[Column] = &[whole("ID"), whole("RESULT")];

/// What became of one instance: a word, or why nothing was changed.
type Changed = Result<String, Failed>;

pub(super) async fn cancel(out: &Output, session: &Session, cancel: Cancel) -> Outcome {
    let Some(selection) = agreed(session, &cancel.chosen, "cancelled").await? else { return Ok(Exit::Done) };
    let mut results = Vec::new();
    for id in &selection.ids {
        let sent = session.client.cancel_instance_checked(id, cancel.reason.clone()).await;
        let changed = match sent {
            Ok(SendOutcome::Delivered | SendOutcome::Kept) => Ok("cancel requested".to_string()),
            Ok(SendOutcome::NotFound) => Err(Failed::no_instance(id)),
            Ok(SendOutcome::Ended) => Err(Failed::new(Exit::No, format!("instance '{id}' has ended"))),
            Err(error) => Err(error.into()),
        };
        results.push((id.clone(), stop_if_store_is_gone(changed)?));
    }
    report(out, &selection, results)
}

pub(super) async fn delete(out: &Output, session: &Session, delete: Delete) -> Outcome {
    let Some(selection) = agreed(session, &delete.chosen, "deleted").await? else { return Ok(Exit::Done) };
    let mut results = Vec::new();
    for id in &selection.ids {
        let deleted = session.client.delete_instance(id, delete.force).await;
        let changed = match deleted {
            Ok(result) if result.instances_deleted == 1 => Ok("deleted".to_string()),
            Ok(result) => Ok(format!("deleted with {} children", result.instances_deleted.saturating_sub(1))),
            // A filter names children as well; they go with their roots.
            Err(ClientError::InstanceNotFound { .. } | ClientError::CannotDeleteSubOrchestration { .. })
                if selection.by == ChosenBy::Filter =>
            {
                Ok("goes with its root".to_string())
            }
            Err(error) => Err(error.into()),
        };
        results.push((id.clone(), stop_if_store_is_gone(changed)?));
    }
    report(out, &selection, results)
}

pub(super) async fn redrive(out: &Output, session: &Session, chosen: Chosen) -> Outcome {
    let Some(selection) = agreed(session, &chosen, "redriven").await? else { return Ok(Exit::Done) };
    let mut results = Vec::new();
    for id in &selection.ids {
        let changed = match session.client.redrive(id).await {
            Ok(done) => Ok(format!("goes on as execution {}", done.execution_id)),
            // The instance cannot be redriven, and the text says why.
            Err(ClientError::InvalidInput { message }) => Err(Failed::new(Exit::No, message)),
            Err(error) => Err(error.into()),
        };
        results.push((id.clone(), stop_if_store_is_gone(changed)?));
    }
    report(out, &selection, results)
}

/// The instances, once the operator agreed; `None` if there is nothing to do.
async fn agreed(session: &Session, chosen: &Chosen, done: &str) -> Result<Option<Selection>, Failed> {
    let selection = select(session, chosen).await?;
    let consent = Consent { yes: chosen.yes, dry_run: chosen.dry_run };
    Ok(match confirm(&selection, consent, done)? {
        Go::Ahead => Some(selection),
        Go::NoFurther => None,
    })
}

/// What is wrong with one instance does not keep the others; a store that is gone does.
fn stop_if_store_is_gone(changed: Changed) -> Result<Changed, Failed> {
    match changed {
        Err(failed) if failed.exit == Exit::Store => Err(failed),
        other => Ok(other),
    }
}

/// Tells what became of each. One instance gives its own exit code; of many, any that was not changed gives 1.
fn report(out: &Output, selection: &Selection, results: Vec<(String, Changed)>) -> Outcome {
    let mut exit = Exit::Done;
    let mut rows = Vec::new();
    for (id, changed) in results {
        let (is_done, text) = match changed {
            Ok(text) => (true, text),
            Err(failed) if selection.by == ChosenBy::OneId => return Err(failed),
            Err(failed) => {
                exit = Exit::Error;
                (false, format!("not changed: {}", failed.what))
            }
        };
        let json = json!({ "id": id, "changed": is_done, "result": text });
        rows.push(Row { id: id.clone(), cells: vec![id, text], json });
    }
    out.listing(&Listing { columns: RESULTS, rows })?;
    Ok(exit)
}

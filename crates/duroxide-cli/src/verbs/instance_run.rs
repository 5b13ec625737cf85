//! Starting instances, and waiting for their end.

use std::time::Duration;

use duroxide::{OrchestrationStatus, StartOutcome};
use serde_json::json;
use tokio::time::Instant;

use crate::arguments::{Start, Wait};
use crate::chosen::{named, payload};
use crate::failure::{Exit, Failed, Outcome};
use crate::output::{Output, Record};
use crate::session::Session;
use crate::table::{Column, Listing, Row, column};
use crate::when;

pub(super) async fn start(out: &Output, session: &Session, start: Start) -> Outcome {
    let Start { name, id, input, handler_version } = start;
    let input = payload(&input)?;
    let outcome = match handler_version {
        Some(version) => {
            session.client.start_orchestration_versioned_checked(&id, &name, version, input).await?
        }
        None => session.client.start_orchestration_checked(&id, &name, input).await?,
    };
    let (word, exit) = match outcome {
        StartOutcome::Started => ("started", Exit::Done),
        StartOutcome::AlreadyExists { orchestration, same_input: true } if orchestration == name => {
            ("already started with the same input", Exit::Done)
        }
        StartOutcome::AlreadyExists { orchestration, .. } => {
            let what =
                format!("the id '{id}' is taken by an instance of '{orchestration}'; nothing was changed");
            return Err(Failed::new(Exit::No, what).help("duroxide instance show ID"));
        }
    };
    out.record(&Record {
        id: id.clone(),
        fields: vec![("id", id.clone()), ("result", word.to_string())],
        json: json!({ "id": id, "result": word }),
    })?;
    Ok(exit)
}

const ENDED: &[Column] = &[column("ID"), column("STATUS"), column("OUTPUT")];

pub(super) async fn wait(out: &Output, session: &Session, wait: Wait) -> Outcome {
    let ids = named(&wait.ids)?.ids;
    // An unknown id would be waited for as one that is yet to be started.
    for id in &ids {
        session.info(id).await?;
    }
    let deadline = wait.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut rows = Vec::new();
    let mut exit = Exit::Done;
    for id in ids {
        let left =
            deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
        let status = session.client.wait_for_orchestration(&id, left).await.map_err(|error| {
            let failed = Failed::from(error);
            match (failed.exit, wait.timeout) {
                (Exit::Timeout, Some(timeout)) => {
                    let what = format!("instance '{id}' has not ended within {}", when::span(timeout));
                    Failed::new(Exit::Timeout, what).help("duroxide instance show ID")
                }
                (_, _) => failed,
            }
        })?;
        let (word, output) = match status {
            OrchestrationStatus::Completed { output, .. } => ("Completed", output),
            OrchestrationStatus::Failed { details, .. } => {
                exit = Exit::No;
                ("Failed", details.display_message())
            }
            OrchestrationStatus::NotFound | OrchestrationStatus::Running { .. } => {
                return Err(Failed::no_instance(&id));
            }
        };
        let json = json!({ "id": id, "status": word, "output": output });
        rows.push(Row { id: id.clone(), cells: vec![id, word.to_string(), output], json });
    }
    out.listing(&Listing { columns: ENDED, rows })?;
    Ok(exit)
}

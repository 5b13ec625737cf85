//! Recorded histories against the code of this build. Changes nothing.

use std::path::PathBuf;

use duroxide::providers::ProviderErrorKind;
use duroxide::{Builder, ClientError, Handlers, RecordedHistory, ReplayError};
use serde_json::json;

use crate::arguments::Filter;
use crate::chosen::for_each_instance;
use crate::failure::{Exit, Failed, Outcome};
use crate::output::Output;
use crate::session::Session;
use crate::table::{Column, Listing, Row, column, whole};

const MISMATCHES: &[Column] = &[column("HISTORY"), whole("PROBLEM")];

/// The handlers of the program that these commands are a part of.
pub(crate) fn handlers(program: Option<Builder>) -> Result<Handlers, Failed> {
    let Some(program) = program else {
        return Err(Failed::usage("this binary has no handlers to replay with")
            .help("make one with duroxide_cli::Cli::with(builder) in the program that has them"));
    };
    program.handlers().map_err(|error| Failed::new(Exit::Error, error.to_string()))
}

/// Replays histories that stand in files.
pub(crate) fn files(out: &Output, handlers: &Handlers, paths: &[PathBuf]) -> Outcome {
    let mut report = Report::default();
    for path in paths {
        let name = path.display().to_string();
        let json = std::fs::read_to_string(path)
            .map_err(|error| Failed::usage(format!("cannot read '{name}': {error}")))?;
        report.add(name, RecordedHistory::parse(&json).and_then(|history| handlers.replay(&history)));
    }
    report.tell(out)
}

/// Replays the current execution of every running instance.
pub(crate) async fn running(
    out: &Output,
    session: &Session,
    handlers: &Handlers,
    filter: &Filter,
) -> Outcome {
    let mut query = filter.query();
    query.status = Some("Running".to_string());
    let mut instances = Vec::new();
    for_each_instance(session, query, |info| instances.push((info.instance_id, info.current_execution_id)))
        .await?;
    let mut report = Report::default();
    for (id, execution) in instances {
        let events = match session.client.read_execution_history(&id, execution).await {
            Ok(events) => events,
            // It was deleted since it was listed.
            Err(ClientError::Provider(error)) if error.kind() == ProviderErrorKind::NotFound => continue,
            Err(error) => return Err(error.into()),
        };
        // One that has not begun fits every build.
        if !events.is_empty() {
            let replayed =
                RecordedHistory::of_execution(events).and_then(|history| handlers.replay(&history));
            report.add(id, replayed);
        }
    }
    report.tell(out)
}

/// What came of the histories.
#[derive(Default)]
struct Report {
    replayed: usize,
    mismatches: Vec<Row>,
}

impl Report {
    fn add(&mut self, history: String, replayed: Result<(), ReplayError>) {
        self.replayed += 1;
        if let Err(error) = replayed {
            let problem = error.to_string();
            let json = json!({ "history": history, "problem": problem });
            self.mismatches.push(Row { id: history.clone(), cells: vec![history, problem], json });
        }
    }

    fn tell(self, out: &Output) -> Outcome {
        let (replayed, wrong) = (self.replayed, self.mismatches.len());
        out.listing(&Listing { columns: MISMATCHES, rows: self.mismatches })?;
        Output::note(&format!("{} of {replayed} histories are replayed by this build", replayed - wrong));
        Ok(if wrong == 0 { Exit::Done } else { Exit::No })
    }
}

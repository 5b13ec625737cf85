//! One instance: its state, its history, its tree.

use std::collections::BTreeMap;

use duroxide::providers::Bounce;
use duroxide::{Event, OrchestrationStatus};
use serde_json::{Value, json};

use super::instance_list::json_of;
use crate::arguments::History;
use crate::escape::escaped;
use crate::failure::{Exit, Failed, Outcome};
use crate::output::{Format, Output, Record};
use crate::session::Session;
use crate::table::{Column, Listing, Row, coloured, column, wide};
use crate::when;

pub(super) async fn show(out: &Output, session: &Session, id: &str) -> Outcome {
    let info = session.info(id).await?;
    let status = session.client.get_orchestration_status(id).await?;
    let executions = session.client.list_executions(id).await?;
    let bounces = session.client.get_bounces(id).await?;
    let mut json = json_of(&info);
    let mut fields = vec![
        ("id", info.instance_id.clone()),
        ("status", info.status.clone()),
        ("orchestration", info.orchestration_name.clone()),
        ("version", info.orchestration_version.clone()),
        ("execution", info.current_execution_id.to_string()),
        ("executions", executions.len().to_string()),
        ("created", when::local(info.created_at)),
        ("updated", when::local(info.updated_at)),
    ];
    if let Some(parent) = &info.parent_instance_id {
        fields.push(("parent", parent.clone()));
    }
    json["executions"] = json!(executions);
    let custom = match &status {
        OrchestrationStatus::NotFound => return Err(Failed::no_instance(id)),
        OrchestrationStatus::Running { custom_status, .. } => custom_status,
        OrchestrationStatus::Completed { output, custom_status, .. } => {
            fields.push(("output", output.clone()));
            json["output"] = json!(output);
            custom_status
        }
        OrchestrationStatus::Failed { details, custom_status, .. } => {
            fields.push(("error", details.display_message()));
            fields.push(("category", details.category().to_string()));
            json["error"] = json!(details.display_message());
            json["category"] = json!(details.category());
            custom_status
        }
    };
    if let Some(custom) = custom {
        fields.push(("custom status", custom.clone()));
    }
    json["custom_status"] = json!(custom);
    if let Some(bounce) = &bounces.turn {
        fields.push(("next turn", bounced(bounce)));
        json["turn_given_back"] = json_of_bounce(bounce);
    }
    for activity in &bounces.activities {
        fields.push(("activity", format!("{}: {}", activity.name, bounced(&activity.bounce))));
    }
    let given_back = bounces.activities.iter().map(|activity| {
        let mut json = json_of_bounce(&activity.bounce);
        json["name"] = json!(activity.name);
        json["event"] = json!(activity.activity_id);
        json
    });
    json["activities_given_back"] = given_back.collect();
    out.record(&Record { id: info.instance_id.clone(), fields, json })?;
    Ok(Exit::Done)
}

fn bounced(bounce: &Bounce) -> String {
    let next = bounce
        .next_try_ms
        .map_or("it is tried now".to_string(), |at| format!("next try {}", when::local(at)));
    format!("given back after {} attempts: {}; {next}", bounce.attempts, bounce.cause)
}

fn json_of_bounce(bounce: &Bounce) -> Value {
    json!({
        "cause": bounce.cause.to_string(),
        "at": when::utc(bounce.at_ms),
        "attempts": bounce.attempts,
        "next_try": bounce.next_try_ms.map(when::utc),
    })
}

const EVENTS: &[Column] =
    &[column("EVENT"), column("TIME"), column("KIND"), column("OF"), column("WHAT"), wide("BUILD")];

/// What stands in columns of its own.
const HEADER: [&str; 7] = [
    "event_id",
    "source_event_id",
    "instance_id",
    "execution_id",
    "timestamp_ms",
    "duroxide_version",
    "type",
];

pub(super) async fn history(out: &Output, session: &Session, asked: History) -> Outcome {
    let info = session.info(&asked.id).await?;
    let execution = asked.execution.unwrap_or(info.current_execution_id);
    let known = session.client.list_executions(&asked.id).await?;
    if !known.contains(&execution) {
        let known: Vec<String> = known.iter().map(u64::to_string).collect();
        let what = format!("'{}' has no execution {execution}; it has {}", asked.id, known.join(", "));
        return Err(Failed::new(Exit::NotFound, what));
    }
    let events = session.client.read_execution_history(&asked.id, execution).await?;
    let rows: Result<Vec<Row>, Failed> = events.iter().map(event_row).collect();
    out.listing(&Listing { columns: EVENTS, rows: rows? })?;
    Ok(Exit::Done)
}

/// The event as it is stored, with its time as text besides.
fn event_row(event: &Event) -> Result<Row, Failed> {
    let mut json = serde_json::to_value(event).map_err(|error| {
        Failed::new(Exit::Error, format!("event {} cannot be written: {error}", event.event_id))
    })?;
    let kind = json["type"].as_str().unwrap_or_default().to_string();
    let rest = json
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, value)| !HEADER.contains(&name.as_str()) && !value.is_null());
    let rest: Vec<String> = rest
        .map(|(name, value)| match value.as_str() {
            Some(text) => format!("{name}={text}"),
            None => format!("{name}={value}"),
        })
        .collect();
    json["time"] = json!(when::utc(event.timestamp_ms));
    Ok(Row {
        id: event.event_id.to_string(),
        cells: vec![
            event.event_id.to_string(),
            when::local(event.timestamp_ms),
            kind,
            event.source_event_id.map(|id| id.to_string()).unwrap_or_default(),
            rest.join(" "),
            event.duroxide_version.clone(),
        ],
        json,
    })
}

pub(super) async fn tree(out: &Output, session: &Session, id: &str) -> Outcome {
    let tree = session.client.get_instance_tree(id).await?;
    let mut rows = Vec::new();
    let mut depths: BTreeMap<String, usize> = BTreeMap::new();
    let mut lines: Vec<Branch> = Vec::new();
    for id in &tree.all_ids {
        let info = session.info(id).await?;
        let parent = info.parent_instance_id.as_ref();
        let depth = parent.and_then(|parent| depths.get(parent)).map_or(0, |depth| depth + 1);
        depths.insert(id.clone(), depth);
        // Behind the last of the branch that the parent has so far.
        let at = match parent.and_then(|parent| lines.iter().position(|line| line.id == *parent)) {
            Some(at) => lines[at + 1..]
                .iter()
                .position(|line| line.depth < depth)
                .map_or(lines.len(), |end| at + 1 + end),
            None => lines.len(),
        };
        lines.insert(
            at,
            Branch {
                id: id.clone(),
                depth,
                status: info.status.clone(),
                name: info.orchestration_name.clone(),
            },
        );
        rows.push(Row { id: id.clone(), cells: Vec::new(), json: json_of(&info) });
    }
    match out.format() {
        Format::Table | Format::Wide => {
            let line = |line: &Branch| {
                let (indent, id, name) = ("  ".repeat(line.depth), escaped(&line.id), escaped(&line.name));
                format!("{indent}{id}  {}  {name}\n", coloured(&line.status, out.colour()))
            };
            out.data(&lines.iter().map(line).collect::<String>())?;
        }
        Format::Json | Format::Jsonl | Format::Ids => out.listing(&Listing { columns: &[], rows })?,
    }
    Ok(Exit::Done)
}

/// One line of a tree.
struct Branch {
    id: String,
    depth: usize,
    status: String,
    name: String,
}

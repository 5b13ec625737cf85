//! Listing and counting instances.

use duroxide::{Cursor, InstanceInfo};
use serde_json::json;

use crate::arguments::{Filter, List};
use crate::chosen::for_each_instance;
use crate::escape::escaped;
use crate::failure::{Exit, Outcome};
use crate::output::{Output, Record};
use crate::session::Session;
use crate::table::{Column, Listing, Row, column, whole, wide};
use crate::when;

const COLUMNS: &[Column] = &[
    whole("ID"),
    column("STATUS"),
    column("ORCHESTRATION"),
    wide("VERSION"),
    wide("EXECUTION"),
    column("CREATED"),
    column("UPDATED"),
    wide("PARENT"),
];

/// The most that one page has.
const LARGEST_PAGE: u32 = 1_000;

pub(super) async fn list(out: &Output, session: &Session, list: List) -> Outcome {
    let mut query = list.filter.query();
    query.after = list.after.map(Cursor::new);
    let wanted = if list.all { usize::MAX } else { usize::try_from(list.limit).unwrap_or(usize::MAX) };
    let mut found: Vec<InstanceInfo> = Vec::new();
    let next = loop {
        let left = u32::try_from(wanted - found.len()).unwrap_or(LARGEST_PAGE);
        query.limit = Some(left.clamp(1, LARGEST_PAGE));
        let page = session.client.list_instances_page(&query).await?;
        found.extend(page.instances);
        match page.next {
            Some(next) if found.len() < wanted => query.after = Some(next),
            next => break next,
        }
    };
    if found.is_empty() {
        Output::note("no instances match");
    }
    out.listing(&Listing { columns: COLUMNS, rows: found.iter().map(row).collect() })?;
    if let Some(next) = next {
        Output::note(&format!("there are more: --after '{}', or --all", escaped(next.as_str())));
    }
    Ok(Exit::Done)
}

fn row(info: &InstanceInfo) -> Row {
    Row {
        id: info.instance_id.clone(),
        cells: vec![
            info.instance_id.clone(),
            info.status.clone(),
            info.orchestration_name.clone(),
            info.orchestration_version.clone(),
            info.current_execution_id.to_string(),
            when::local(info.created_at),
            when::local(info.updated_at),
            info.parent_instance_id.clone().unwrap_or_default(),
        ],
        json: json_of(info),
    }
}

/// An instance as programs read it.
pub(super) fn json_of(info: &InstanceInfo) -> serde_json::Value {
    json!({
        "id": info.instance_id,
        "status": info.status,
        "orchestration": info.orchestration_name,
        "version": info.orchestration_version,
        "execution": info.current_execution_id,
        "created": when::utc(info.created_at),
        "updated": when::utc(info.updated_at),
        "parent": info.parent_instance_id,
    })
}

pub(super) async fn count(out: &Output, session: &Session, filter: &Filter) -> Outcome {
    let count = if filter.is_empty() {
        session.client.get_system_metrics().await?.total_instances
    } else {
        let mut count = 0_u64;
        for_each_instance(session, filter.query(), |_| count += 1).await?;
        count
    };
    out.record(&Record {
        id: count.to_string(),
        fields: vec![("instances", count.to_string())],
        json: json!({ "instances": count }),
    })?;
    Ok(Exit::Done)
}

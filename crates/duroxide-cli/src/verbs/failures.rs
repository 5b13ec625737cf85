//! Failed instances, grouped by what failed them.

use std::collections::BTreeMap;

use serde_json::json;

use crate::arguments::FailuresOf;
use crate::chosen::for_each_instance;
use crate::failure::{Exit, Outcome};
use crate::normalise::normalised;
use crate::output::Output;
use crate::session::Session;
use crate::table::{Column, Listing, Row, column};
use crate::when;

const GROUPS: &[Column] = &[
    column("COUNT"),
    column("ORCHESTRATION"),
    column("ERROR"),
    column("FIRST SEEN"),
    column("LAST SEEN"),
    column("LATEST"),
];

/// The failures of one orchestration with one error.
struct Group {
    count: u64,
    first_ms: u64,
    last_ms: u64,
    latest: String,
}

pub(crate) async fn run(out: &Output, session: &Session, of: &FailuresOf) -> Outcome {
    let mut query = of.filter.query();
    query.status = Some("Failed".to_string());
    query.with_output = true;
    let mut groups: BTreeMap<(String, String), Group> = BTreeMap::new();
    for_each_instance(session, query, |info| {
        let error = normalised(info.output.as_deref().unwrap_or_default());
        let at = info.updated_at;
        let new = || Group { count: 0, first_ms: at, last_ms: at, latest: info.instance_id.clone() };
        let group = groups.entry((info.orchestration_name.clone(), error)).or_insert_with(new);
        group.count += 1;
        group.first_ms = group.first_ms.min(at);
        if at > group.last_ms {
            group.last_ms = at;
            group.latest.clone_from(&info.instance_id);
        }
    })
    .await?;
    if groups.is_empty() {
        Output::note("nothing has failed");
    }
    let mut groups: Vec<((String, String), Group)> = groups.into_iter().collect();
    // The sort keeps the order of names among equals.
    groups.sort_by_key(|(_, group)| std::cmp::Reverse((group.count, group.last_ms)));
    let rows = groups.into_iter().map(|((name, error), group)| Row {
        id: group.latest.clone(),
        json: json!({
            "count": group.count,
            "orchestration": name,
            "error": error,
            "first_seen": when::utc(group.first_ms),
            "last_seen": when::utc(group.last_ms),
            "latest": group.latest,
        }),
        cells: vec![
            group.count.to_string(),
            name,
            error,
            when::local(group.first_ms),
            when::local(group.last_ms),
            group.latest,
        ],
    });
    out.listing(&Listing { columns: GROUPS, rows: rows.collect() })?;
    Ok(Exit::Done)
}

//! The nodes that work on the store.

use duroxide::{AcceptedTags, NodeInfo, NodeRecord};
use serde_json::json;

use crate::arguments::NodeVerb;
use crate::failure::{Exit, Outcome};
use crate::output::Output;
use crate::session::Session;
use crate::table::{Column, Listing, Row, column, wide};
use crate::when;

const NODES: &[Column] = &[
    column("NODE"),
    column("STATE"),
    column("BUILD"),
    column("JOINED"),
    column("LAST SEEN"),
    wide("ORCHESTRATIONS"),
    wide("ACTIVITIES"),
    wide("TAGS"),
];

pub(crate) async fn run(out: &Output, session: &Session, verb: NodeVerb) -> Outcome {
    match verb {
        NodeVerb::List => {}
    }
    let now_ms = session.admin()?.now_ms().await?;
    let nodes = session.client.list_nodes().await?;
    if nodes.is_empty() {
        Output::note("no node was seen within a day");
    }
    out.listing(&Listing { columns: NODES, rows: nodes.iter().map(|node| row(node, now_ms)).collect() })?;
    Ok(Exit::Done)
}

fn row(node: &NodeRecord, now_ms: u64) -> Row {
    let state = match (node.is_live(now_ms), node.left_at_ms) {
        (true, _) => "live",
        (false, Some(_)) => "left",
        (false, None) => "silent",
    };
    let of = |tell: fn(&NodeInfo) -> Vec<String>| node.info.as_ref().map(tell).unwrap_or_default();
    let build = node.info.as_ref().map(|info| info.build_version.to_string()).unwrap_or_default();
    let orchestrations = of(|info| info.orchestrations.orchestrations.keys().cloned().collect());
    let activities = of(|info| info.activities.iter().cloned().collect());
    let tags = of(|info| match &info.tags {
        AcceptedTags::Any => vec!["any".to_string()],
        AcceptedTags::These { untagged, tags } => {
            untagged.then(|| "untagged".to_string()).into_iter().chain(tags.iter().cloned()).collect()
        }
    });
    Row {
        id: node.node_id.clone(),
        cells: vec![
            node.node_id.clone(),
            state.to_string(),
            build.clone(),
            when::local(node.joined_at_ms),
            when::local(node.last_seen_ms),
            orchestrations.join(","),
            activities.join(","),
            tags.join(","),
        ],
        json: json!({
            "node": node.node_id,
            "state": state,
            "build": build,
            "joined": when::utc(node.joined_at_ms),
            "last_seen": when::utc(node.last_seen_ms),
            "left": node.left_at_ms.map(when::utc),
            "orchestrations": orchestrations,
            "activities": activities,
            "tags": tags,
        }),
    }
}

//! What waits, and what no live node can do.

use duroxide::UnprocessableWork;
use serde_json::json;

use crate::arguments::QueueVerb;
use crate::failure::{Exit, Outcome};
use crate::output::Output;
use crate::session::Session;
use crate::table::{Column, Listing, Row, column};
use crate::when;

const QUEUES: &[Column] = &[column("QUEUE"), column("WAITING"), column("OLDEST"), column("PROBLEM")];

pub(crate) async fn run(out: &Output, session: &Session, verb: QueueVerb) -> Outcome {
    match verb {
        QueueVerb::List => {}
    }
    let depths = session.client.get_queue_depths().await?;
    let mut rows = vec![
        row("messages", depths.orchestrator_queue),
        row("activities", depths.worker_queue),
        row("timers", depths.timer_queue),
    ];
    for waiting in session.client.get_waiting_by_tag().await? {
        let name = match &waiting.tag {
            Some(tag) => format!("activities with tag '{tag}'"),
            None => "activities without a tag".to_string(),
        };
        rows.push(Row {
            id: name.clone(),
            json: json!({ "queue": name, "waiting": waiting.waiting, "oldest_seconds": waiting.oldest_age.as_secs(), "tag": waiting.tag }),
            cells: vec![name, waiting.waiting.to_string(), when::span(waiting.oldest_age), String::new()],
        });
    }
    rows.extend(session.client.find_unprocessable_work().await?.iter().map(stuck));
    out.listing(&Listing { columns: QUEUES, rows })?;
    Ok(Exit::Done)
}

fn row(name: &str, waiting: usize) -> Row {
    Row {
        id: name.to_string(),
        cells: vec![name.to_string(), waiting.to_string(), String::new(), String::new()],
        json: json!({ "queue": name, "waiting": waiting }),
    }
}

fn stuck(work: &UnprocessableWork) -> Row {
    let (what, problem) = (work.what.to_string(), work.missing.to_string());
    Row {
        id: what.clone(),
        json: json!({ "queue": what, "waiting": work.count, "oldest_seconds": work.oldest_age.as_secs(), "problem": problem }),
        cells: vec![what, work.count.to_string(), when::span(work.oldest_age), problem],
    }
}

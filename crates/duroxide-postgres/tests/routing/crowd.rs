//! Others' work, however much of it stands before ours, costs a fetch nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide::Client;
use duroxide::providers::support::{one_turn, one_work};
use duroxide::providers::{HandlerSet, HandlerVersions, Provider as _, TagFilter, TurnRequest, WorkRequest};
use duroxide_postgres::PostgresProvider;

use crate::support::{new_schema, open, options, raw};

/// Ready before ours.
const CROWD: u32 = 50_000;
const FETCHES: u32 = 20;
/// One that goes through the crowd needs more than this for each handler.
const MOST: Duration = Duration::from_millis(100);

fn handlers() -> Arc<HandlerSet> {
    let version = semver::Version::new(1, 0, 0);
    let versions = HandlerVersions { versions: [version.clone()].into(), unversioned: Some(version) };
    let others = (0..50).map(|n| (format!("Other {n}"), versions.clone()));
    HandlerSet { orchestrations: others.chain([("Mine".to_string(), versions.clone())]).collect() }.into()
}

fn activities() -> Arc<BTreeSet<String>> {
    Arc::new((0..50).map(|n| format!("Other {n}")).chain(["Mine".to_string()]).collect())
}

/// Copies the instance and the work item that are for others.
async fn crowd(schema: &str) {
    let sql = "INSERT INTO {s}.queues SELECT (jsonb_populate_record(q, jsonb_build_object('key', -n))).* \
           FROM {s}.queues q CROSS JOIN generate_series(1, {n}) AS n WHERE q.route_name = 'Theirs'; \
         INSERT INTO {s}.work_items SELECT (jsonb_populate_record(w, jsonb_build_object( \
             'id', -n, 'instance_id', 'copy ' || n))).* \
           FROM {s}.work_items w CROSS JOIN generate_series(1, {n}) AS n WHERE w.name = 'Theirs'; \
         ANALYZE {s}.queues; ANALYZE {s}.work_items";
    let sql = sql.replace("{s}", schema).replace("{n}", &CROWD.to_string());
    raw().await.batch_execute(&sql).await.expect("a crowd");
}

async fn fetch(store: &PostgresProvider) -> (Option<String>, Option<String>) {
    let lock = Duration::from_secs(60);
    let turns = TurnRequest { handlers: Some(handlers()), ..one_turn(lock, Duration::ZERO, None) };
    let work = WorkRequest {
        activities: Some(activities()),
        ..one_work(lock, Duration::ZERO, None, &TagFilter::DefaultOnly)
    };
    let turn = store.fetch_turns(turns).await.expect("fetched").into_iter().next();
    let work = store.fetch_work(work).await.expect("fetched").into_iter().next();
    (turn.map(|turn| turn.item.instance), work.map(|work| work.item.instance().to_string()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_of_others_work_costs_a_fetch_nothing() {
    let schema = new_schema();
    let store = Arc::new(open(options(&schema)).await);
    let client = Client::new(store.clone());
    let activity = |instance: String, name: &str| duroxide::providers::WorkItem::ActivityExecute {
        instance,
        execution_id: 1,
        id: 2,
        name: name.to_string(),
        input: String::new(),
        session_id: None,
        tag: None,
    };
    client.start_orchestration("theirs", "Theirs", "").await.expect("started");
    store.enqueue_for_worker(activity("theirs".to_string(), "Theirs")).await.expect("queued");
    crowd(&schema).await;
    for n in 0..FETCHES {
        client.start_orchestration(format!("mine {n}"), "Mine", "").await.expect("started");
        store.enqueue_for_worker(activity(format!("mine {n}"), "Mine")).await.expect("queued");
    }
    let begun = Instant::now();
    for n in 0..FETCHES {
        let mine = Some(format!("mine {n}"));
        assert_eq!(fetch(&store).await, (mine.clone(), mine), "in their order");
    }
    assert_eq!(fetch(&store).await, (None, None), "the rest is for others");
    assert!(begun.elapsed() < MOST * FETCHES, "{:?} for {FETCHES} fetches", begun.elapsed());
}

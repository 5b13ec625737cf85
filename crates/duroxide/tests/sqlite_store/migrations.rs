//! Files of earlier schemas: opening one migrates it, and finds what is in it.

use std::collections::BTreeSet;
use std::sync::Arc;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::providers::{
    Enqueued, HandlerSet, HandlerVersions, Provider, SessionFetchConfig, StartOutcome, TurnRequest, WorkItem,
    WorkRequest,
};
use semver::Version;

use crate::fixture::{LONG, NOW, Place, activity, raised, start, turn_request, work_request};

const FIRST: &str = include_str!("../../../duroxide-sqlite/src/migrations/0001_initial.sql");
const SECOND: &str = include_str!("../../../duroxide-sqlite/src/migrations/0002_kept_messages.sql");
const THIRD: &str = include_str!("../../../duroxide-sqlite/src/migrations/0003_nodes_and_routes.sql");
/// What marks a file as one of ours.
const APPLICATION_ID: i64 = 0x6475_726F;

/// A file as the first schema had it.
fn first_schema(rows: &str) -> Place {
    schema_of(&[FIRST], rows)
}

/// A file that has seen these migrations.
fn schema_of(migrations: &[&str], rows: &str) -> Place {
    let place = Place::new();
    let raw = place.raw();
    raw.execute_batch(&migrations.concat()).unwrap();
    raw.execute_batch(rows).unwrap();
    let version = migrations.len();
    raw.execute_batch(&format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {version}"))
        .unwrap();
    place
}

/// An instance with one message in its inbox, of kind and JSON.
fn instance(key: i64, version: &str, execution: i64, last_event: i64, kind: i64, item: &str) -> String {
    format!(
        "INSERT INTO instances (key, instance_id, incarnation, name, version, created_at, updated_at, status, \
           current_execution_id, pinned_key, inbox_count, next_position, ready_at) \
           VALUES ({key}, 'i{key}', {key}, 'Flow', '{version}', 5, 5, 1, {execution}, -1, 1, 2, {key}); \
         INSERT INTO executions (instance_key, execution_id, status, started_at, last_event_id) \
           VALUES ({key}, {execution}, 1, 5, {last_event}); \
         INSERT INTO inbox (instance_key, visible_at, position, kind, item) VALUES ({key}, {key}, 1, {kind}, '{item}');"
    )
}

fn json(item: &WorkItem) -> String {
    serde_json::to_string(item).unwrap()
}

async fn fetched(store: &SqliteProvider, versions: &[u64]) -> Vec<String> {
    let versions: BTreeSet<Version> = versions.iter().map(|major| Version::new(*major, 0, 0)).collect();
    let unversioned = versions.last().cloned();
    let handlers = HandlerVersions { versions, unversioned };
    let set = HandlerSet { orchestrations: [("Flow".to_string(), handlers)].into() };
    let request = TurnRequest { handlers: Some(Arc::new(set)), ..turn_request(10, NOW) };
    let turns = store.fetch_turns(request).await.unwrap();
    turns.into_iter().map(|turn| turn.item.instance).collect()
}

#[tokio::test]
async fn instances_of_the_first_schema_get_their_routes() {
    let next = |version: &str| {
        format!(
            r#"{{"ContinueAsNew":{{"instance":"x","orchestration":"Flow","input":"it''s",{version}"parent_instance":null,"parent_id":null}}}}"#
        )
    };
    let rows = [
        instance(1, "1.0.0", 1, 4, 6, &json(&raised("i1", "begun"))),
        instance(2, "", 1, 0, 1, &json(&start("i2"))),
        instance(3, "1.0.0", 2, 0, 2, &next(r#""version":"2.0.0","#)),
        instance(4, "1.0.0", 2, 0, 2, &next(r#""version":null,"#)),
        instance(5, "1.0.0", 2, 0, 2, "{not JSON"),
        instance(6, "7.0.0", 1, 4, 7, r#"{"CancelInstance":{"instance":"i6","reason":"enough"}}"#),
    ];
    let place = first_schema(&rows.concat());
    let store = place.open().await;
    let version: i64 = place.raw().query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    assert!(version >= 2);
    // What is damaged keeps the version that ran.
    assert_eq!(fetched(&store, &[2]).await, ["i2", "i3", "i4", "i6"]);
    assert_eq!(fetched(&store, &[9]).await, Vec::<String>::new());
    assert_eq!(fetched(&store, &[1]).await, ["i1", "i5"]);
}

#[tokio::test]
async fn work_of_the_first_schema_is_found_by_name_and_session() {
    let row = |id: u64, name: &str, session: &str| {
        let item = json(&activity("a", id));
        format!(
            "INSERT INTO work_items (instance_id, execution_id, activity_id, name, tag, session_id, visible_at, \
               ready_at, lock_nonce, item) \
             VALUES ('a', 1, {id}, '{name}', '', {session}, {id}, {id}, -9223372036854775808, '{item}');"
        )
    };
    let rows = [
        row(1, "A", "NULL"),
        row(2, "B", "NULL"),
        row(3, "A", "'s'"),
        row(4, "B", "'s'"),
        row(5, "B", "'s'"),
        "INSERT INTO session_heads VALUES ('s', '', 0, 3, 3);".to_string(),
    ];
    let place = first_schema(&rows.concat());
    let store = place.open().await;
    let request = WorkRequest {
        activities: Some(Arc::new(BTreeSet::from(["B".to_string()]))),
        session: Some(SessionFetchConfig { owner_id: "me".to_string(), lock_timeout: LONG }),
        ..work_request(10, NOW)
    };
    let work = store.fetch_work(request).await.unwrap();
    let items: Vec<_> = work.into_iter().map(|work| work.item).collect();
    assert_eq!(items, [activity("a", 2), activity("a", 4), activity("a", 5)]);
}

/// `start` of the fixture with this input.
fn start_with(instance: &str, input: &str) -> WorkItem {
    let mut item = start(instance);
    if let WorkItem::StartOrchestration { input: stored, .. } = &mut item {
        *stored = input.to_string();
    }
    item
}

#[tokio::test]
async fn starts_are_compared_with_inputs_that_the_third_schema_kept_no_fingerprint_of() {
    let started = r#"{"event_id":1,"source_event_id":null,"instance_id":"i2","execution_id":1,"timestamp_ms":5,"duroxide_version":"1.0.0","type":"OrchestrationStarted","name":"Flow","version":"1.0.0","input":"one","parent_instance":null,"parent_id":null}"#;
    let rows = [
        instance(1, "", 1, 0, 1, &json(&start_with("i1", "one"))),
        instance(2, "1.0.0", 1, 1, 6, &json(&raised("i2", "begun"))),
        format!(
            "INSERT INTO history (instance_key, execution_id, event_id, event) VALUES (2, 1, 1, '{started}');"
        ),
        // Its first execution was pruned.
        instance(3, "1.0.0", 2, 1, 6, &json(&raised("i3", "begun"))),
    ];
    let place = schema_of(&[FIRST, SECOND, THIRD], &rows.concat());
    let store = place.open().await;
    let told = async |item: WorkItem| store.enqueue_checked(item, None).await.unwrap();
    let exists = |same_input| {
        Enqueued::Start(StartOutcome::AlreadyExists { orchestration: "Flow".to_string(), same_input })
    };
    for instance in ["i1", "i2"] {
        assert_eq!(told(start_with(instance, "one")).await, exists(true), "{instance}");
        assert_eq!(told(start_with(instance, "two")).await, exists(false), "{instance}");
    }
    assert_eq!(told(start_with("i3", "one")).await, exists(false), "nothing is known of its input");
    assert_eq!(told(start_with("i4", "one")).await, Enqueued::Start(StartOutcome::Started));
    assert_eq!(told(start_with("i4", "one")).await, exists(true));
}

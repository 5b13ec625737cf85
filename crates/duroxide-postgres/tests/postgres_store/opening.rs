//! Opening stores: many at once, and those that must be refused.

use std::time::Duration;

use duroxide::providers::support::one_turn;
use duroxide::providers::{
    Enqueued, HandlerSet, HandlerVersions, Provider as _, ProviderAdmin as _, ProviderErrorKind,
    StartOutcome, TurnRequest, WorkItem,
};
use duroxide_postgres::{PostgresOptions, PostgresProvider};

use crate::support::{new_schema, open, options, raw, url};

#[tokio::test(flavor = "multi_thread")]
async fn twenty_nodes_may_start_at_once_on_an_empty_database() {
    let schema = new_schema();
    let opening = (0..20).map(|_| tokio::spawn(open(PostgresOptions { pool_size: 1, ..options(&schema) })));
    let stores = futures::future::join_all(opening.collect::<Vec<_>>()).await;
    assert!(stores.iter().all(Result::is_ok));
    let count = raw().await.query_one(&format!("SELECT count(*) FROM {schema}.duroxide_schema"), &[]).await;
    assert_eq!(count.expect("one schema").get::<_, i64>(0), 1);
}

#[tokio::test]
async fn a_schema_is_created_and_migrated_only_if_told() {
    use duroxide::providers::OpenMode;
    let (schema, url) = (new_schema(), url());
    let in_mode =
        |open_mode| PostgresProvider::new(&url, Some(PostgresOptions { open_mode, ..options(&schema) }));
    for mode in [OpenMode::AsIs, OpenMode::Migrate] {
        let refused = in_mode(mode).await.expect_err("there is no store");
        assert!(refused.to_string().contains("holds no store"), "{refused}");
    }
    drop(open(options(&schema)).await);
    drop(in_mode(OpenMode::AsIs).await.expect("up to date"));
    let sql = format!("UPDATE {schema}.duroxide_schema SET version = 1");
    raw().await.batch_execute(&sql).await.expect("changed");
    let refused = in_mode(OpenMode::AsIs).await.expect_err("older");
    assert!(refused.to_string().contains("schema 1 is older"), "{refused}");
    let separator = if url.contains('?') { '&' } else { '?' };
    let facts = duroxide_postgres::inspect(&format!("{url}{separator}schema={schema}")).await.expect("told");
    assert_eq!(facts.schema, Some(1));
    assert!(facts.size_bytes.is_some_and(|size| size > 0) && facts.now_ms.is_some());
}

#[tokio::test]
async fn a_newer_schema_is_refused_with_its_number() {
    let schema = new_schema();
    drop(open(options(&schema)).await);
    let sql = format!("UPDATE {schema}.duroxide_schema SET version = 99");
    raw().await.batch_execute(&sql).await.expect("changed");
    let refused = PostgresProvider::new(&url(), Some(options(&schema))).await.expect_err("refused");
    assert_eq!(refused.kind(), ProviderErrorKind::Invalid);
    assert!(refused.to_string().contains("schema 99 is newer"), "{refused}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable_and_the_url_is_not_quoted() {
    let gone = PostgresProvider::new("postgres://u:secret@127.0.0.1:1/x", None).await.expect_err("refused");
    assert!(gone.is_retryable() && !gone.to_string().contains("secret"), "{gone}");
    let wrong = PostgresProvider::new("postgres://u:secret@h/x?bogus=1", None).await.expect_err("refused");
    assert_eq!(wrong.kind(), ProviderErrorKind::Invalid);
    assert!(!wrong.to_string().contains("secret"), "{wrong}");
}

#[tokio::test]
async fn stores_in_two_schemas_know_nothing_of_each_other() {
    // A name that needs quoting, too.
    let second = format!("{} \"two\"", new_schema());
    let (one, two) = (open(options(&new_schema())).await, open(options(&second)).await);
    let event = WorkItem::StartOrchestration {
        instance: "a".to_string(),
        orchestration: "O".to_string(),
        input: "nul \0 and escape \u{1b}0".to_string(),
        version: None,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    };
    two.enqueue_for_orchestrator(event, None).await.expect("started");
    assert_eq!(one.list_instances().await.expect("listed"), Vec::<String>::new());
    assert_eq!(two.list_instances().await.expect("listed"), ["a"]);
    drop(two);
    let again = open(options(&second)).await;
    assert_eq!(again.list_instances().await.expect("listed"), ["a"]);
}

#[tokio::test]
async fn a_store_of_the_first_schema_is_brought_up_to_date_with_its_routes() {
    let schema = new_schema();
    let client = duroxide::Client::new(std::sync::Arc::new(open(options(&schema)).await));
    client.start_orchestration("a", "Mine", "").await.expect("started");
    client.start_orchestration_versioned("b", "Mine", "2.0.0", "").await.expect("started");
    client.start_orchestration("c", "Theirs", "").await.expect("started");
    client.cancel_instance("c", "stop").await.expect("cancelled");
    drop(client);
    back_to_the_fourth(&schema).await;
    let back = "DROP FUNCTION {s}.conflict; DROP FUNCTION {s}.reserve_id; DROP FUNCTION {s}.write_group; \
         ALTER TABLE {s}.queues DROP COLUMN revision; \
         ALTER TABLE {s}.queues DROP COLUMN route_name, DROP COLUMN route_version, DROP COLUMN cancelled; \
         DROP TABLE {s}.nodes; DROP INDEX {s}.work_items_routed; DROP INDEX {s}.work_items_routed_of_session; \
         UPDATE {s}.duroxide_schema SET version = 1";
    raw().await.batch_execute(&back.replace("{s}", &schema)).await.expect("as it was");
    let store = open(options(&schema)).await;
    let mut found = Vec::new();
    let version = semver::Version::new(1, 0, 0);
    let versions = HandlerVersions { versions: [version.clone()].into(), unversioned: Some(version) };
    let handlers = HandlerSet { orchestrations: [("Mine".to_string(), versions)].into() };
    let request = TurnRequest {
        handlers: Some(std::sync::Arc::new(handlers)),
        max_items: 10,
        ..one_turn(Duration::from_secs(5), Duration::ZERO, None)
    };
    for turn in store.fetch_turns(request).await.expect("fetched") {
        found.push(turn.item.instance);
    }
    assert_eq!(found, ["a", "c"], "the other version is for others; a cancel is for everybody");
    assert_eq!(store.list_nodes().await.expect("listed"), []);
}

#[tokio::test]
async fn a_store_of_the_third_schema_is_brought_up_to_date_and_goes_on() {
    let schema = new_schema();
    let client = duroxide::Client::new(std::sync::Arc::new(open(options(&schema)).await));
    client.start_orchestration("a", "Mine", "").await.expect("started");
    drop(client);
    back_to_the_fourth(&schema).await;
    let back = "DROP FUNCTION {s}.conflict; DROP FUNCTION {s}.reserve_id; \
         UPDATE {s}.duroxide_schema SET version = 3";
    raw().await.batch_execute(&back.replace("{s}", &schema)).await.expect("as it was");
    let store = std::sync::Arc::new(open(options(&schema)).await);
    let client = duroxide::Client::new(store.clone());
    // The second of these begins with what the first has taught the store.
    for instance in ["b", "c", "a"] {
        client.start_orchestration(instance, "Mine", "").await.expect("started");
    }
    let request = TurnRequest { max_items: 10, ..one_turn(Duration::from_secs(5), Duration::ZERO, None) };
    let turns = store.fetch_turns(request).await.expect("fetched");
    let found: Vec<&str> = turns.iter().map(|turn| turn.item.instance.as_str()).collect();
    assert_eq!(found, ["a", "b", "c"]);
}

/// Makes a store what the fourth schema had it be.
async fn back_to_the_fourth(schema: &str) {
    let back = "DO $$ DECLARE f regprocedure; BEGIN \
           SELECT p.oid INTO f FROM pg_proc p WHERE p.pronamespace = '{s}'::regnamespace \
             AND p.proname = 'write_group' AND p.pronargs = 38; \
           EXECUTE format('DROP FUNCTION %s', f); END $$; \
         ALTER TABLE {s}.inbox DROP COLUMN delayed; \
         ALTER TABLE {s}.instances DROP COLUMN first_input; \
         ALTER TABLE {s}.queues DROP COLUMN bounced_at, DROP COLUMN bounce; \
         ALTER TABLE {s}.work_items DROP COLUMN waiting_since, DROP COLUMN bounced_at, DROP COLUMN bounce, \
           DROP COLUMN forgiven; \
         UPDATE {s}.duroxide_schema SET version = 4";
    raw().await.batch_execute(&back.replace("{s}", schema)).await.expect("as it was");
}

fn start(instance: &str, input: &str) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: instance.to_string(),
        orchestration: "Mine".to_string(),
        input: input.to_string(),
        version: None,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    }
}

#[tokio::test]
async fn starts_are_compared_with_inputs_that_the_fourth_schema_kept_no_fingerprint_of() {
    let schema = new_schema();
    let store = open(options(&schema)).await;
    for instance in ["waiting", "begun", "pruned"] {
        store.enqueue_for_orchestrator(start(instance, "one"), None).await.expect("started");
    }
    drop(store);
    back_to_the_fourth(&schema).await;
    let begun = r#"{"event_id":1,"source_event_id":null,"instance_id":"begun","execution_id":1,"timestamp_ms":5,"duroxide_version":"1.0.0","type":"OrchestrationStarted","name":"Mine","version":"1.0.0","input":"one","parent_instance":null,"parent_id":null}"#;
    let as_they_were = format!(
        "DELETE FROM {{s}}.inbox n USING {{s}}.instances i WHERE i.key = n.instance_key AND i.instance_id <> 'waiting'; \
         INSERT INTO {{s}}.history (instance_key, execution_id, event_id, event) \
           SELECT key, 1, 1, '{begun}' FROM {{s}}.instances WHERE instance_id = 'begun'"
    );
    raw().await.batch_execute(&as_they_were.replace("{s}", &schema)).await.expect("as they were");
    let store = open(options(&schema)).await;
    let told = async |item: WorkItem| store.enqueue_checked(item, None).await.expect("told");
    let exists = |same_input| {
        Enqueued::Start(StartOutcome::AlreadyExists { orchestration: "Mine".to_string(), same_input })
    };
    for instance in ["waiting", "begun"] {
        assert_eq!(told(start(instance, "one")).await, exists(true), "{instance}");
        assert_eq!(told(start(instance, "two")).await, exists(false), "{instance}");
    }
    assert_eq!(told(start("pruned", "one")).await, exists(false), "nothing is known of its input");
    assert_eq!(told(start("new", "one")).await, Enqueued::Start(StartOutcome::Started));
    assert_eq!(told(start("new", "one")).await, exists(true));
}

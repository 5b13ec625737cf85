//! What happens to servers and connections. Whatever it is, what was acknowledged is kept, and all that was begun
//! finishes once it is over.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{ExecutionMetadata, Provider, WorkItem};
use duroxide::runtime::Runtime;
use duroxide::{Client, ClientError};
use duroxide_postgres::{PostgresOptions, PostgresProvider};
use private_postgres::{Durability, Server};

use crate::programs::{PATIENCE, audit_all, node, start_all};
use crate::proxy::Proxy;
use crate::support::{new_schema, open, options, raw, url};

/// Waits until the store has committed this much more.
async fn more_commits(store: &PostgresProvider, more: u64) {
    let until = store.statistics().commits + more;
    while store.statistics().commits < until {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Waits until a node has met what is wrong with the store.
async fn errors_seen(node: &Runtime) {
    while node.metrics_snapshot().expect("a runtime counts").provider_errors == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_restarted_loses_nothing() {
    let server = Server::start(Durability::Full).expect("a server of its own");
    let store = PostgresProvider::new(server.url(), Some(options("restarted"))).await.expect("opened");
    let store = Arc::new(store);
    let client = Client::new(store.clone());
    let _node = node(store.clone()).await;
    let starting = tokio::spawn({
        let client = client.clone();
        async move { start_all(&client, 150).await }
    });
    for _ in 0..2 {
        more_commits(&store, 20).await;
        server.restart().expect("it starts again");
    }
    starting.await.expect("all are started");
    audit_all(&client, 150).await;
    assert!(store.statistics().reconnects >= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_the_server_ends_lose_nothing() {
    let schema = new_schema();
    let name = format!("ended {schema}");
    let store = Arc::new(open(PostgresOptions { application_name: name.clone(), ..options(&schema) }).await);
    let client = Client::new(store.clone());
    let _node = node(store.clone()).await;
    let starting = tokio::spawn({
        let client = client.clone();
        async move { start_all(&client, 150).await }
    });
    let raw = raw().await;
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1";
    for _ in 0..12 {
        more_commits(&store, 5).await;
        raw.execute(end, &[&name]).await.expect("ended");
    }
    starting.await.expect("all are started");
    audit_all(&client, 150).await;
    assert!(store.statistics().reconnects >= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_lost_behind_its_commit_loses_and_repeats_nothing() {
    let proxy = Proxy::start(&url()).await;
    let store = PostgresProvider::new(&proxy.url, Some(options(&new_schema()))).await.expect("opened");
    let store = Arc::new(store);
    let client = Client::new(store.clone());
    proxy.cut_next_commit();
    let started = client.start_orchestration("i0", "FiveSteps", "x").await;
    let error = started.expect_err("the answer was lost");
    assert!(error.is_retryable(), "{error}");
    assert_eq!(client.list_all_instances().await.expect("listed"), ["i0"], "it was committed all the same");
    let _node = node(store).await;
    let cutting = async {
        while proxy.cuts() < 25 {
            proxy.cut_next_commit();
            tokio::time::sleep(Duration::from_millis(15)).await;
            // With nothing left to commit nothing can be cut.
            let waits = client.start_orchestration("spare", "FiveSteps", "x").await;
            assert!(waits.as_ref().is_ok_and(|()| true) || waits.is_err_and(|error| error.is_retryable()));
        }
    };
    tokio::join!(start_all(&client, 30), cutting);
    audit_all(&client, 30).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_fall_silent_are_given_up_and_lose_nothing() {
    let proxy = Proxy::start(&url()).await;
    let second = Duration::from_secs(1);
    let impatient =
        PostgresOptions { statement_timeout: second, connect_timeout: second, ..options(&new_schema()) };
    let store = Arc::new(PostgresProvider::new(&proxy.url, Some(impatient)).await.expect("opened"));
    let client = Client::new(store.clone());
    let _node = node(store.clone()).await;
    for round in 0..3 {
        proxy.silence();
        let begun = std::time::Instant::now();
        // What an answer is waited for, twice: by a call that is under way and by one behind it.
        start_all(&client, 20 * (round + 1)).await;
        audit_all(&client, 20 * (round + 1)).await;
        assert!(begun.elapsed() < Duration::from_secs(20), "noticed after {:?}", begun.elapsed());
    }
    assert!(store.statistics().reconnects >= 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_became_read_only_is_unavailable_until_it_writes_again() {
    let server = Server::start(Durability::Relaxed).expect("a server of its own");
    let store = PostgresProvider::new(server.url(), Some(options("readonly"))).await.expect("opened");
    let store = Arc::new(store);
    let client = Client::new(store.clone());
    let node = node(store.clone()).await;
    start_all(&client, 20).await;
    let (admin, connection) =
        tokio_postgres::connect(server.url(), tokio_postgres::NoTls).await.expect("connected");
    tokio::spawn(connection);
    let set = |value: &str| format!("ALTER SYSTEM SET default_transaction_read_only = {value}");
    admin.batch_execute(&set("on")).await.expect("set");
    admin.batch_execute("SELECT pg_reload_conf()").await.expect("told");
    let refused = loop {
        match client.start_orchestration("late", "FiveSteps", "x").await {
            Err(error) => break error,
            Ok(()) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    assert!(refused.is_retryable(), "{refused}");
    errors_seen(&node).await;
    admin.batch_execute("SET default_transaction_read_only = off").await.expect("for this connection");
    admin.batch_execute(&set("off")).await.expect("set");
    admin.batch_execute("SELECT pg_reload_conf()").await.expect("told");
    start_all(&client, 40).await;
    audit_all(&client, 40).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_delays_and_fails_nothing() {
    let schema = new_schema();
    let store = Arc::new(open(options(&schema)).await);
    let client = Client::new(store.clone());
    let raw = raw().await;
    let fill = format!(
        "CREATE FUNCTION {schema}.full() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' \
            USING ERRCODE = 'disk_full'; END $$; \
         CREATE TRIGGER full_disk BEFORE INSERT ON {schema}.history EXECUTE FUNCTION {schema}.full()"
    );
    raw.batch_execute(&fill).await.expect("made");
    let node = node(store.clone()).await;
    start_all(&client, 20).await;
    errors_seen(&node).await;
    let failed = client.list_instances_by_status("Failed").await.expect("listed");
    assert!(failed.is_empty(), "an outage is never a workflow's failure: {failed:?}");
    raw.batch_execute(&format!("DROP TRIGGER full_disk ON {schema}.history")).await.expect("room again");
    audit_all(&client, 20).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_is_used_up_makes_callers_wait_and_breaks_nothing() {
    let schema = new_schema();
    let tight =
        PostgresOptions { pool_size: 1, connect_timeout: Duration::from_millis(500), ..options(&schema) };
    let store = Arc::new(open(tight).await);
    let client = Client::new(store.clone());
    let _node = node(store.clone()).await;
    start_all(&client, 50).await;
    let reads = (0..500).map(|n| {
        let client = client.clone();
        tokio::spawn(async move { client.get_orchestration_status(&format!("i{}", n % 50)).await })
    });
    for read in futures::future::join_all(reads.collect::<Vec<_>>()).await {
        match read.expect("no panic") {
            Ok(_) => {}
            Err(ClientError::Provider(error)) => assert!(error.is_retryable(), "{error}"),
            Err(error) => panic!("{error}"),
        }
    }
    audit_all(&client, 50).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_would_deadlock_is_counted_and_the_call_carried_out_again() {
    let schema = new_schema();
    let store = Arc::new(open(options(&schema)).await);
    let client = Client::new(store.clone());
    for id in ["a", "b"] {
        client.start_orchestration(id, "Waits", "").await.expect("started");
    }
    let lock = format!(
        "SELECT 1 FROM {schema}.queues WHERE key = (SELECT key FROM {schema}.instances WHERE instance_id = $1) \
         FOR UPDATE"
    );
    let mut other = raw().await;
    let tx = other.transaction().await.expect("begun");
    tx.query(&lock, &[&"b"]).await.expect("locked");
    let fetched = store.fetch_orchestration_item(PATIENCE, Duration::ZERO, None).await.expect("asked");
    let (item, token, _) = fetched.expect("the oldest is ready");
    assert_eq!(item.instance, "a");
    // The turn of `a` sends to `b`: its transaction holds `a` and waits for `b`.
    let ack = tokio::spawn({
        let store = store.clone();
        let event = WorkItem::ExternalRaised {
            instance: "b".to_string(),
            name: "go".to_string(),
            data: "1".to_string(),
        };
        async move {
            let metadata = ExecutionMetadata::default();
            store.ack_orchestration_item(&token, 1, vec![], vec![], vec![event], metadata, vec![]).await
        }
    });
    // It gives up soon, because it waits for the row with all calls of the process.
    while store.statistics().conflicts == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // It has let go of `a`, and goes on when `b` is free.
    tx.query(&lock, &[&"a"]).await.expect("locked");
    assert!(!ack.is_finished());
    tx.rollback().await.expect("rolled back");
    ack.await.expect("no panic").expect("committed");
    let stats = store.get_instance_stats("b").await.expect("read").expect("there");
    assert_eq!(stats.queue_pending_count, 2, "the start and one event, not two");
}

#[tokio::test(flavor = "multi_thread")]
async fn serialization_failures_are_counted_and_the_calls_carried_out_again() {
    const FAILURES: u64 = 7;
    let schema = new_schema();
    let store = Arc::new(open(options(&schema)).await);
    let client = Client::new(store.clone());
    let raw = raw().await;
    // A sequence counts on, also where its transaction is rolled back.
    let fail = format!(
        "CREATE SEQUENCE {schema}.failures; \
         CREATE FUNCTION {schema}.fail() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN IF nextval('{schema}.failures') <= {FAILURES} THEN \
              RAISE EXCEPTION 'could not serialize access' USING ERRCODE = 'serialization_failure'; END IF; \
            RETURN NULL; END $$; \
         CREATE TRIGGER fail BEFORE INSERT ON {schema}.history EXECUTE FUNCTION {schema}.fail()"
    );
    raw.batch_execute(&fail).await.expect("made");
    let node = node(store.clone()).await;
    start_all(&client, 20).await;
    audit_all(&client, 20).await;
    assert_eq!(store.statistics().conflicts, FAILURES);
    assert_eq!(node.metrics_snapshot().expect("counted").provider_errors, 0, "no caller has heard of it");
}

//! Calls whose caller goes away in their middle leave nothing behind.

use std::sync::Arc;
use std::time::Duration;

use duroxide::Client;
use duroxide::testing::{FaultProvider, FaultRates, SeededFaults};
use duroxide_postgres::PostgresOptions;

use crate::programs::{audit_all, node, start_all};
use crate::support::{new_schema, open, options, raw};

#[tokio::test(flavor = "multi_thread")]
async fn no_transaction_stays_open_behind_a_call_that_is_dropped() {
    let schema = new_schema();
    let name = format!("dropped {schema}");
    let options = PostgresOptions { application_name: name.clone(), pool_size: 4, ..options(&schema) };
    let store = Arc::new(open(options).await);
    let client = Client::new(store.clone());
    let raw = raw().await;
    // Somebody holds what the calls are about: they stop in the middle of their transactions.
    let _running = node(store).await;
    start_all(&client, 4).await;
    audit_all(&client, 4).await;
    let lock = format!("BEGIN; SELECT FROM {schema}.instances FOR UPDATE");
    raw.batch_execute(&lock).await.expect("locked");
    for n in 0..4 {
        let instance = format!("i{n}");
        let deletion = client.delete_instance(&instance, false);
        tokio::time::timeout(Duration::from_millis(200), deletion).await.expect_err("it waits for the lock");
    }
    raw.batch_execute("COMMIT").await.expect("free again");
    let open = "SELECT count(*) FROM pg_stat_activity \
                WHERE application_name = $1 AND state LIKE 'idle in transaction%'";
    let begun = std::time::Instant::now();
    while raw.query_one(open, &[&name]).await.expect("counted").get::<_, i64>(0) > 0 {
        assert!(begun.elapsed() < Duration::from_secs(10), "a transaction stays open");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    audit_all(&client, 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_third_of_all_calls_dropped_in_their_middle_loses_nothing() {
    let store = Arc::new(open(options(&new_schema())).await);
    let faults = Arc::new(SeededFaults::new(7, FaultRates { dropped: 3_333, ..FaultRates::default() }));
    let impatient = Arc::new(FaultProvider::new(store.clone()).with_source(faults.clone()));
    let client = Client::new(impatient.clone());
    let _node = node(impatient).await;
    start_all(&client, 60).await;
    // Management calls have connections in common. What one leaves behind must not become part of the next.
    for n in 0..60 {
        let id = format!("gone{n}");
        while client.start_orchestration(&id, "Waits", "").await.is_err() {}
        while client.delete_instance(&id, true).await.is_err_and(|error| error.is_retryable()) {}
    }
    faults.stop();
    audit_all(&client, 60).await;
    let left = client.list_all_instances().await.expect("listed");
    assert_eq!(left.len(), 60, "what was deleted is gone: {left:?}");
    let health = client.health().await.expect("checked");
    assert!(health.findings.is_empty(), "{health:?}");
}

//! Starting and sending inside a transaction of the caller.

use std::sync::Arc;

use duroxide::{Client, OrchestrationStatus};

use crate::programs::{PATIENCE, node};
use crate::support::{new_schema, open, options, raw};

#[tokio::test(flavor = "multi_thread")]
async fn a_row_and_a_start_commit_together_or_not_at_all() {
    let schema = new_schema();
    let store = Arc::new(open(options(&schema)).await);
    let client = Client::new(store.clone());
    let _node = node(store.clone()).await;
    let mut own = raw().await;
    own.batch_execute(&format!("CREATE TABLE {schema}.orders (id TEXT PRIMARY KEY)")).await.expect("made");
    let insert = format!("INSERT INTO {schema}.orders VALUES ($1)");

    let tx = own.transaction().await.expect("begun");
    tx.execute(&insert, &[&"lost"]).await.expect("inserted");
    client.start_orchestration_in(&store.within(&tx), "lost", "FiveSteps", "x").await.expect("started");
    client.enqueue_event_in(&store.within(&tx), "lost", "queue", "data").await.expect("sent");
    tx.rollback().await.expect("rolled back");

    let tx = own.transaction().await.expect("begun");
    tx.execute(&insert, &[&"kept"]).await.expect("inserted");
    client.start_orchestration_in(&store.within(&tx), "kept", "Waits", "").await.expect("started");
    client.raise_event_in(&store.within(&tx), "kept", "go", "now").await.expect("raised");
    assert_eq!(client.get_orchestration_status("kept").await.expect("read"), OrchestrationStatus::NotFound);
    tx.commit().await.expect("committed");

    let status = client.wait_for_orchestration("kept", PATIENCE).await.expect("seen");
    assert!(
        matches!(&status, OrchestrationStatus::Completed { output, .. } if output == "now"),
        "{status:?}"
    );
    assert_eq!(client.list_all_instances().await.expect("listed"), ["kept"]);
    let rows = own.query(&format!("SELECT id FROM {schema}.orders"), &[]).await.expect("read");
    assert_eq!(rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>(), ["kept"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_in_an_open_transaction_holds_up_a_second_start_of_the_id_only() {
    let store = Arc::new(open(options(&new_schema())).await);
    let client = Client::new(store.clone());
    let mut own = raw().await;
    let tx = own.transaction().await.expect("begun");
    client.start_orchestration_in(&store.within(&tx), "a", "FiveSteps", "mine").await.expect("started");
    let second = tokio::spawn({
        let client = client.clone();
        async move { client.start_orchestration("a", "Waits", "theirs").await }
    });
    tx.commit().await.expect("committed");
    second.await.expect("no panic").expect("a second start is no mistake");
    let info = client.get_instance_info("a").await.expect("there");
    assert_eq!(info.orchestration_name, "FiveSteps", "the first start counts");
}

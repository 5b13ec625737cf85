//! What only the inside can bring about: a full disk, a transaction that SQLite ends, a panic in a call.

use std::sync::Arc;

use duroxide_core::WorkItem;
use duroxide_provider::{Provider, ProviderErrorKind};

use super::{SqliteProvider, fault::Fault};

fn raised(instance: &str, data: String) -> WorkItem {
    WorkItem::ExternalRaised { instance: instance.to_string(), name: "go".to_string(), data }
}

async fn set_page_limit(store: &SqliteProvider, pages: i64) {
    let limit = move |tx: &mut super::tx::Tx<'_>| {
        Ok(tx.db.execute_batch(&format!("PRAGMA max_page_count = {pages}"))?)
    };
    store.write("limit", 0, limit).await.unwrap();
}

#[tokio::test]
async fn a_full_disk_is_a_retryable_failure_that_ends_with_its_cause() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", directory.path().join("store.db").display());
    let store = SqliteProvider::new(&url, None).await.unwrap();
    store.enqueue_for_orchestrator(raised("a", "before".to_string()), None).await.unwrap();
    set_page_limit(&store, 1).await;
    let large = raised("a", "x".repeat(1_000_000));
    let error = store.enqueue_for_orchestrator(large.clone(), None).await.unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (ProviderErrorKind::Unavailable, true), "{error}");
    set_page_limit(&store, i64::from(u32::MAX - 1)).await;
    store.enqueue_for_orchestrator(large, None).await.unwrap();
    let kept = store.read_with("count", |db| {
        Ok(db.first("SELECT count(*) FROM early_messages", [], |row| row.get::<_, i64>(0))?)
    });
    assert_eq!(kept.await.unwrap(), Some(2));
}

#[tokio::test]
async fn a_group_whose_transaction_sqlite_ends_fails_as_a_whole_and_changes_nothing() {
    let store = SqliteProvider::new_in_memory().await.unwrap();
    // Sent together: the writer sees both in one group, or the second alone after the first.
    let ends_it = store.write("ends_it", 0, |tx| {
        tx.db.execute("INSERT INTO sessions VALUES ('s', 'o', 1, 1)", [])?;
        tx.db.execute("ROLLBACK", [])?;
        Err::<(), Fault>(Fault::Invalid("its own failure".to_string()))
    });
    let neighbour = store.write("neighbour", 0, |_| Ok(()));
    let (ended, _) = futures::join!(ends_it, neighbour);
    assert_eq!(ended.unwrap_err().kind(), ProviderErrorKind::Unavailable);
    let rows = store.read_with("count", |db| {
        Ok(db.first("SELECT count(*) FROM sessions", [], |row| row.get::<_, i64>(0))?)
    });
    assert_eq!(rows.await.unwrap(), Some(0));
    store.enqueue_for_orchestrator(raised("a", String::new()), None).await.unwrap();
}

#[tokio::test]
async fn a_call_that_panics_is_rolled_back_and_the_store_goes_on() {
    let store = Arc::new(SqliteProvider::new_in_memory().await.unwrap());
    let panics = store.write::<()>("panics", 0, |tx| {
        tx.db.execute("INSERT INTO sessions VALUES ('s', 'o', 1, 1)", [])?;
        panic!("a bug");
    });
    assert_eq!(panics.await.unwrap_err().kind(), ProviderErrorKind::Other);
    let reads = store.read_with::<()>("reads", |_| panic!("a bug"));
    assert!(reads.await.unwrap_err().is_retryable());
    let rows = store.read_with("count", |db| {
        Ok(db.first("SELECT count(*) FROM sessions", [], |row| row.get::<_, i64>(0))?)
    });
    assert_eq!(rows.await.unwrap(), Some(0));
}

//! Rows that do not decode although they hold a payload, and a store that refuses to commit one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{Provider, ProviderAdmin};
use duroxide::runtime::Runtime;
use duroxide::{Client, OrchestrationStatus};

use crate::programs::{activities, orchestrations};
use crate::runs::{PATIENCE, failure, options};
use crate::{SECRET, check_text};

fn change(path: &Path, sql: &str, params: impl rusqlite::Params) -> usize {
    let raw = rusqlite::Connection::open(path).expect("the file is there");
    raw.busy_timeout(Duration::from_secs(5)).expect("a timeout can be set");
    raw.execute(sql, params).expect("the statement is right")
}

/// Valid JSON whose mistake is the payload itself: a decoder that explains itself would quote it.
fn damaged() -> [String; 3] {
    [
        format!(r#"{{"event_id":"{SECRET}"}}"#),
        format!(
            r#"{{"event_id":1,"instance_id":"i","execution_id":1,"timestamp_ms":1,"duroxide_version":"1.0.0","type":"{SECRET}"}}"#
        ),
        format!("{{\"{SECRET}\": "),
    ]
}

pub(crate) async fn undecodable_rows<P: Provider + ProviderAdmin + 'static>(store: Arc<P>, path: &Path) {
    let client = Client::new(store.clone());
    let in_history = "UPDATE history SET event = ?1 WHERE event_id = 1 AND instance_key = \
                      (SELECT key FROM instances WHERE instance_id = ?2)";
    let in_inbox = "UPDATE inbox SET item = ?1 WHERE instance_key = \
                    (SELECT key FROM instances WHERE instance_id = ?2)";
    for (n, text) in damaged().iter().enumerate() {
        let (history, inbox) = (format!("history {n}"), format!("inbox {n}"));
        let runtime =
            Runtime::start_with_options(store.clone(), activities(), orchestrations(), options()).await;
        client.start_orchestration(&*history, "Wait", SECRET).await.expect("start");
        let wait = async {
            while client.read_execution_history(&history, 1).await.map_or(0, |history| history.len()) < 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.expect("its first turn is stored");
        runtime.shutdown(None).await;
        client.start_orchestration(&*inbox, "Fail", SECRET).await.expect("start");
        assert_eq!(change(path, in_history, (text, &history)), 1);
        assert_eq!(change(path, in_inbox, (text, &inbox)), 1);
        client.raise_event(&*history, "go", SECRET).await.expect("raise");
        let runtime =
            Runtime::start_with_options(store.clone(), activities(), orchestrations(), options()).await;
        for id in [&history, &inbox] {
            let details = failure(&client, id).await;
            check_text(details.display_message());
        }
        let read = store.read(&history).await;
        check_text(read.expect_err("it does not decode"));
        check_text(client.read_execution_history(&history, 1).await.expect_err("it does not decode"));
        runtime.shutdown(None).await;
    }
}

/// A file that is deleted under an open store is logged once, however many calls are refused.
pub(crate) async fn a_lost_file(path: &Path) {
    let url = format!("sqlite:{}", path.display());
    let store = duroxide::providers::sqlite::SqliteProvider::new(&url, None).await.expect("the file opens");
    std::fs::remove_file(path).expect("the file is there");
    let client = Client::new(Arc::new(store));
    for _ in 0..3 {
        client.start_orchestration("lost", "Fail", SECRET).await.expect_err("the start is refused");
        client.list_all_instances().await.expect_err("the read is refused");
    }
}

/// No turn can be committed for a while: each try is logged.
pub(crate) async fn a_store_that_fails(store: Arc<dyn Provider>, path: &Path) {
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON history BEGIN SELECT RAISE(ABORT, 'refused'); END";
    change(path, refuse, []);
    let runtime = Runtime::start_with_options(store.clone(), activities(), orchestrations(), options()).await;
    let client = Client::new(store);
    client.start_orchestration("refused", "Fail", SECRET).await.expect("start");
    let wait = async {
        while runtime.metrics_snapshot().is_none_or(|counted| counted.provider_errors == 0) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("a commit is refused");
    change(path, "DROP TRIGGER refuse", []);
    let ended = client.wait_for_orchestration("refused", PATIENCE).await.expect("it ends");
    assert!(matches!(ended, OrchestrationStatus::Failed { .. }), "{ended:?}");
    runtime.shutdown(None).await;
}

//! Fault 36: what reaches the log, the metrics and the error texts. A process has one log and one recorder of
//! metrics, so this is one test in a program of its own.
#![cfg(feature = "sqlite")]

mod capture;
mod damage;
mod programs;
mod runs;

use std::sync::Arc;

use duroxide::providers::memory::MemoryProvider;
use duroxide::providers::sqlite::SqliteProvider;

use capture::{Labels, Log};

/// Stands in every payload and nowhere else.
const SECRET: &str = "hunter2-in-every-payload";

/// Insists that a text which somebody else may see quotes no payload.
#[track_caller]
fn check_text(text: impl std::fmt::Display) {
    let text = text.to_string();
    assert!(!text.contains(SECRET), "a payload is quoted: {}", text.chars().take(300).collect::<String>());
}

#[tokio::test]
async fn no_payload_reaches_a_log_a_metric_or_a_foreign_text_and_a_runtime_installs_no_subscriber() {
    runs::every_payload(Arc::new(MemoryProvider::new())).await;
    assert!(!tracing::dispatcher::has_been_set(), "a runtime installed a subscriber");
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .try_init()
        .expect("nobody has installed one");
    let labels = Labels::default();
    metrics::set_global_recorder(labels.clone()).expect("nobody has installed one");

    let directory = tempfile::tempdir().expect("a directory for the file");
    let path = directory.path().join("store.db");
    let url = format!("sqlite:{}", path.display());
    let file = Arc::new(SqliteProvider::new(&url, None).await.expect("the file opens"));
    runs::every_payload(Arc::new(MemoryProvider::new())).await;
    runs::every_payload(file.clone()).await;
    runs::changed_code(Arc::new(MemoryProvider::new())).await;
    runs::changed_code(file.clone()).await;
    damage::undecodable_rows(file.clone(), &path).await;
    damage::a_store_that_fails(file, &path).await;
    damage::a_lost_file(&directory.path().join("lost.db")).await;

    let text = log.text();
    for expected in ["runtime started", "begun", "echoing", "not registered", "cannot be decoded", "failed"] {
        assert!(text.contains(expected), "'{expected}' is logged:\n{text}");
    }
    let lost: Vec<&str> = text.lines().filter(|line| line.contains("lost.db")).collect();
    assert!(lost.len() == 1 && lost[0].contains("ERROR"), "a lost file is logged once: {lost:?}");
    let named_otherwise: Vec<&str> =
        text.lines().filter(|line| line.contains(" instance=") && !line.contains(" instance_id=")).collect();
    assert!(named_otherwise.is_empty(), "every line calls it instance_id:\n{}", named_otherwise.join("\n"));
    let leaks: Vec<&str> = text.lines().filter(|line| line.contains(SECRET)).collect();
    assert!(leaks.is_empty(), "payloads in the log:\n{}", leaks.join("\n"));
    let keys = labels.keys();
    for expected in ["duroxide_poison_detected_total", "duroxide_orchestration_duration_seconds"] {
        assert!(keys.iter().any(|key| key.contains(expected)), "'{expected}' is recorded: {keys:?}");
    }
    let leaks: Vec<&String> = keys.iter().filter(|key| key.contains(SECRET)).collect();
    assert!(leaks.is_empty(), "payloads in the metrics: {leaks:?}");
}

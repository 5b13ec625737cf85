//! In SQLite: every kind of bounce is stated.

use std::sync::Arc;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::providers::sqlite::rusqlite::Connection;

use crate::stated_causes::{self, Store};

/// A store in a file of its own, which is gone with the directory.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn file(&self) -> std::path::PathBuf {
        self.0.path().join("store.db")
    }

    async fn open(&self) -> Store {
        let url = format!("sqlite:{}", self.file().display());
        Arc::new(SqliteProvider::new(&url, None).await.expect("the store opens"))
    }
}

#[tokio::test]
async fn a_missing_orchestration_version_or_activity_is_named() {
    let place = Place::new();
    stated_causes::check_missing_handlers(place.open().await).await;
}

#[tokio::test]
async fn the_last_cause_of_other_nodes_is_named_by_the_node_that_poisons() {
    let place = Place::new();
    stated_causes::check_causes_of_other_nodes(place.open().await).await;
}

#[tokio::test]
async fn a_panic_outside_the_program_is_named() {
    let place = Place::new();
    stated_causes::check_panics(place.open().await).await;
}

#[tokio::test]
async fn locks_that_expired_are_named() {
    let place = Place::new();
    stated_causes::check_expired_locks(place.open().await).await;
}

#[tokio::test]
async fn a_version_that_is_not_replayed_is_named() {
    let place = Place::new();
    stated_causes::check_refused_versions(place.open().await).await;
}

#[tokio::test]
async fn a_turn_that_does_not_fit_its_history_is_named() {
    let place = Place::new();
    stated_causes::check_nondeterminism(place.open().await).await;
}

#[tokio::test]
async fn an_event_that_does_not_decode_is_named() {
    let place = Place::new();
    let corrupt = async || {
        let changed = Connection::open(place.file())
            .and_then(|raw| raw.execute("UPDATE history SET event = 'spoilt' WHERE event_id = 1", []));
        assert_eq!(changed.expect("changed"), 1);
    };
    stated_causes::check_undecodable(place.open().await, corrupt).await;
}

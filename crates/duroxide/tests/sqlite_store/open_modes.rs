//! Openings that create nothing and migrate nothing, and what a file tells without being opened as a store.

use duroxide::providers::sqlite::rusqlite::Connection;
use duroxide::providers::{Inspection, OpenMode, ProviderErrorKind};
use duroxide::{backup_store, inspect_store, open_store, open_store_with};

use crate::fixture::Place;

/// What a file is, as far as an opening may change it.
fn marks(place: &Place) -> (i64, i64) {
    let connection = Connection::open(place.path()).expect("opened");
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get(0)).expect("read");
    (number("PRAGMA user_version"), number("SELECT count(*) FROM sqlite_schema"))
}

async fn check_refused(place: &Place, mode: OpenMode, says: &str) {
    let refused = open_store_with(&place.url(), mode).await.err().expect("refused");
    assert!(refused.to_string().contains(says), "{refused}");
}

#[tokio::test]
async fn a_missing_file_is_not_created() {
    let place = Place::new();
    for mode in [OpenMode::AsIs, OpenMode::Migrate] {
        check_refused(&place, mode, "does not exist").await;
        assert!(!place.path().exists());
    }
    assert!(inspect_store(&place.url(), Inspection::Settings).await.is_err());
    assert!(!place.path().exists());
}

#[tokio::test]
async fn an_older_schema_is_migrated_only_if_told() {
    let place = Place::new();
    let first = include_str!("../../../duroxide-sqlite/src/migrations/0001_initial.sql");
    let connection = Connection::open(place.path()).expect("opened");
    connection.execute_batch(first).expect("the first schema");
    connection.execute_batch("PRAGMA application_id = 0x6475726F; PRAGMA user_version = 1").expect("marked");
    drop(connection);
    let before = marks(&place);
    check_refused(&place, OpenMode::AsIs, "schema 1 is older than this build's").await;
    let facts = inspect_store(&place.url(), Inspection::Pages).await.expect("told");
    assert_eq!(facts.schema, Some(1));
    assert_eq!(marks(&place), before);
    drop(open_store_with(&place.url(), OpenMode::Migrate).await.expect("migrated"));
    let facts = inspect_store(&place.url(), Inspection::Settings).await.expect("told");
    assert_eq!(facts.schema, Some(facts.schema_of_build));
    drop(open_store_with(&place.url(), OpenMode::AsIs).await.expect("up to date"));
}

#[tokio::test]
async fn a_newer_schema_is_told_and_not_opened() {
    let place = Place::new();
    drop(open_store(&place.url()).await.expect("created"));
    Connection::open(place.path()).expect("opened").execute_batch("PRAGMA user_version = 99").expect("set");
    for mode in [OpenMode::AsIs, OpenMode::Migrate, OpenMode::CreateOrMigrate] {
        check_refused(&place, mode, "schema 99 is newer").await;
    }
    let facts = inspect_store(&place.url(), Inspection::Settings).await.expect("told");
    assert_eq!(facts.schema, Some(99));
}

#[tokio::test]
async fn a_backup_is_a_store_and_overwrites_nothing() {
    let place = Place::new();
    let copy = Place::new();
    let client = duroxide::Client::new(open_store(&place.url()).await.expect("created"));
    client.start_orchestration("a", "O", "").await.expect("started");
    backup_store(&place.url(), &copy.path()).await.expect("copied while the store is open");
    let copied = duroxide::Client::new(open_store_with(&copy.url(), OpenMode::AsIs).await.expect("opened"));
    assert_eq!(copied.list_all_instances().await.expect("listed"), ["a"]);
    let refused = backup_store(&place.url(), &copy.path()).await.expect_err("it exists");
    assert_eq!(refused.kind(), ProviderErrorKind::Invalid);
}

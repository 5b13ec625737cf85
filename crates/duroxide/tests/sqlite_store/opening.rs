//! Opening: what is refused, what is read back, what is kept.

use duroxide::providers::sqlite::{SqliteOptions, SqliteProvider, Synchronous};
use duroxide::providers::{Provider, ProviderAdmin, ProviderErrorKind};

use crate::fixture::{Ack, Place, assert_kind, enqueue, fetch, fetch_nothing, raised, scheduled, start};

async fn check_refused(url: &str, part: &str) {
    let error = SqliteProvider::new(url, None).await.expect_err("the store is refused");
    assert!(!error.is_retryable(), "{error}");
    assert!(error.to_string().contains(part), "{url}: {error}");
}

#[tokio::test]
async fn a_url_that_names_no_store_is_refused() {
    check_refused("sqlite:", "names no file").await;
    check_refused("postgres:x", "does not begin with 'sqlite:'").await;
    check_refused("sqlite:a.db?journal=off", "unknown parameter 'journal=off'").await;
    check_refused("sqlite:/no/such/directory/a.db", "the directory '/no/such/directory' does not exist")
        .await;
}

#[tokio::test]
async fn a_missing_file_is_created_unless_told_otherwise() {
    let place = Place::new();
    check_refused(&format!("{}?mode=rw", place.url()), "does not exist").await;
    assert!(!place.path().exists());
    drop(SqliteProvider::new(&format!("{}?mode=rwc", place.url()), None).await.unwrap());
    assert!(place.path().exists());
    drop(SqliteProvider::new(&format!("{}?mode=rw", place.url()), None).await.unwrap());
}

#[tokio::test]
async fn a_file_that_is_not_a_database_is_refused_and_stays_as_it_is() {
    let place = Place::new();
    let text = "these are somebody's notes, not a database; long enough to have a header".repeat(3);
    std::fs::write(place.path(), &text).unwrap();
    check_refused(&place.url(), "not a database").await;
    assert_eq!(std::fs::read_to_string(place.path()).unwrap(), text);
}

#[tokio::test]
async fn a_database_of_another_application_is_refused_and_stays_as_it_is() {
    let place = Place::new();
    place.raw().execute_batch("CREATE TABLE theirs (x)").unwrap();
    let before = std::fs::read(place.path()).unwrap();
    check_refused(&place.url(), "another application").await;
    assert_eq!(std::fs::read(place.path()).unwrap(), before);
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_stays_as_it_is() {
    let place = Place::new();
    drop(place.open().await);
    place.raw().execute_batch("PRAGMA user_version = 999").unwrap();
    check_refused(&place.url(), "schema 999 is newer than this build's").await;
    let version: i64 = place.raw().query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    assert_eq!(version, 999);
}

#[tokio::test]
async fn durability_is_what_sqlite_confirms() {
    let place = Place::new();
    let store = place.open().await;
    assert_eq!(store.journal_mode(), "wal");
    assert_eq!(store.synchronous_level(), Synchronous::Full);
    assert_eq!(store.path(), Some(place.path().canonicalize().unwrap().as_path()));
    drop(store);
    let relaxed = SqliteOptions { synchronous: Synchronous::Normal, ..Default::default() };
    assert_eq!(place.open_with(relaxed).await.synchronous_level(), Synchronous::Normal);
    let memory = SqliteProvider::new_in_memory().await.unwrap();
    assert_eq!((memory.journal_mode(), memory.path()), ("memory", None));
}

#[tokio::test]
async fn several_may_open_an_empty_file_at_once() {
    // Often enough for one to look while another is half way through.
    for _ in 0..20 {
        let place = Place::new();
        let (one, two, three) = tokio::join!(place.open(), place.open(), place.open());
        enqueue(&one, start("a")).await;
        enqueue(&two, start("b")).await;
        assert_eq!(three.list_instances().await.unwrap(), ["b", "a"]);
    }
}

#[tokio::test]
async fn everything_is_there_after_reopening() {
    let place = Place::new();
    let store = place.open().await;
    enqueue(&store, start("a")).await;
    enqueue(&store, raised("early", "kept")).await;
    let (_, token, _) = fetch(&store).await;
    let ack = Ack { events: vec![scheduled("a", 1)], ..Ack::default() };
    ack.status("Running").commit(&store, &token).await.unwrap();
    enqueue(&store, raised("a", "later")).await;
    drop(store);

    let store = place.open().await;
    assert_eq!(store.read("a").await.unwrap().len(), 1);
    let (item, token, attempts) = fetch(&store).await;
    assert_eq!((item.history.len(), item.messages, attempts), (1, vec![raised("a", "later")], 1));
    enqueue(&store, start("early")).await;
    let (item, ..) = fetch(&store).await;
    assert_eq!(item.messages, [start("early"), raised("early", "kept")]);
    drop(store);

    // The locks are there as well.
    let store = place.open().await;
    fetch_nothing(&store).await;
    store.abandon_orchestration_item(&token, None, false).await.unwrap();
    assert_eq!(fetch(&store).await.2, 2);
    assert_kind(
        store.abandon_orchestration_item(&token, None, false).await,
        ProviderErrorKind::LockLost,
        "unknown or has expired",
    );
}

#[tokio::test]
async fn a_closed_store_leaves_one_file_behind() {
    let place = Place::new();
    let store = place.open().await;
    enqueue(&store, start("a")).await;
    drop(store);
    let names: Vec<_> = std::fs::read_dir(place.path().parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names, ["store.db"]);
}

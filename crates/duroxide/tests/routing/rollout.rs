//! The roll-out on the stores of this crate.

#[cfg(feature = "sqlite")]
use std::sync::Arc;

use crate::common::World;
use crate::roll_out::roll_out;

#[tokio::test(start_paused = true)]
async fn a_roll_out_of_three_nodes_bounces_nothing_and_fails_nothing_in_memory() {
    roll_out(vec![World::new().memory]).await;
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn a_roll_out_of_three_nodes_bounces_nothing_and_fails_nothing_in_sqlite() {
    let directory = tempfile::tempdir().expect("a directory");
    let url = format!("sqlite:{}", directory.path().join("store.db").display());
    let store = duroxide::providers::sqlite::SqliteProvider::new(&url, None).await.expect("opened");
    roll_out(vec![Arc::new(store)]).await;
}

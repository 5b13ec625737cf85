//! Schemas that earlier releases left in the middle of their work, as `duroxide`'s test of the same name has them in
//! SQLite files.

#[path = "../../../duroxide/tests/previous_build/shared/mod.rs"]
#[allow(dead_code, reason = "what is checked of histories alone is checked beside SQLite")]
mod shared;
mod store;
#[allow(dead_code, reason = "not every test file uses all of it")]
#[path = "../support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};

#[cfg(not(duroxide_without_types))]
use shared::together;
use shared::{checks, child};

fn kept_stores() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/previous_build/kept")
}

/// The child: runs what the store holds until it is killed.
#[tokio::test(flavor = "multi_thread")]
async fn worker_process() {
    child::work().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_in_the_middle_of_its_work_is_finished_as_the_earlier_release_would_have() {
    checks::finish_all(&kept_stores()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keep_a_store() {
    checks::keep().await;
}

/// The build that has more judges.
#[cfg(not(duroxide_without_types))]
#[tokio::test(flavor = "multi_thread")]
async fn two_builds_work_on_one_store() {
    if let Some(report) = together::work_together().await {
        println!("{report}");
    }
}

//! Stores that earlier releases left in the middle of their work: this build replays every history in them as it was
//! and runs everything to the end that the earlier release would have given it.
//!
//! `shared/programs` is the code that ran; it is never changed. CONTRIBUTING.md tells how a release keeps a store of
//! its own, and how nodes of two builds are tried on one store.
#![cfg(feature = "sqlite")]

mod shared;
mod store;

use std::path::{Path, PathBuf};

use shared::finish::replay_all;
#[cfg(not(duroxide_without_types))]
use shared::together;
use shared::{checks, child, kept};

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

#[test]
fn every_history_of_an_earlier_release_replays() {
    for directory in kept::releases(&kept_stores()) {
        replay_all(&kept::histories(&directory));
    }
}

#[test]
fn every_event_of_an_earlier_release_is_written_again_as_it_was() {
    for directory in kept::releases(&kept_stores()) {
        kept::check_stored_forms(&directory);
    }
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

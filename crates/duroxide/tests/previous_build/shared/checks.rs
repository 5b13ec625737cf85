//! The checks of kept stores, and how to keep one.

use std::path::{Path, PathBuf};

use duroxide::Client;

use super::finish::finish;
use super::kept::{Kept, releases};
use super::make::{Place, make};
use crate::store;

/// Where a new store is kept, if the environment says so.
const DIRECTORY_VARIABLE: &str = "DUROXIDE_KEEP_STORE_IN";

/// Finishes every kept store below a directory: all instances end as they did in the release that made it.
pub(crate) async fn finish_all(kept_stores: &Path) {
    for directory in releases(kept_stores) {
        let kept = Kept::read(&directory);
        let scratch = tempfile::tempdir().expect("a directory for the store");
        let location = store::restore(&directory, scratch.path()).await;
        let store = store::open(&location, Some(kept.kept_at_ms)).await;
        kept.check(&finish(store, scratch.path()).await);
    }
}

/// Makes a store and keeps it, if the environment names a directory for it.
pub(crate) async fn keep() {
    let Some(directory) = std::env::var_os(DIRECTORY_VARIABLE).map(PathBuf::from) else { return };
    std::fs::create_dir_all(&directory).expect("the directory can be made");
    let scratch = tempfile::tempdir().expect("a directory for the store");
    let location = store::create(scratch.path()).await;
    let client = Client::new(store::open(&location, None).await);
    make(&Place { store: &location, client: &client, directory: scratch.path() }).await;
    let kept_at_ms = store::dump(&location, &directory).await;
    let copy = tempfile::tempdir().expect("a directory for the copy");
    let location = store::restore(&directory, copy.path()).await;
    let finished = finish(store::open(&location, Some(kept_at_ms)).await, copy.path()).await;
    Kept::write(&directory, kept_at_ms, finished);
}

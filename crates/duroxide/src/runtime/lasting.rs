//! Background tasks that outlive a panic of the store.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;

use super::backoff::OutageBackoff;

/// A task that has run this long is well again.
const WELL_AFTER: Duration = Duration::from_secs(60);

/// Runs a task to its end, and from its beginning again when it panics.
pub(super) async fn lasting<T: Future<Output = ()>>(task: &'static str, begin: impl Fn() -> T) {
    let mut outage = OutageBackoff::default();
    loop {
        let begun = Instant::now();
        if AssertUnwindSafe(begin()).catch_unwind().await.is_ok() {
            return;
        }
        tracing::error!(target: "duroxide::runtime", task, "a background task panicked; beginning it again");
        if begun.elapsed() >= WELL_AFTER {
            outage.reset();
        }
        tokio::time::sleep(outage.next()).await;
    }
}

//! Background tasks that outlive a panic of the store.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;

use super::backoff::Backoff;

/// A task that has run this long counts as recovered; the backoff is reset.
const RECOVERED_AFTER: Duration = Duration::from_secs(60);

/// Runs a task to its end, and from its beginning again when it panics.
pub(super) async fn restart_on_panic<T: Future<Output = ()>>(task: &'static str, begin: impl Fn() -> T) {
    let mut backoff = Backoff::default();
    loop {
        let begun = Instant::now();
        if AssertUnwindSafe(begin()).catch_unwind().await.is_ok() {
            return;
        }
        tracing::error!(target: "duroxide::runtime", task, "a background task panicked; beginning it again");
        if begun.elapsed() >= RECOVERED_AFTER {
            backoff.reset();
        }
        tokio::time::sleep(backoff.next()).await;
    }
}

//! A panic in the task that carries calls out ends the calls of its group, and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use duroxide::Client;
use duroxide::clock::{Clock, ManualClock};
use duroxide::providers::Provider as _;
use duroxide_postgres::PostgresOptions;

use crate::support::{BEGIN_MS, new_schema, open, options};

/// A clock that panics as often as it is told to. While calls are carried out only the carrier asks it.
struct PanickingClock {
    clock: ManualClock,
    panics: AtomicU32,
}

impl Clock for PanickingClock {
    fn now_ms(&self) -> u64 {
        let left = self.panics.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        assert!(left.is_err(), "the test wants this panic");
        self.clock.now_ms()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_fails_the_calls_of_its_group_and_the_store_goes_on() {
    let clock = Arc::new(PanickingClock { clock: ManualClock::new(BEGIN_MS), panics: AtomicU32::new(0) });
    let options = PostgresOptions { clock: Some(clock.clone()), ..options(&new_schema()) };
    let store = Arc::new(open(options).await);
    let client = Client::new(store.clone());
    client.start_orchestration("before", "O", "").await.expect("started");
    for n in 0..3 {
        clock.panics.store(1, Ordering::SeqCst);
        let start = |id: String| client.start_orchestration(id, "O", "");
        let (one, two) = futures::join!(start(format!("{n} one")), start(format!("{n} two")));
        let failed: Vec<_> = [one, two].into_iter().filter_map(Result::err).collect();
        assert!(!failed.is_empty(), "the panic came");
        assert!(failed.iter().all(duroxide::ClientError::is_retryable), "{failed:?}");
        assert_eq!(clock.panics.load(Ordering::SeqCst), 0);
        // Tried again, as the error says.
        start(format!("{n} one")).await.expect("started");
        start(format!("{n} two")).await.expect("started");
        // A fetch that waits while it happens is served afterwards.
        clock.panics.store(1, Ordering::SeqCst);
        let fetched = store.fetch_orchestration_item(Duration::from_secs(5), Duration::ZERO, None).await;
        assert!(fetched.expect("asked").is_some());
        assert_eq!(clock.panics.load(Ordering::SeqCst), 0);
    }
    assert_eq!(client.list_all_instances().await.expect("listed").len(), 7);
}

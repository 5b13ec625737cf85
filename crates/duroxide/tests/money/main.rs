//! Money: a payment service that fails half of the time, a retry policy, and workers that are killed. Every order is
//! charged exactly once, because all attempts of one call carry the same idempotency key.
#![cfg(feature = "sqlite")]

mod shared;
mod store;

/// The child: works until it is killed.
#[tokio::test(flavor = "multi_thread")]
async fn worker_process() {
    shared::worker::work().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_order_is_charged_exactly_once_while_workers_are_killed() {
    let scratch = tempfile::tempdir().expect("a directory for the store");
    println!("{}", shared::check::charge_all(scratch.path()).await);
}

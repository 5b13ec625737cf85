//! Money, as `duroxide`'s test of the same name has it on SQLite: every order is charged exactly once.

#[path = "../../../duroxide/tests/money/shared/mod.rs"]
mod shared;
mod store;
#[allow(dead_code, reason = "not every test file uses all of it")]
#[path = "../support/mod.rs"]
mod support;

/// The child: works until it is killed.
#[tokio::test(flavor = "multi_thread")]
async fn worker_process() {
    shared::worker::work().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_order_is_charged_exactly_once_while_workers_are_killed() {
    let scratch = tempfile::tempdir().expect("a directory");
    println!("{}", shared::check::charge_all(scratch.path()).await);
}

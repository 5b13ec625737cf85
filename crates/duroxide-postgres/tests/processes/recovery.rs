//! What a killed process ran is run again as wide as before.

use duroxide::runtime::Runtime;
use private_postgres::{Durability, Server};

use crate::child::{self, Worker};
use crate::recovery_workload as workload;

const JOB: &str = "recovery::worker_process";

/// The child: runs what the store holds until it is killed.
#[tokio::test(flavor = "multi_thread")]
async fn worker_process() {
    let Some(url) = child::url_of(JOB) else { return };
    let (store, _client) = child::open(&url).await;
    let (activities, orchestrations) = (workload::activities(), workload::orchestrations());
    let _runtime = Runtime::start_with_options(store, activities, orchestrations, child::options()).await;
    std::future::pending::<()>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_process_ran_is_run_again_together() {
    let server = Server::start(Durability::Relaxed).expect("a server of its own");
    let (_store, client) = child::open(server.url()).await;
    let mut first = Worker::start(JOB, server.url());
    workload::begin(&client).await;
    first.kill();
    let _second = Worker::start(JOB, server.url());
    workload::end(&client).await;
}

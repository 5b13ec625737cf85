//! A dump that is made while the store is in use is a whole store.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use duroxide::Client;
use duroxide_postgres::PostgresProvider;
use private_postgres::{Durability, Server, program};

use crate::programs::{audit_all, node, start_all};
use crate::support::options;

fn run(name: &str, arguments: &[&str]) {
    let status = Command::new(program(name).expect("installed")).args(arguments).status();
    assert!(status.expect("it starts").success(), "{name} {arguments:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dump_made_in_the_middle_of_the_work_goes_on_from_there() {
    const COUNT: usize = 60;
    let server = Server::start(Durability::Relaxed).expect("a server of its own");
    let directory = tempfile::tempdir().expect("a directory");
    let dump = directory.path().join("dump");
    let dump = Path::to_str(&dump).expect("a plain path");
    let open = async |url: &str| {
        Arc::new(PostgresProvider::new(url, Some(options("dumped"))).await.expect("the store opens"))
    };
    let store = open(server.url()).await;
    let client = Client::new(store.clone());
    let runtime = node(store.clone()).await;
    let starting = tokio::spawn({
        let client = client.clone();
        async move { start_all(&client, COUNT).await }
    });
    while client.get_system_metrics().await.expect("read").total_events < 100 {
        tokio::task::yield_now().await;
    }
    run("pg_dump", &["--schema", "dumped", "--format", "custom", "--file", dump, server.url()]);
    starting.await.expect("started");
    runtime.shutdown(None).await;

    let (base, _) = server.url().rsplit_once('/').expect("a URL with a database");
    let restored = format!("{base}/restored");
    run("createdb", &["--maintenance-db", server.url(), "restored"]);
    run("pg_restore", &["--dbname", &restored, dump]);
    let store = open(&restored).await;
    let client = Client::new(store.clone());
    assert!(client.get_system_metrics().await.expect("read").running_instances > 0, "dumped in the middle");
    let runtime = node(store).await;
    // What was started after the dump is not in it.
    start_all(&client, COUNT).await;
    audit_all(&client, COUNT).await;
    runtime.shutdown(None).await;
}

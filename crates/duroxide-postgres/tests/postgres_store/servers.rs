//! How a server is reached by a URL that names several.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;

use duroxide::providers::ProviderAdmin as _;
use duroxide_postgres::PostgresProvider;
use private_postgres::{Durability, Server};
use tokio_postgres::NoTls;

use crate::support::options;

pub(crate) async fn configure(server: &Server, settings: &[&str]) {
    let (admin, connection) = tokio_postgres::connect(server.url(), NoTls).await.expect("connected");
    tokio::spawn(connection);
    for setting in settings {
        admin.batch_execute(&format!("ALTER SYSTEM SET {setting}")).await.expect("set");
    }
    drop(admin);
    server.restart().expect("it starts again");
}

/// Puts a file where the server reads it, as its own.
pub(crate) fn give(data: &Path, name: &str, content: &[u8]) {
    let path = data.join(name);
    std::fs::write(&path, content).expect("written");
    let owner = std::fs::metadata(data).expect("there");
    chown(&path, Some(owner.uid()), Some(owner.gid())).expect("given");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("kept secret");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_that_writes_is_chosen_among_several() {
    let first = Server::start(Durability::Relaxed).expect("a server of its own");
    let second = Server::start(Durability::Relaxed).expect("a server of its own");
    configure(&first, &["default_transaction_read_only = on"]).await;
    let place = |server: &Server| {
        let url = server.url().to_string();
        let (_, rest) = url.split_once('@').expect("a user");
        rest.split_once('/').expect("a database").0.to_string()
    };
    let both = format!("postgres://duroxide@{},{}/postgres", place(&first), place(&second));
    let store = PostgresProvider::new(&both, Some(options("chosen"))).await.expect("one of them writes");
    assert_eq!(store.list_instances().await.expect("listed"), Vec::<String>::new());
    let schemas = async |server: &Server| -> i64 {
        let (admin, connection) = tokio_postgres::connect(server.url(), NoTls).await.expect("connected");
        tokio::spawn(connection);
        let sql = "SELECT count(*) FROM pg_namespace WHERE nspname = 'chosen'";
        admin.query_one(sql, &[]).await.expect("read").get(0)
    };
    assert_eq!((schemas(&first).await, schemas(&second).await), (0, 1));
}

//! How a server is reached: encrypted, and by a URL that names several.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;

use duroxide::providers::{ProviderAdmin as _, ProviderError};
use duroxide_postgres::{PostgresOptions, PostgresProvider, Tls};
use private_postgres::{Durability, Server};
use tokio_postgres::NoTls;

use crate::support::options;

/// For tests alone. The server's is for the name `db.test`; the stranger has signed nothing. Valid for a hundred years.
const AUTHORITY: &[u8] = include_bytes!("certificates/authority.pem");
const STRANGER: &[u8] = include_bytes!("certificates/stranger.pem");
const SERVER: &[u8] = include_bytes!("certificates/server.pem");
const KEY: &[u8] = include_bytes!("certificates/server.key");

async fn configure(server: &Server, settings: &[&str]) {
    let (admin, connection) = tokio_postgres::connect(server.url(), NoTls).await.expect("connected");
    tokio::spawn(connection);
    for setting in settings {
        admin.batch_execute(&format!("ALTER SYSTEM SET {setting}")).await.expect("set");
    }
    drop(admin);
    server.restart().expect("it starts again");
}

/// Puts a file where the server reads it, as its own.
fn give(data: &Path, name: &str, content: &[u8]) {
    let path = data.join(name);
    std::fs::write(&path, content).expect("written");
    let owner = std::fs::metadata(data).expect("there");
    chown(&path, Some(owner.uid()), Some(owner.gid())).expect("given");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("kept secret");
}

/// The server as `host`, which no name service knows.
fn url_as(server: &Server, host: &str) -> String {
    let url = server.url().replace("127.0.0.1", host);
    format!("{url}?hostaddr=127.0.0.1&sslmode=require")
}

async fn open(url: &str, tls: Tls) -> Result<PostgresProvider, ProviderError> {
    PostgresProvider::new(url, Some(PostgresOptions { tls, ..options("encrypted") })).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_encrypted_connection_checks_who_the_server_is() {
    let server = Server::start(Durability::Relaxed).expect("a server of its own");
    let data = server.directory().join("data");
    give(&data, "server.crt", SERVER);
    give(&data, "server.key", KEY);
    let refused = open(&url_as(&server, "db.test"), Tls::Roots(AUTHORITY.to_vec())).await;
    assert!(refused.is_err(), "it does not encrypt yet");
    configure(&server, &["ssl = on"]).await;

    let name = "encrypted connections";
    let options = PostgresOptions {
        tls: Tls::Roots(AUTHORITY.to_vec()),
        application_name: name.to_string(),
        ..options("encrypted")
    };
    let store = PostgresProvider::new(&url_as(&server, "db.test"), Some(options)).await.expect("trusted");
    assert_eq!(store.list_instances().await.expect("listed"), Vec::<String>::new());
    let (admin, connection) = tokio_postgres::connect(server.url(), NoTls).await.expect("connected");
    tokio::spawn(connection);
    let sql = "SELECT count(*) FILTER (WHERE s.ssl), count(*) FROM pg_stat_ssl s \
         JOIN pg_stat_activity a ON a.pid = s.pid WHERE a.application_name = $1";
    let row = admin.query_one(sql, &[&name]).await.expect("read");
    let (encrypted, all): (i64, i64) = (row.get(0), row.get(1));
    assert!(encrypted >= 2 && encrypted == all, "{encrypted} of {all} connections are encrypted");

    for (host, roots, why) in [
        ("db.test", STRANGER, "an authority that has not signed it"),
        ("other.test", AUTHORITY, "a certificate for another name"),
    ] {
        let refused = open(&url_as(&server, host), Tls::Roots(roots.to_vec())).await;
        assert!(refused.is_err(), "{why}");
    }
    let broken = open(&url_as(&server, "db.test"), Tls::Roots(b"no certificate".to_vec())).await;
    let error = broken.expect_err("there is nothing to check with").to_string();
    assert!(error.contains("root certificate"), "{error}");
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

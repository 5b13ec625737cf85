//! Encryption that is asked for is used, or the connection is refused.

use duroxide::providers::{ProviderAdmin as _, ProviderError};
use duroxide_postgres::{PostgresOptions, PostgresProvider, Tls};
use private_postgres::{Durability, Server};

use crate::support::options;
use crate::support::own_server::{configure, give};

/// For tests alone. The server's is for the name `db.test` and valid for a hundred years, the expired one is not; the
/// stranger has signed nothing.
const AUTHORITY: &[u8] = include_bytes!("certificates/authority.pem");
const STRANGER: &[u8] = include_bytes!("certificates/stranger.pem");
const SERVER: &[u8] = include_bytes!("certificates/server.pem");
const EXPIRED: &[u8] = include_bytes!("certificates/expired.pem");
const SELF_SIGNED: &[u8] = include_bytes!("certificates/self_signed.pem");
const KEY: &[u8] = include_bytes!("certificates/server.key");

/// What no log and no error may show.
const PASSWORD: &str = "correct-horse";

/// The server as `host`, which no name service knows, with more of a query.
fn url_as(server: &Server, host: &str, query: &str) -> String {
    let url = server.url().replace("127.0.0.1", host).replace("duroxide@", &format!("duroxide:{PASSWORD}@"));
    format!("{url}?hostaddr=127.0.0.1{query}")
}

async fn open(url: &str, tls: Tls) -> Result<PostgresProvider, ProviderError> {
    PostgresProvider::new(url, Some(PostgresOptions { tls, ..options("encrypted") })).await
}

/// Whether the connections of the store are encrypted.
async fn is_encrypted(store: &PostgresProvider, server: &Server) -> bool {
    store.list_instances().await.expect("listed");
    let (admin, connection) =
        tokio_postgres::connect(server.url(), tokio_postgres::NoTls).await.expect("connected");
    tokio::spawn(connection);
    let sql = "SELECT count(*) FILTER (WHERE s.ssl), count(*) FROM pg_stat_ssl s \
         JOIN pg_stat_activity a ON a.pid = s.pid WHERE a.application_name = 'duroxide'";
    let row = admin.query_one(sql, &[]).await.expect("read");
    let (encrypted, all): (i64, i64) = (row.get(0), row.get(1));
    assert!(all >= 2 && (encrypted == 0 || encrypted == all), "{encrypted} of {all} are encrypted");
    encrypted == all
}

/// A server with this certificate.
async fn encrypting(certificate: &[u8]) -> Server {
    let server = Server::start(Durability::Relaxed).expect("a server of its own");
    let data = server.directory().join("data");
    give(&data, "server.crt", certificate);
    give(&data, "server.key", KEY);
    configure(&server, &["ssl = on"]).await;
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_tls_is_refused_wherever_tls_is_asked_for() {
    let server = Server::start(Durability::Relaxed).expect("a server of its own");
    for tls in [Tls::SystemRoots, Tls::Roots(AUTHORITY.to_vec())] {
        let refused = open(&url_as(&server, "db.test", ""), tls.clone()).await;
        let error = refused.expect_err(&format!("{tls:?} is plaintext")).to_string();
        assert!(error.contains("TLS") && !error.contains(PASSWORD), "{error}");
    }
    for word in ["require", "verify-ca", "verify-full"] {
        let refused = open(&url_as(&server, "db.test", &format!("&sslmode={word}")), Tls::FromUrl).await;
        assert!(refused.is_err(), "sslmode={word} is plaintext");
    }
    for query in ["", "&sslmode=prefer", "&sslmode=disable"] {
        let store = open(&url_as(&server, "db.test", query), Tls::FromUrl).await.expect("allowed");
        assert!(!is_encrypted(&store, &server).await, "{query}");
    }
}

/// The words for which a server at this name with this certificate is accepted, if the authority is trusted.
async fn accepted(certificate: &[u8], host: &str) -> Vec<&'static str> {
    let server = encrypting(certificate).await;
    let roots = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(roots.path(), AUTHORITY).expect("written");
    let mut accepted = Vec::new();
    for word in ["prefer", "require", "verify-ca", "verify-full"] {
        let query = format!("&sslmode={word}&sslrootcert={}", roots.path().display());
        if let Ok(store) = open(&url_as(&server, host, &query), Tls::FromUrl).await {
            assert!(is_encrypted(&store, &server).await, "{word}");
            accepted.push(word);
        }
    }
    let by_options = open(&url_as(&server, host, ""), Tls::Roots(AUTHORITY.to_vec())).await;
    assert_eq!(by_options.is_ok(), accepted.contains(&"verify-full"), "the options ask for all of it");
    accepted
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_is_right_is_accepted_by_every_word() {
    assert_eq!(accepted(SERVER, "db.test").await, ["prefer", "require", "verify-ca", "verify-full"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_for_another_name_is_refused_by_verify_full() {
    assert_eq!(accepted(SERVER, "other.test").await, ["prefer", "require", "verify-ca"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_has_expired_or_that_signs_itself_is_refused_where_it_is_checked() {
    assert_eq!(accepted(EXPIRED, "db.test").await, ["prefer", "require"]);
    assert_eq!(accepted(SELF_SIGNED, "db.test").await, ["prefer", "require"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authority_that_has_not_signed_the_certificate_is_not_enough() {
    let server = encrypting(SERVER).await;
    for tls in [Tls::Roots(STRANGER.to_vec()), Tls::SystemRoots] {
        assert!(open(&url_as(&server, "db.test", ""), tls.clone()).await.is_err(), "{tls:?}");
    }
    let broken = open(&url_as(&server, "db.test", ""), Tls::Roots(b"no certificate".to_vec())).await;
    let error = broken.expect_err("there is nothing to check with").to_string();
    assert!(error.contains("root certificate"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn options_and_url_that_contradict_each_other_are_refused() {
    let server = Server::start(Durability::Relaxed).expect("a server of its own");
    for (tls, word) in [
        (Tls::Off, "require"),
        (Tls::Off, "verify-full"),
        (Tls::SystemRoots, "disable"),
        (Tls::Roots(AUTHORITY.to_vec()), "prefer"),
    ] {
        let refused = open(&url_as(&server, "db.test", &format!("&sslmode={word}")), tls.clone()).await;
        let error = refused.expect_err("a contradiction").to_string();
        assert!(error.contains(&format!("sslmode={word}")), "{tls:?}: {error}");
    }
    // Another machine is not reached in plaintext unless somebody says so; that nothing answers there is not the point.
    let elsewhere = "postgres://duroxide@127.0.0.1:1/postgres?hostaddr=127.0.0.1&sslmode=wrong";
    let error = open(elsewhere, Tls::FromUrl).await.expect_err("no such word").to_string();
    assert!(error.contains("sslmode 'wrong'") && error.contains("verify-full"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_error_and_no_debug_output_shows_the_password() {
    let server = Server::start(Durability::Relaxed).expect("a server of its own");
    let mut shown = Vec::new();
    for (url, tls) in [
        (url_as(&server, "db.test", ""), Tls::SystemRoots),
        (url_as(&server, "db.test", "&sslmode=verify-full"), Tls::FromUrl),
        (url_as(&server, "db.test", "&sslmode=on"), Tls::FromUrl),
        (url_as(&server, "db.test", "&connect_timeout=soon"), Tls::FromUrl),
        (
            url_as(&server, "db.test", "").replace("5432", "x").replace("/postgres", "/no such database"),
            Tls::Off,
        ),
        (format!("postgres://duroxide:{PASSWORD}@[::1/postgres"), Tls::FromUrl),
        (format!("host=127.0.0.1 port=1 user=duroxide password={PASSWORD}"), Tls::FromUrl),
        (format!("host=127.0.0.1 password={PASSWORD} unknown=1"), Tls::FromUrl),
    ] {
        match open(&url, tls).await {
            Ok(store) => shown.push(format!("{store:?}")),
            Err(error) => shown.push(format!("{error} {error:?}")),
        }
    }
    for text in shown {
        assert!(!text.contains(PASSWORD), "{text}");
    }
}

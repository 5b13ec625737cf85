//! The password of a URL stays in the URL: no log at any level, no error and no `Debug` output shows it.

#[path = "../postgres_store/programs.rs"]
#[allow(dead_code, reason = "other test files use the rest")]
mod programs;
#[allow(dead_code, reason = "other test files use the rest")]
#[path = "../support/mod.rs"]
mod support;

use std::fmt::{Debug, Display};
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duroxide::Client;
use duroxide_postgres::{PostgresOptions, PostgresProvider, Tls};
use private_postgres::{Durability, Server};

use crate::programs::{audit_all, node, start_all};
use crate::support::own_server::{configure, give};

const AUTHORITY: &[u8] = include_bytes!("../postgres_store/certificates/authority.pem");
const STRANGER: &[u8] = include_bytes!("../postgres_store/certificates/stranger.pem");
const CERTIFICATE: &[u8] = include_bytes!("../postgres_store/certificates/server.pem");
const KEY: &[u8] = include_bytes!("../postgres_store/certificates/server.key");

/// The password, as the server knows it and as a URL writes it.
const PASSWORD: &str = "purple zebra/quagga";
const IN_URL: &str = "purple%20zebra%2Fquagga";
const WRONG: &str = "striped-zebra";
/// A part of each of them, in whatever form.
const SECRETS: [&str; 2] = ["zebra", "quagga"];

/// Everything that anybody may read.
#[derive(Clone, Default)]
struct Shown(Arc<Mutex<Vec<u8>>>);

impl Write for Shown {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no writer panics").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Shown {
    /// Every log of the process, those of the libraries as well, at every level.
    fn install() -> Self {
        let shown = Self::default();
        let writer = shown.clone();
        tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .init();
        shown
    }

    fn add(&self, text: impl Display) {
        writeln!(self.clone(), "{text}").expect("written");
    }

    fn add_debug(&self, value: &impl Debug) {
        self.add(format!("{value:?} {value:#?}"));
    }

    /// What came of an attempt to open a store, and of its error all that led to it.
    fn add_opened<S: Debug, E: std::error::Error>(&self, opened: &Result<S, E>) {
        self.add_debug(opened);
        if let Err(error) = opened {
            self.add(error);
            let mut source = error.source();
            while let Some(cause) = source {
                self.add(format!("{cause} {cause:?}"));
                source = cause.source();
            }
        }
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("no writer panics").clone()).expect("logs are text")
    }
}

/// A server that encrypts and wants the password.
async fn guarded() -> Server {
    let server = Server::start(Durability::Relaxed).expect("a server of its own");
    let data = server.directory().join("data");
    give(&data, "server.crt", CERTIFICATE);
    give(&data, "server.key", KEY);
    let (admin, connection) =
        tokio_postgres::connect(server.url(), tokio_postgres::NoTls).await.expect("connected");
    tokio::spawn(connection);
    admin.batch_execute(&format!("ALTER ROLE duroxide PASSWORD '{PASSWORD}'")).await.expect("set");
    // The server is stopped the hard way below, and its commits do not wait for the disk.
    admin.batch_execute("CHECKPOINT").await.expect("written");
    drop(admin);
    give(&data, "pg_hba.conf.new", b"host all all 127.0.0.1/32 scram-sha-256\n");
    configure(&server, &["ssl = on"]).await;
    std::fs::rename(data.join("pg_hba.conf.new"), data.join("pg_hba.conf")).expect("renamed");
    server.restart().expect("it starts again");
    server
}

fn url(server: &Server, password: &str, query: &str) -> String {
    let url = server.url().replace("127.0.0.1", "db.test");
    let url = url.replace("duroxide@", &format!("duroxide:{password}@"));
    format!("{url}?hostaddr=127.0.0.1{query}")
}

fn options(tls: Tls) -> PostgresOptions {
    PostgresOptions { tls, connect_timeout: Duration::from_secs(10), ..support::options("passwords") }
}

async fn fail_to_open(server: &Server, shown: &Shown) {
    let right = |query: &str| url(server, IN_URL, query);
    let port = server.url().rsplit(':').next().and_then(|rest| rest.split('/').next()).expect("a port");
    for (url, tls) in [
        (url(server, WRONG, ""), Tls::Off),
        (url(server, WRONG, "&sslmode=require"), Tls::FromUrl),
        (right(""), Tls::SystemRoots),
        (right(""), Tls::Roots(STRANGER.to_vec())),
        (right("&sslmode=disable"), Tls::SystemRoots),
        (right("&sslmode=on"), Tls::FromUrl),
        (right("&connect_timeout=soon"), Tls::FromUrl),
        (right("&unknown=1"), Tls::FromUrl),
        (right("").replace("/postgres?", "/missing?"), Tls::Off),
        (right("").replace(port, "1"), Tls::Off),
        (right("").replace(port, "port"), Tls::Off),
        (format!("postgres://duroxide:{IN_URL}@[::1/postgres"), Tls::FromUrl),
        (format!("postgres://duroxide:{IN_URL}%zz@127.0.0.1/postgres"), Tls::FromUrl),
        (format!("host=127.0.0.1 port=1 user=duroxide password='{PASSWORD}'"), Tls::FromUrl),
        (format!("host=127.0.0.1 password='{PASSWORD}' unknown=1"), Tls::FromUrl),
        (format!("host=127.0.0.1 password='{PASSWORD}"), Tls::FromUrl),
    ] {
        let opened = PostgresProvider::new(&url, Some(options(tls))).await;
        assert!(opened.is_err(), "one of them opens: {}", opened.is_ok());
        shown.add_opened(&opened);
    }
    for wrong in [format!("mysql://duroxide:{IN_URL}@127.0.0.1/x"), right("&sslmode=on")] {
        let opened = duroxide_postgres::open(&wrong).await.map(|_store| "a store");
        assert!(opened.is_err(), "one of them opens");
        shown.add_opened(&opened);
    }
}

async fn run_through_an_outage(server: &Server, shown: &Shown) {
    let opened =
        PostgresProvider::new(&url(server, IN_URL, ""), Some(options(Tls::Roots(AUTHORITY.to_vec())))).await;
    shown.add_opened(&opened);
    let store = Arc::new(opened.expect("the password and the certificate are right"));
    let client = Client::new(store.clone());
    let node = node(store.clone()).await;
    shown.add_debug(&node);
    shown.add_debug(&store);
    shown.add_debug(&client);
    start_all(&client, 5).await;
    audit_all(&client, 5).await;
    server.stop().expect("it stops");
    let error = client.start_orchestration("meanwhile", "FiveSteps", "x").await.expect_err("it is away");
    shown.add(&error);
    shown.add_debug(&error);
    while node.metrics_snapshot().expect("a runtime counts").provider_errors == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.start_again().expect("it starts");
    start_all(&client, 10).await;
    audit_all(&client, 10).await;
    node.shutdown(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_log_no_error_and_no_debug_output_shows_the_password() {
    let server = guarded().await;
    let shown = Shown::install();
    shown.add_debug(&options(Tls::Roots(AUTHORITY.to_vec())));
    fail_to_open(&server, &shown).await;
    run_through_an_outage(&server, &shown).await;
    let text = shown.text();
    for expected in ["password authentication failed", " TRACE ", "runtime started"] {
        assert!(text.contains(expected), "nothing was captured of: {expected}");
    }
    let leaks: Vec<&str> =
        text.lines().filter(|line| SECRETS.iter().any(|secret| line.contains(secret))).collect();
    assert!(leaks.is_empty(), "{leaks:#?}");
}

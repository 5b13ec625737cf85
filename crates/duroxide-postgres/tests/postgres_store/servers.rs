//! How a server is reached by a URL that names several.

use duroxide::providers::ProviderAdmin as _;
use duroxide_postgres::PostgresProvider;
use private_postgres::{Durability, Server};
use tokio_postgres::NoTls;

use crate::support::options;
use crate::support::own_server::configure;

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

//! Databases, poolers and roles that are refused when the store is opened, and stay as they were.

use std::sync::Arc;

use duroxide::Client;
use duroxide::providers::{ProviderError, ProviderErrorKind};
use duroxide_postgres::PostgresProvider;
use tokio_postgres::NoTls;

use crate::pooler::Pooler;
use crate::support::{new_schema, open, options, raw, url};

async fn refused(url: &str, schema: &str) -> ProviderError {
    let error = PostgresProvider::new(url, Some(options(schema))).await.expect_err("it is refused");
    assert_eq!(error.kind(), ProviderErrorKind::Invalid, "{error}");
    assert!(!error.is_retryable(), "{error}");
    error
}

fn assert_says(error: &ProviderError, words: &[&str]) {
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "'{word}' is not in: {text}");
    }
}

/// Whether a schema exists in a database.
async fn exists(url: &str, schema: &str) -> bool {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the database is there");
    tokio::spawn(connection);
    let found = client.query("SELECT 1 FROM pg_namespace WHERE nspname = $1::text::name", &[&schema]).await;
    !found.expect("read").is_empty()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_not_utf8_is_refused_and_stays_as_it_was() {
    for encoding in ["SQL_ASCII", "LATIN1"] {
        let schema = new_schema();
        let database = format!("d_{schema}");
        let create = format!(
            "CREATE DATABASE {database} ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
        );
        let admin = raw().await;
        admin.batch_execute(&create).await.expect("created");
        let server = url();
        let (server, _) = server.rsplit_once('/').expect("a database");
        let there = format!("{server}/{database}");
        let error = refused(&there, &schema).await;
        assert_says(&error, &[encoding, &database, "UTF8"]);
        assert!(!exists(&there, &schema).await);
        admin.batch_execute(&format!("DROP DATABASE {database} WITH (FORCE)")).await.expect("dropped");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_that_changes_sessions_between_transactions_is_refused() {
    let pooler = Pooler::start(&url()).await;
    let schema = new_schema();
    let error = refused(&pooler.url, &schema).await;
    assert_says(&error, &["PgBouncer", "pool_mode = transaction", "pool_mode = session"]);
    assert!(!exists(&url(), &schema).await);
    // Also where it has idle sessions of others.
    assert_says(&refused(&pooler.url, &schema).await, &["pool_mode = session"]);
}

/// A role without any right, and the URL with which it connects.
async fn role(schema: &str) -> (String, String) {
    let name = format!("r_{schema}");
    raw().await.batch_execute(&format!("CREATE ROLE {name} LOGIN")).await.expect("created");
    let server = url();
    let (_, place) = server.split_once('@').expect("a user");
    (name.clone(), format!("postgres://{name}@{place}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_may_not_create_what_is_missing_is_refused() {
    let schema = new_schema();
    let (role, url) = role(&schema).await;
    let error = refused(&url, &schema).await;
    assert_says(&error, &[&role, "CREATE ON DATABASE", &schema]);
    assert!(!exists(&url, &schema).await);
    let admin = raw().await;
    let grant = format!("CREATE SCHEMA {schema}; GRANT USAGE ON SCHEMA {schema} TO {role}");
    admin.batch_execute(&grant).await.expect("granted");
    let error = refused(&url, &schema).await;
    assert_says(&error, &[&role, "CREATE ON SCHEMA", &schema]);
    admin.batch_execute(&format!("GRANT CREATE ON SCHEMA {schema} TO {role}")).await.expect("granted");
    let store = PostgresProvider::new(&url, Some(options(&schema))).await.expect("it has all it needs");
    Client::new(Arc::new(store)).start_orchestration("a", "O", "").await.expect("started");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_lacks_any_right_on_any_table_sequence_or_function_is_refused() {
    let schema = new_schema();
    drop(open(options(&schema)).await);
    let (role, url) = role(&schema).await;
    assert_says(&refused(&url, &schema).await, &[&role, "USAGE ON SCHEMA", &schema]);
    let admin = raw().await;
    let grant = format!(
        "GRANT USAGE ON SCHEMA {schema} TO {role}; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}; \
         GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {role}; \
         REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC; \
         GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {role}"
    );
    admin.batch_execute(&grant).await.expect("granted");
    let sql = "SELECT CASE table_name WHEN 'duroxide_schema' THEN 'SELECT' ELSE r.word END || ' ON ' || \
                 quote_ident(table_schema) || '.' || table_name, \
                 CASE table_name WHEN 'duroxide_schema' THEN 'SELECT' ELSE r.word || ' ON TABLE ' || table_name END \
               FROM information_schema.tables \
               CROSS JOIN (VALUES ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE')) AS r (word) \
               WHERE table_schema = $1 \
               UNION SELECT 'USAGE ON SEQUENCE ' || quote_ident(sequence_schema) || '.' || sequence_name, \
                 'USAGE ON SEQUENCE ' || sequence_name FROM information_schema.sequences \
               WHERE sequence_schema = $1 AND sequence_name NOT LIKE 'set_aside%' \
               UNION SELECT 'EXECUTE ON FUNCTION ' || oid::regprocedure, 'EXECUTE ON FUNCTION ' || proname \
               FROM pg_proc WHERE pronamespace::regnamespace::text = $1";
    let rights = admin.query(sql, &[&schema]).await.expect("listed");
    assert!(rights.len() > 60, "{}", rights.len());
    for row in rights {
        let (right, named): (String, String) = (row.get(0), row.get(1));
        admin.batch_execute(&format!("REVOKE {right} FROM {role}")).await.expect("revoked");
        assert_says(&refused(&url, &schema).await, &[&role, &named]);
        admin.batch_execute(&format!("GRANT {right} TO {role}")).await.expect("granted");
    }
    let store = PostgresProvider::new(&url, Some(options(&schema))).await.expect("it has all it needs");
    Client::new(Arc::new(store)).start_orchestration("a", "O", "").await.expect("started");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_may_not_bring_a_schema_up_to_date_is_refused() {
    let schema = new_schema();
    drop(open(options(&schema)).await);
    let (role, url) = role(&schema).await;
    let grant = format!(
        "GRANT USAGE, CREATE ON SCHEMA {schema} TO {role}; \
         GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role}; \
         GRANT ALL ON ALL SEQUENCES IN SCHEMA {schema} TO {role}; \
         UPDATE {schema}.duroxide_schema SET version = version - 1"
    );
    let admin = raw().await;
    admin.batch_execute(&grant).await.expect("granted");
    assert_says(&refused(&url, &schema).await, &[&role, &schema, "up to date", "ownership of", "queues"]);
    let version = format!("SELECT max(version) FROM {schema}.duroxide_schema");
    let seen: i64 = admin.query_one(&version, &[]).await.expect("read").get(0);
    admin
        .batch_execute(&format!("UPDATE {schema}.duroxide_schema SET version = {}", seen + 1))
        .await
        .expect("as it was");
    PostgresProvider::new(&url, Some(options(&schema))).await.map(drop).expect("nothing else was changed");
}

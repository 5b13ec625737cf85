//! Opening a store by a URL that also names its schema.

use std::sync::Arc;

use duroxide_provider::{OpenMode, Provider, ProviderError, ProviderErrorKind};

use crate::options::PostgresOptions;
use crate::store::PostgresProvider;

/// Opens the store that a URL names. `duroxide::open_store` opens stores of every kind.
///
/// | URL | store |
/// |---|---|
/// | `postgres://user:password@host:port/database` | in the schema `duroxide` |
/// | the same with `?schema=name` | in that schema |
/// | the same with `?sslmode=verify-full` | encrypted, the server's certificate and name checked: see [`Tls`](crate::Tls) |
///
/// ```no_run
/// # async fn f() -> Result<(), duroxide_provider::ProviderError> {
/// let store = duroxide_postgres::open("postgres://app@db.example/app?schema=billing").await?;
/// let client = duroxide::Client::new(store);
/// # Ok(()) }
/// ```
pub async fn open(url: &str) -> Result<Arc<dyn Provider>, ProviderError> {
    open_with(url, OpenMode::default()).await
}

/// [`open`], and what that may do to the schema.
pub async fn open_with(url: &str, mode: OpenMode) -> Result<Arc<dyn Provider>, ProviderError> {
    let kind = url.split(':').next().unwrap_or_default();
    match kind {
        "postgres" | "postgresql" => {
            let (url, options) = split(url);
            let options = PostgresOptions { open_mode: mode, ..options };
            Ok(Arc::new(PostgresProvider::new(&url, Some(options)).await?))
        }
        _ => Err(ProviderError::of_kind(
            ProviderErrorKind::Invalid,
            "open",
            format!("'{kind}' names no PostgreSQL store: its URL begins with `postgres:`"),
        )),
    }
}

/// Takes out of a URL what is meant for us.
pub(crate) fn split(url: &str) -> (String, PostgresOptions) {
    let mut options = PostgresOptions::default();
    let Some((base, query)) = url.split_once('?') else { return (url.to_string(), options) };
    let mut rest = Vec::new();
    for part in query.split('&') {
        match part.split_once('=') {
            Some(("schema", schema)) => options.schema = schema.to_string(),
            Some(_) | None => rest.push(part),
        }
    }
    let url = if rest.is_empty() { base.to_string() } else { format!("{base}?{}", rest.join("&")) };
    (url, options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_the_schema() {
        let (url, options) = split("postgres://a@b/c?schema=billing&sslmode=verify-full&connect_timeout=3");
        assert_eq!(url, "postgres://a@b/c?sslmode=verify-full&connect_timeout=3");
        assert_eq!(options.schema, "billing");
        let (url, options) = split("postgres://a@b/c?schema=x");
        assert_eq!((url.as_str(), options.schema.as_str()), ("postgres://a@b/c", "x"));
    }

    #[tokio::test]
    async fn a_url_of_nothing_known_is_refused_without_being_quoted() {
        let refused = open("mysql://root:secret@x").await.err().expect("refused");
        assert_eq!(refused.kind(), ProviderErrorKind::Invalid);
        assert!(!refused.to_string().contains("secret"), "{refused}");
    }
}

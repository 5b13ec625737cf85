//! One function for every store: which one it is, the URL says.

use std::path::Path;

use crate::ProviderRef;
use crate::providers::{Inspection, OpenMode, ProviderError, ProviderErrorKind, StoreFacts};

/// Opens the store that a URL names.
///
/// | URL | store |
/// |---|---|
/// | `sqlite:path`, `sqlite::memory:` | SQLite, with the feature `sqlite`, which is on by default |
/// | `postgres://user:password@host:port/database` | PostgreSQL, with the feature `postgres`, in the schema `duroxide` |
/// | the same with `?schema=name` | PostgreSQL, in that schema |
/// | the same with `?sslmode=verify-full` | PostgreSQL, encrypted, the server's certificate and name checked |
///
/// A URL of a store whose feature is off is refused as [`ProviderErrorKind::Invalid`].
#[cfg_attr(
    feature = "sqlite",
    doc = r#"
```
# tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
let store = duroxide::open_store("sqlite::memory:").await.unwrap();
let client = duroxide::Client::new(store);
assert!(client.list_all_instances().await.unwrap().is_empty());
# });
```"#
)]
pub async fn open_store(url: &str) -> Result<ProviderRef, ProviderError> {
    open_store_with(url, OpenMode::default()).await
}

/// [`open_store`], and what that may do to the store: create it, migrate it, or neither.
#[cfg_attr(
    not(any(feature = "sqlite", feature = "postgres")),
    expect(unused_variables, reason = "this build has no store")
)]
pub async fn open_store_with(url: &str, mode: OpenMode) -> Result<ProviderRef, ProviderError> {
    match kind_of(url)? {
        #[cfg(feature = "sqlite")]
        Kind::Sqlite => {
            let options = duroxide_sqlite::SqliteOptions { open_mode: mode, ..Default::default() };
            Ok(std::sync::Arc::new(duroxide_sqlite::SqliteProvider::new(url, Some(options)).await?))
        }
        #[cfg(feature = "postgres")]
        Kind::Postgres => duroxide_postgres::open_with(url, mode).await,
    }
}

/// Tells what the store of a URL is, of whatever schema, without changing it.
#[cfg_attr(not(feature = "sqlite"), expect(unused_variables, reason = "only SQLite checks its pages"))]
pub async fn inspect_store(url: &str, closely: Inspection) -> Result<StoreFacts, ProviderError> {
    match kind_of(url)? {
        #[cfg(feature = "sqlite")]
        Kind::Sqlite => duroxide_sqlite::inspect(url, closely).await,
        #[cfg(feature = "postgres")]
        Kind::Postgres => duroxide_postgres::inspect(url).await,
    }
}

/// Copies the SQLite store of a URL into a new file, as it is at one moment, while programs go on working on it. A PostgreSQL
/// store is refused with the tool to use.
#[cfg_attr(
    not(any(feature = "sqlite", feature = "postgres")),
    expect(unused_variables, reason = "this build has no store")
)]
pub async fn backup_store(url: &str, to: &Path) -> Result<(), ProviderError> {
    match kind_of(url)? {
        #[cfg(feature = "sqlite")]
        Kind::Sqlite => duroxide_sqlite::backup(url, to).await,
        #[cfg(feature = "postgres")]
        Kind::Postgres => Err(ProviderError::of_kind(
            ProviderErrorKind::Invalid,
            "backup",
            format!(
                "a PostgreSQL store is backed up by the tools of its server, for instance `pg_dump --format=custom --schema=duroxide --file={}`",
                to.display()
            ),
        )),
    }
}

/// The stores of this build; there may be none.
enum Kind {
    #[cfg(feature = "sqlite")]
    Sqlite,
    #[cfg(feature = "postgres")]
    Postgres,
}

fn kind_of(url: &str) -> Result<Kind, ProviderError> {
    match url.split(':').next().unwrap_or_default() {
        #[cfg(feature = "sqlite")]
        "sqlite" => Ok(Kind::Sqlite),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => Ok(Kind::Postgres),
        #[cfg(not(feature = "sqlite"))]
        "sqlite" => Err(refused("this build has no SQLite store: enable the feature `sqlite` of duroxide")),
        #[cfg(not(feature = "postgres"))]
        "postgres" | "postgresql" => {
            Err(refused("this build has no PostgreSQL store: enable the feature `postgres` of duroxide"))
        }
        _ => Err(refused("the URL names no store: it must begin with `sqlite:` or `postgres:`")),
    }
}

/// The URL is not quoted: it may hold a password.
fn refused(why: &str) -> ProviderError {
    ProviderError::of_kind(ProviderErrorKind::Invalid, "open_store", why)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn check_refused(url: &str, why: &str) {
        let refused = open_store(url).await.err().expect("refused");
        assert_eq!(refused.kind(), ProviderErrorKind::Invalid);
        assert!(refused.to_string().contains(why), "{refused}");
        assert!(!refused.to_string().contains("secret"), "{refused}");
    }

    #[tokio::test]
    async fn a_url_of_nothing_known_is_refused_without_being_quoted() {
        check_refused("mysql://root:secret@x", "names no store").await;
        check_refused("secret", "names no store").await;
    }

    #[cfg(not(feature = "sqlite"))]
    #[tokio::test]
    async fn a_store_that_was_not_built_in_is_refused_with_its_feature() {
        check_refused("sqlite:secret", "feature `sqlite`").await;
    }

    #[cfg(not(feature = "postgres"))]
    #[tokio::test]
    async fn a_server_that_was_not_built_in_is_refused_with_its_feature() {
        check_refused("postgres://root:secret@x", "feature `postgres`").await;
    }
}

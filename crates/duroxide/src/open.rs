//! One function for every store: which one it is, the URL says.

use crate::ProviderRef;
use crate::providers::{ProviderError, ProviderErrorKind};

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
    let kind = url.split(':').next().unwrap_or_default();
    match kind {
        #[cfg(feature = "sqlite")]
        "sqlite" => Ok(std::sync::Arc::new(duroxide_sqlite::SqliteProvider::new(url, None).await?)),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => duroxide_postgres::open(url).await,
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

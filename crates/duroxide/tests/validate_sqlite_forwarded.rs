//! The provider contract on the SQLite store behind a wrapper that knows no extension.
#![cfg(all(feature = "provider-test", feature = "sqlite"))]

mod stores;

duroxide::provider_validation_tests!(stores::Forwarded(stores::sqlite::SqliteFactory::default()));

//! The provider contract on the SQLite store.
#![cfg(all(feature = "provider-test", feature = "sqlite"))]

mod stores;

duroxide::provider_validation_tests!(stores::sqlite::SqliteFactory::default());

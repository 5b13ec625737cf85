//! The provider contract on the PostgreSQL store.

#[allow(dead_code, reason = "not every test file uses all of it")]
mod support;

duroxide::provider_validation_tests!(support::PostgresFactory::default());

//! The provider contract on the PostgreSQL store behind a wrapper that knows no extension.

#[allow(dead_code, reason = "not every test file uses all of it")]
mod support;

duroxide::provider_validation_tests!(support::Forwarded(support::PostgresFactory::default()));

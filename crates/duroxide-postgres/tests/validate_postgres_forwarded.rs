//! The provider contract on the PostgreSQL store behind a wrapper that knows no extension.

mod support;

duroxide::provider_validation_tests!(support::Forwarded(support::PostgresFactory::default()));

//! The provider contract on the PostgreSQL store.

mod support;

duroxide::provider_validation_tests!(support::PostgresFactory::default());

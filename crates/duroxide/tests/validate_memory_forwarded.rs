//! The provider contract on the store in memory behind a wrapper that knows no extension.
#![cfg(feature = "provider-test")]

mod stores;

duroxide::provider_validation_tests!(stores::Forwarded(stores::MemoryFactory::default()));

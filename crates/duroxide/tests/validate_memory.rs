//! The provider contract on the store in memory.
#![cfg(feature = "provider-test")]

mod stores;

duroxide::provider_validation_tests!(stores::MemoryFactory::default());

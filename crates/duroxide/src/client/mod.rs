//! The client: starts instances, sends to them, and sees what became of them.

mod checked;
mod error;
mod health;
mod in_transaction;
mod manage;
mod redrive;
mod send;
mod state;
mod wait;
mod without_effect;

use std::sync::Arc;

pub use error::ClientError;
pub use health::{Finding, FindingKind, HealthOptions, HealthReport};
pub use redrive::{RedriveBulkResult, RedriveResult};

use crate::providers::Provider;

/// A client of a store. Cheap to clone; needs no runtime.
#[derive(Clone)]
pub struct Client {
    provider: Arc<dyn Provider>,
    identity: Arc<str>,
}

impl Client {
    /// A client of this store.
    pub fn new(provider: Arc<dyn Provider>) -> Self {
        Self { provider, identity: Arc::from("unnamed client") }
    }

    /// The same client under a name, such as an operator's or a tool's. The name is recorded with what changes the
    /// course of an instance: see [`Client::redrive`].
    pub fn with_identity(self, identity: impl Into<String>) -> Self {
        Self { identity: Arc::from(identity.into()), ..self }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("store", &self.provider.name()).finish()
    }
}

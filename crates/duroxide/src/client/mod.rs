//! The client: starts instances, sends to them, and sees what became of them.

mod error;
mod manage;
mod send;
mod state;
mod wait;

use std::sync::Arc;

pub use error::ClientError;

use crate::providers::Provider;

/// A client of a store. Cheap to clone; needs no runtime.
#[derive(Clone)]
pub struct Client {
    provider: Arc<dyn Provider>,
}

impl Client {
    /// A client of this store.
    pub fn new(provider: Arc<dyn Provider>) -> Self {
        Self { provider }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("store", &self.provider.name()).finish()
    }
}

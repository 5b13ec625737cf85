//! The open store, and who acts on it.

use duroxide::providers::{OpenMode, ProviderAdmin};
use duroxide::{Client, ClientError, InstanceInfo, ProviderRef, open_store_with};

use crate::failure::Failed;

/// An open store.
pub(crate) struct Session {
    pub(crate) store: ProviderRef,
    pub(crate) client: Client,
}

impl Session {
    /// Opens a store as it is: nothing is created, nothing is migrated.
    pub(crate) async fn open(url: &str) -> Result<Self, Failed> {
        let store = Box::pin(open_store_with(url, OpenMode::AsIs)).await;
        let store = store.map_err(|error| Failed::of_opening(&error))?;
        let client = Client::new(store.clone()).with_identity(identity());
        Ok(Self { store, client })
    }

    pub(crate) fn admin(&self) -> Result<&dyn ProviderAdmin, Failed> {
        self.store.as_management_capability().ok_or_else(|| ClientError::ManagementNotAvailable.into())
    }

    pub(crate) async fn info(&self, id: &str) -> Result<InstanceInfo, Failed> {
        Ok(self.client.get_instance_info(id).await?)
    }
}

/// What is recorded as the author of changes.
fn identity() -> String {
    let user = whoami::username().unwrap_or_else(|_| "unknown".to_string());
    let host = whoami::hostname().unwrap_or_else(|_| "unknown".to_string());
    format!("{user}@{host}")
}

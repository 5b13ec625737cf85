//! What a node can run: orchestrations by name and version, activities by name.

mod activities;
mod orchestrations;

pub use activities::{ActivityHandler, ActivityRegistry, ActivityRegistryBuilder};
pub use orchestrations::{OrchestrationRegistry, OrchestrationRegistryBuilder, VersionPolicy};

/// Turns the mistakes that a builder gathered into its one result.
fn checked<T>(built: T, errors: Vec<String>) -> Result<T, String> {
    if errors.is_empty() { Ok(built) } else { Err(errors.join("; ")) }
}

//! What a node can run: orchestrations by name and version, activities by name.
//!
//! `by_version` holds what both registries have in common, `policy` says which version a start without one gets.

mod activities;
mod by_version;
mod orchestrations;
mod policy;

pub use activities::{ActivityHandler, ActivityRegistry, ActivityRegistryBuilder};
pub use by_version::{Registry, RegistryBuilder};
pub(crate) use orchestrations::InputOf;
pub use orchestrations::{OrchestrationRegistry, OrchestrationRegistryBuilder};
pub use policy::VersionPolicy;

//! The provider contract as tests.
//!
//! One line runs all of them on a store:
//!
//! ```ignore
//! duroxide_provider::provider_validation_tests!(MyFactory::new());
//! ```
//!
//! where `MyFactory` is a [`ProviderFactory`]. Each validation becomes a `#[tokio::test]` of the same name in a
//! module named after its family. The crate that uses the macro needs `tokio` with `rt` and `macros`.
//! [`ForwardingProvider`] shows that the store also works behind a wrapper that knows no extension.

mod factory;
mod fixture;
mod forwarding;
mod list;

pub mod atomicity;
pub mod backoff;
pub mod bulk;
pub mod cancellation;
pub mod capability_filtering;
pub mod causes;
pub mod continue_as_new;
pub mod deletion;
pub mod dropped_calls;
pub mod fetched_bytes;
pub mod handler_routing;
pub mod health;
pub mod instance_locking;
pub mod lock_expiry;
pub mod management;
pub mod messages_without_instance;
pub mod node_registry;
pub mod outcomes;
pub mod paging;
pub mod poison_message;
pub mod queue_semantics;
pub mod redrive;
pub mod sessions;
pub mod shown_state;
pub mod starts_and_collisions;
pub mod state_of_instances;
pub mod suspects;
pub mod sweeping;
pub mod tags;
pub mod texts;
pub mod timers;
pub mod turn_facts;
pub mod undecodable;
pub mod waiting;
pub mod work_items;

pub use factory::ProviderFactory;
pub use forwarding::ForwardingProvider;

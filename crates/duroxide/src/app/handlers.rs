//! The handlers of a program, apart from any store.

use std::sync::Arc;

use duroxide_core::FunctionNames;

use super::{Duroxide, States};
use crate::client::Client;
use crate::providers::Provider;
use crate::replay::{RecordedHistory, ReplayError, replay_all};
use crate::runtime::registry::{ActivityRegistry, OrchestrationRegistry};
use crate::runtime::{ActivityContext, RuntimeOptions};

/// The handlers of a program, with the names of its functions: what a program needs that starts its runtimes itself, with
/// [`Runtime::start_with_options`](crate::runtime::Runtime::start_with_options).
#[derive(Clone)]
pub struct Handlers {
    /// The activities.
    pub activities: ActivityRegistry,
    /// The orchestrations.
    pub orchestrations: OrchestrationRegistry,
    /// The names of the functions, those that are only declared included.
    pub names: Arc<FunctionNames>,
    /// The options that the builder was given, with the defaults of a typed program.
    pub options: RuntimeOptions,
    pub(super) states: Arc<States>,
}

impl Handlers {
    /// The client half of the program on a store: it starts and sends by function, and runs no handlers.
    pub fn client(&self, store: Arc<dyn Provider>) -> Duroxide {
        Duroxide { client: Client::new(store), runtime: None, names: self.names.clone() }
    }

    /// Checks that the orchestrations of this program replay a recorded history. Runs no activity and stores nothing.
    pub fn replay(&self, history: &RecordedHistory) -> Result<(), ReplayError> {
        replay_all(history, |name, version| {
            self.orchestrations.resolve_handler_exact(name, &version.parse().ok()?)
        })
    }

    /// The same context, with the states of this program.
    #[must_use]
    pub fn with_states(&self, ctx: ActivityContext) -> ActivityContext {
        ctx.with_states(self.states.clone())
    }
}

impl std::fmt::Debug for Handlers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handlers")
            .field("activities", &self.activities)
            .field("orchestrations", &self.orchestrations)
            .finish_non_exhaustive()
    }
}

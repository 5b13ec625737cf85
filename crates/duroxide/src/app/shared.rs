//! What handlers of one program share: the names of its functions, and state that activities can reach.

use std::any::{Any, TypeId, type_name};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use duroxide_core::{AppError, CancelPolicy, FunctionNames, HandlerError};

/// Known once the program starts; handlers are registered before.
pub(crate) type SharedCell = Arc<OnceLock<Shared>>;

/// What handlers of one program share.
#[derive(Clone, Default)]
pub(crate) struct Shared {
    pub(crate) names: Arc<FunctionNames>,
    pub(crate) states: Arc<States>,
    /// How orchestrations take a cancel, by the type of their function.
    pub(crate) cancel_policies: Arc<BTreeMap<TypeId, CancelPolicy>>,
}

/// Values of a program by their type.
#[derive(Default, Clone)]
pub(crate) struct States {
    values: BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

impl States {
    /// Adds a value; false if there is one of its type.
    pub(crate) fn add<T: Send + Sync + 'static>(&mut self, value: T) -> bool {
        self.values.insert(TypeId::of::<T>(), Arc::new(value)).is_none()
    }

    /// # Panics
    /// If there is no value of the type.
    pub(crate) fn get<T: Send + Sync + 'static>(&self) -> &T {
        let value = self.values.get(&TypeId::of::<T>()).and_then(|value| value.downcast_ref());
        let Some(value) = value else {
            panic!(
                "this program has no state of type {}: add it with .state(..) on the builder",
                type_name::<T>()
            );
        };
        value
    }
}

/// An error as it is recorded: its text, and itself as JSON.
pub(super) fn handler_error<E: AppError>(error: &E) -> HandlerError {
    // An error without a JSON form is known by its text.
    HandlerError { message: error.to_string(), error: serde_json::to_string(error).ok() }
}

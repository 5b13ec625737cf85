//! What may be registered as a handler.

use std::any::type_name;

/// What the names of our own activities and orchestrations begin with.
const RESERVED_PREFIX: &str = "__duroxide";

/// Why a function cannot be registered under a name.
pub(super) fn check<F>(what: &str, name: &str) -> Result<(), String> {
    if name.starts_with(RESERVED_PREFIX) {
        return Err(format!(
            "{what} name '{name}' uses reserved prefix '{RESERVED_PREFIX}': choose another name"
        ));
    }
    let function = type_name::<F>();
    // A function has a type of its own and no size; a pointer to one has the type of all functions of its signature.
    if size_of::<F>() != 0 || function.ends_with("{{closure}}") {
        return Err(format!(
            "{what} '{name}' is a closure or a function pointer ({function}): calls find a handler by its function, \
             so write it as `async fn` and pass the function itself"
        ));
    }
    Ok(())
}

/// Why a handler cannot be declared under a name. The registries say it of handlers that are registered.
pub(super) fn check_declared(what: &str, name: &str) -> Result<(), String> {
    if name.is_empty() { Err(format!("{what} name is empty")) } else { Ok(()) }
}

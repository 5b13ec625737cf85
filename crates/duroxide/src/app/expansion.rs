//! What the code that attributes make uses. No program names it.

use duroxide_core::{ActivityParameter, OrchestrationParameter};
pub use inventory;

/// What a handler returns.
#[diagnostic::on_unimplemented(
    message = "a handler returns a `Result`, not `{Self}`",
    label = "not a `Result`",
    note = "write `-> Result<{Self}>`; any error turns into its `Failure` by `?`"
)]
pub trait HandlerOutput {}

impl<T, E> HandlerOutput for Result<T, E> {}

/// Compiles if the type is the context of an activity.
pub fn check_activity<C: ActivityParameter>() {}

/// Compiles if the type is the context of an orchestration.
pub fn check_orchestration<C: OrchestrationParameter>() {}

/// Compiles if a handler can return the type.
pub fn check_output<R: HandlerOutput>() {}

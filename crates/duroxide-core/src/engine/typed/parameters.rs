//! What a function must look like to be called.

use std::fmt::{Debug, Display};

use serde::{Serialize, de::DeserializeOwned};

use crate::OrchestrationContext;

/// The first parameter of an activity. Only `ActivityContext` is one.
#[diagnostic::on_unimplemented(
    message = "this function is not an activity: its first parameter is `{Self}`",
    label = "not an activity",
    note = "an activity is `async fn name(ctx: ActivityContext, input: In) -> Result<Out, E>`",
    note = "use `ctx.child` for an orchestration"
)]
pub trait ActivityParameter {}

/// The first parameter of an orchestration. Only [`OrchestrationContext`] is one.
#[diagnostic::on_unimplemented(
    message = "this function is not an orchestration: its first parameter is `{Self}`",
    label = "not an orchestration",
    note = "an orchestration is `async fn name(ctx: OrchestrationContext, input: In) -> Result<Out, E>`",
    note = "use `ctx.call` in an orchestration for an activity"
)]
pub trait OrchestrationParameter {}

impl OrchestrationParameter for OrchestrationContext {}

/// What the error of a handler can do: it is stored as JSON beside its text, and read back by the caller.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of an activity or orchestration",
    label = "cannot be stored and read back",
    note = "an error needs `Debug`, `Display`, `Serialize` and `Deserialize`: \
            `#[derive(Debug, thiserror::Error, Serialize, Deserialize)]`",
    note = "`Result<T>` without an error type takes any error by `?`"
)]
pub trait AppError: Serialize + DeserializeOwned + Debug + Display + Send + Sync + 'static {}

// The text above, and not which of these is missing in the words of its crate.
#[diagnostic::do_not_recommend]
impl<E: Serialize + DeserializeOwned + Debug + Display + Send + Sync + 'static> AppError for E {}

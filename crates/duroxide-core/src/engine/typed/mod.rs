//! Calls by function: what people write every day. Everything here records the same events as the calls by name.
//!
//! | file | its job |
//! |---|---|
//! | `names` | which stored name a function has on this node |
//! | `parameters` | what a function must look like to be called |
//! | `call`, `child` | calling activities and child orchestrations |
//! | `call_error`, `failure` | what a caller gets when they fail, and the error of a handler without one of its own |
//! | `events` | waiting for events and queue messages of a type |
//! | `time`, `many` | sleeping and time limits; many futures at once |
//! | `continue_as` | the next execution, and starts that nothing waits for |
//! | `saga` | steps that are compensated when a later one fails |
//! | `logger` | lines for the log that are written once |

mod call;
mod call_error;
mod child;
mod continue_as;
mod events;
mod failure;
mod logger;
mod many;
mod names;
mod parameters;
mod saga;
mod time;

pub use call::Call;
pub use call_error::CallError;
pub use child::Child;
pub use continue_as::ContinueAs;
pub use events::{EventName, MalformedPayload, QueueName};
pub use failure::Failure;
pub use logger::Logger;
pub use many::{JoinAll, TryJoinAll};
pub use names::{FunctionName, FunctionNames, NamedTwice, unnamed_activity, unnamed_orchestration};
pub use parameters::{ActivityParameter, AppError, OrchestrationParameter};
pub use saga::{CompensationFailed, Saga, SagaStep};
pub use time::Elapsed;

//! What a typed program uses: `use duroxide::prelude::*;`

pub use std::time::Duration;

pub use duroxide_core::{
    BackoffStrategy, Call, CallError, Cancelled, Child, DurableFuture, Elapsed, EventName, Failure,
    MalformedPayload, OrchestrationContext, QueueName, RetryPolicy, Saga,
};

pub use crate::Result;
pub use crate::app::{Duroxide, OpenError, Run, RunError, StartError};
pub use crate::providers::SendOutcome;
pub use crate::runtime::{ActivityContext, RuntimeOptions};
#[cfg(feature = "testing")]
pub use crate::testing::{TestEnv, TestRun};

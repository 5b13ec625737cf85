//! What was called, with typed inputs.

use std::ops::Deref;

/// One call of a handler, mocked or real: an attempt of an activity, or an execution of an orchestration. Derefs to its input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Called<In> {
    /// The input.
    pub input: In,
    /// The instance: the one that called an activity, or the orchestration's own.
    pub instance: String,
    /// Which attempt of the call it was, counted from 1.
    pub attempt: u32,
    /// The key that all attempts of one call have in common.
    pub idempotency_key: String,
}

impl<In> Deref for Called<In> {
    type Target = In;

    fn deref(&self) -> &In {
        &self.input
    }
}

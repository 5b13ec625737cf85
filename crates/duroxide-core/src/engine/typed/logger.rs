//! Lines for the log that are written once, when the turn that wrote them is committed.

use crate::engine::OrchestrationContext;

impl OrchestrationContext {
    /// Writes to the log after the commit: once, and not again at a replay.
    pub fn logger(&self) -> Logger {
        Logger { ctx: self.clone() }
    }
}

/// Writes to the log once.
#[derive(Debug, Clone)]
pub struct Logger {
    ctx: OrchestrationContext,
}

impl Logger {
    /// At ERROR.
    pub fn error(&self, message: impl Into<String>) {
        self.ctx.trace_error(message);
    }

    /// At WARN.
    pub fn warn(&self, message: impl Into<String>) {
        self.ctx.trace_warn(message);
    }

    /// At INFO.
    pub fn info(&self, message: impl Into<String>) {
        self.ctx.trace_info(message);
    }

    /// At DEBUG.
    pub fn debug(&self, message: impl Into<String>) {
        self.ctx.trace_debug(message);
    }
}

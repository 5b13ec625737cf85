//! What a store does not accept, however often it is asked.

use serde::Serialize;

use crate::providers::{ProviderError, ProviderErrorKind};

/// A store that takes texts up to a size only, as if its columns were that wide.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    pub(super) instance: String,
    pub(super) above_bytes: usize,
}

impl Refusal {
    /// Refuses a row that is too large.
    pub(super) fn check<T: Serialize>(&self, operation: &str, rows: &[T]) -> Result<(), ProviderError> {
        for row in rows {
            let json = serde_json::to_string(row)
                .map_err(|error| ProviderError::permanent(operation, error.to_string()).with_source(error))?;
            if json.len() > self.above_bytes {
                let text = format!("a row of {} bytes is too large", json.len());
                return Err(ProviderError::of_kind(ProviderErrorKind::Invalid, operation, text));
            }
        }
        Ok(())
    }
}

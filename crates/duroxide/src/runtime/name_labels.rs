//! The names of handlers as labels of metrics: a bounded number of them, because every name is a time series.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use duroxide_core::limits::MAX_NAMES_IN_METRICS;

use crate::metric::SharedString;

/// What names beyond the limit are counted as.
const OTHER: SharedString = SharedString::const_str("other");
/// What work is counted as whose name is not known, because its rows do not decode.
const UNKNOWN: SharedString = SharedString::const_str("unknown");

/// The labels of one process.
#[derive(Debug, Default)]
pub(super) struct NameLabels {
    pub(super) orchestrations: Names,
    pub(super) activities: Names,
}

/// The names of one kind. Those that were asked for first have a label of their own.
#[derive(Debug)]
pub(super) struct Names {
    limit: usize,
    known: RwLock<BTreeMap<String, SharedString>>,
}

impl Default for Names {
    fn default() -> Self {
        Self { limit: MAX_NAMES_IN_METRICS, known: RwLock::default() }
    }
}

impl Names {
    /// The label of a name.
    pub(super) fn label(&self, name: &str) -> SharedString {
        if name.is_empty() {
            return UNKNOWN;
        }
        if let Some(label) = self.known.read().unwrap_or_else(PoisonError::into_inner).get(name) {
            return label.clone();
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= self.limit && !known.contains_key(name) {
            return OTHER;
        }
        known.entry(name.to_string()).or_insert_with(|| SharedString::from_shared(Arc::from(name))).clone()
    }

    /// Gives these names a label before others can take it: what is registered here comes first.
    pub(super) fn reserve(&self, names: &[String]) {
        for name in names {
            self.label(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_the_limit_are_counted_together() {
        let names = Names { limit: 2, ..Names::default() };
        names.reserve(&["a".to_string(), "b".to_string()]);
        let labels = ["a", "b", "c", "a", "d", ""].map(|name| names.label(name).to_string());
        assert_eq!(labels, ["a", "b", "other", "a", "other", "unknown"]);
    }

    #[test]
    fn a_process_has_a_label_for_as_many_names_as_the_limit_says() {
        let names = Names::default();
        let own = (0..2 * MAX_NAMES_IN_METRICS).filter(|n| names.label(&n.to_string()) != OTHER).count();
        assert_eq!(own, MAX_NAMES_IN_METRICS);
    }
}

//! Notes which metrics are recorded, with their kind and the names of their labels.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use duroxide::metric::{Metric, MetricKind};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

/// `kind name labels` of everything that was recorded, and the names that were described.
#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<Noted>>);

#[derive(Default)]
struct Noted {
    recorded: BTreeSet<String>,
    described: BTreeSet<String>,
}

/// A metric as this recorder notes it.
pub(crate) fn line(metric: &Metric) -> String {
    format!("{} {} {}", metric.kind.word(), metric.name, metric.labels.join(","))
}

impl Seen {
    pub(crate) fn recorded(&self) -> BTreeSet<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).recorded.clone()
    }

    pub(crate) fn described(&self) -> BTreeSet<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).described.clone()
    }

    fn note(&self, kind: MetricKind, key: &Key) {
        let labels: Vec<&str> = key.labels().map(metrics::Label::key).collect();
        let line = format!("{} {} {}", kind.word(), key.name(), labels.join(","));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).recorded.insert(line);
    }

    fn describe(&self, key: &KeyName, description: &SharedString) {
        assert!(!description.is_empty(), "{}", key.as_str());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).described.insert(key.as_str().to_string());
    }
}

impl Recorder for Seen {
    fn describe_counter(&self, key: KeyName, _unit: Option<Unit>, description: SharedString) {
        self.describe(&key, &description);
    }

    fn describe_gauge(&self, key: KeyName, _unit: Option<Unit>, description: SharedString) {
        self.describe(&key, &description);
    }

    fn describe_histogram(&self, key: KeyName, _unit: Option<Unit>, description: SharedString) {
        self.describe(&key, &description);
    }

    fn register_counter(&self, key: &Key, _metadata: &Metadata<'_>) -> Counter {
        self.note(MetricKind::Counter, key);
        Counter::noop()
    }

    fn register_gauge(&self, key: &Key, _metadata: &Metadata<'_>) -> Gauge {
        self.note(MetricKind::Gauge, key);
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _metadata: &Metadata<'_>) -> Histogram {
        self.note(MetricKind::Histogram, key);
        Histogram::noop()
    }
}

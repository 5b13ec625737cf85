//! Records every metric, with all values that a gauge ever had.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

/// What was recorded, by name and labels: `name{label=value}`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recorded(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    counters: BTreeMap<String, u64>,
    gauges: BTreeMap<String, Vec<f64>>,
    histograms: BTreeMap<String, Vec<f64>>,
}

impl Recorded {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no test panics under it")
    }

    /// The sum of the counters of this name that have these labels, whatever others they have.
    pub(crate) fn counter(&self, name: &str) -> u64 {
        let state = self.state();
        state.counters.iter().filter(|(found, _)| has(found, name)).map(|(_, value)| value).sum()
    }

    /// The last value of a gauge.
    pub(crate) fn gauge(&self, name: &str) -> Option<f64> {
        self.state().gauges.get(name)?.last().copied()
    }

    /// Every value that any gauge ever had.
    pub(crate) fn all_gauges(&self) -> Vec<(String, f64)> {
        let state = self.state();
        let values = state.gauges.iter().flat_map(|(name, values)| values.iter().map(|v| (name.clone(), *v)));
        values.collect()
    }

    /// The values of the histograms of this name that have these labels, whatever others they have.
    pub(crate) fn histogram(&self, name: &str) -> Vec<f64> {
        let state = self.state();
        let found = state.histograms.iter().filter(|(found, _)| has(found, name));
        found.flat_map(|(_, values)| values.clone()).collect()
    }
}

/// Whether `found`, as `name{label=value}`, has the name and the labels of `asked`.
fn has(found: &str, asked: &str) -> bool {
    let parts = |text: &str| {
        let (name, labels) = text.trim_end_matches('}').split_once('{').unwrap_or((text, ""));
        let labels: Vec<String> =
            labels.split(',').filter(|label| !label.is_empty()).map(str::to_string).collect();
        (name.to_string(), labels)
    };
    let ((name, labels), (asked_name, asked_labels)) = (parts(found), parts(asked));
    name == asked_name && asked_labels.iter().all(|label| labels.contains(label))
}

/// One metric.
struct Cell {
    recorded: Recorded,
    name: String,
}

impl Cell {
    fn change_gauge(&self, change: impl FnOnce(f64) -> f64) {
        let mut state = self.recorded.state();
        let values = state.gauges.entry(self.name.clone()).or_default();
        values.push(change(values.last().copied().unwrap_or(0.0)));
    }
}

impl CounterFn for Cell {
    fn increment(&self, value: u64) {
        *self.recorded.state().counters.entry(self.name.clone()).or_default() += value;
    }

    fn absolute(&self, value: u64) {
        self.recorded.state().counters.insert(self.name.clone(), value);
    }
}

impl GaugeFn for Cell {
    fn increment(&self, value: f64) {
        self.change_gauge(|before| before + value);
    }

    fn decrement(&self, value: f64) {
        self.change_gauge(|before| before - value);
    }

    fn set(&self, value: f64) {
        self.change_gauge(|_| value);
    }
}

impl HistogramFn for Cell {
    fn record(&self, value: f64) {
        self.recorded.state().histograms.entry(self.name.clone()).or_default().push(value);
    }
}

impl Recorded {
    fn cell(&self, key: &Key) -> Arc<Cell> {
        let labels: Vec<String> =
            key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let name = if labels.is_empty() {
            key.name().to_string()
        } else {
            format!("{}{{{}}}", key.name(), labels.join(","))
        };
        Arc::new(Cell { recorded: self.clone(), name })
    }
}

impl Recorder for Recorded {
    fn describe_counter(&self, _key: KeyName, _unit: Option<Unit>, _description: SharedString) {}

    fn describe_gauge(&self, _key: KeyName, _unit: Option<Unit>, _description: SharedString) {}

    fn describe_histogram(&self, _key: KeyName, _unit: Option<Unit>, _description: SharedString) {}

    fn register_counter(&self, key: &Key, _metadata: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.cell(key))
    }

    fn register_gauge(&self, key: &Key, _metadata: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.cell(key))
    }

    fn register_histogram(&self, key: &Key, _metadata: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.cell(key))
    }
}

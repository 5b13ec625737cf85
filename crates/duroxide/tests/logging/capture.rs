//! Everything that is logged, and the names and labels of everything that is recorded.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::{Arc, Mutex};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

/// Everything that was logged.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("no writer panics")).into_owned()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no writer panics").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The name and labels of every metric.
#[derive(Clone, Default)]
pub(crate) struct Labels(Arc<Mutex<BTreeSet<String>>>);

impl Labels {
    pub(crate) fn keys(&self) -> Vec<String> {
        self.0.lock().expect("nobody panics under it").iter().cloned().collect()
    }

    fn add(&self, text: impl std::fmt::Display) {
        self.0.lock().expect("nobody panics under it").insert(text.to_string());
    }
}

impl Recorder for Labels {
    fn describe_counter(&self, key: KeyName, _unit: Option<Unit>, description: SharedString) {
        self.add(format!("{} {description}", key.as_str()));
    }

    fn describe_gauge(&self, key: KeyName, _unit: Option<Unit>, description: SharedString) {
        self.add(format!("{} {description}", key.as_str()));
    }

    fn describe_histogram(&self, key: KeyName, _unit: Option<Unit>, description: SharedString) {
        self.add(format!("{} {description}", key.as_str()));
    }

    fn register_counter(&self, key: &Key, _metadata: &Metadata<'_>) -> Counter {
        self.add(key);
        Counter::noop()
    }

    fn register_gauge(&self, key: &Key, _metadata: &Metadata<'_>) -> Gauge {
        self.add(key);
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _metadata: &Metadata<'_>) -> Histogram {
        self.add(key);
        Histogram::noop()
    }
}

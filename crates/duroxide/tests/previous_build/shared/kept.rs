//! The files of a kept store, one directory for each release that kept one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use duroxide::Event;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::finish::{End, Finished, Histories};
use super::replay::is_same_text;

/// What is known about a kept store.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// The release that made it.
    pub(crate) release: String,
    /// When it was kept, by the store's clock.
    pub(crate) kept_at_ms: u64,
    /// How each instance ended when the release that made the store ran it to its end.
    pub(crate) ends: BTreeMap<String, End>,
}

const KEPT: &str = "kept.json";
const HISTORIES: &str = "histories.json";

impl Kept {
    pub(crate) fn write(directory: &Path, kept_at_ms: u64, finished: Finished) {
        let release = duroxide::current_build_version().to_string();
        let kept = Self { release, kept_at_ms, ends: finished.ends };
        let json = serde_json::to_string_pretty(&kept).expect("it has a JSON form");
        std::fs::write(directory.join(KEPT), json + "\n").expect("the file can be written");
        let lines: Vec<String> = finished
            .histories
            .iter()
            .map(|(instance, executions)| {
                let executions = serde_json::to_string(executions).expect("events have a JSON form");
                format!("{}:{executions}", serde_json::json!(instance))
            })
            .collect();
        let json = format!("{{\n{}\n}}\n", lines.join(",\n"));
        std::fs::write(directory.join(HISTORIES), json).expect("the file can be written");
    }

    pub(crate) fn read(directory: &Path) -> Self {
        serde_json::from_str(&text(&directory.join(KEPT))).expect("it was written by this")
    }

    /// Every instance ended as it did in the release that made the store. That release listed them once, while some had
    /// yet to start their children: children that it does not have show in what their parents gave.
    pub(crate) fn check(&self, finished: &Finished) {
        let differing: Vec<String> = self
            .ends
            .keys()
            .chain(finished.ends.keys().filter(|instance| !is_started_late(instance)))
            .collect::<BTreeSet<_>>()
            .into_iter()
            .filter(|instance| !is_same(self.ends.get(*instance), finished.ends.get(*instance)))
            .filter(|instance| !self.may_outrun_its_cancel(instance, finished))
            .map(|instance| {
                format!(
                    "{instance}:\n  {}: {:?}\n  now: {:?}",
                    self.release,
                    self.ends.get(instance),
                    finished.ends.get(instance)
                )
            })
            .collect();
        assert!(
            differing.is_empty(),
            "{} instances end otherwise:\n{}",
            differing.len(),
            differing.join("\n")
        );
    }
}

impl Kept {
    /// Whether it is a child that was cancelled with its parent then, and completed before that reached it now: its
    /// activity waits in the store beside the cancel of the parent, and either may be first.
    fn may_outrun_its_cancel(&self, instance: &str, finished: &Finished) -> bool {
        let cancelled = |end: &End| end.text.starts_with("canceled: ");
        let Some((parent, _)) = instance.rsplit_once("::sub::") else { return false };
        let parent_cancelled =
            [self.ends.get(parent), finished.ends.get(parent)].iter().all(|end| end.is_some_and(cancelled));
        let then = self.ends.get(instance).is_some_and(cancelled);
        let now = finished.ends.get(instance).is_some_and(|end| end.how == "completed");
        parent_cancelled && then && now
    }
}

/// Whether it is a child, which may have been started after the list was made.
fn is_started_late(instance: &str) -> bool {
    instance.contains("::sub::")
}

fn is_same(then: Option<&End>, now: Option<&End>) -> bool {
    then.zip(now).is_some_and(|(then, now)| then.how == now.how && is_same_text(&then.text, &now.text))
}

/// Every event is written as it was when it is read and written again.
pub(crate) fn check_stored_forms(directory: &Path) {
    let raw: BTreeMap<String, BTreeMap<u64, Vec<Value>>> =
        serde_json::from_str(&text(&directory.join(HISTORIES))).expect("they were written by this");
    for (instance, executions) in raw {
        for event in executions.into_values().flatten() {
            let read: Event = serde_json::from_value(event.clone()).expect("this build reads the event");
            let again = serde_json::to_value(&read).expect("an event has a JSON form");
            assert_eq!(again, event, "{instance}");
        }
    }
}

/// The histories as the release that made the store ended them.
pub(crate) fn histories(directory: &Path) -> Histories {
    serde_json::from_str(&text(&directory.join(HISTORIES))).expect("they were written by this")
}

pub(crate) fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The directories of all releases below that of the package's kept stores.
pub(crate) fn releases(parent: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(parent).unwrap_or_else(|error| panic!("{}: {error}", parent.display()));
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.expect("it can be listed").path()).collect();
    found.sort();
    assert!(!found.is_empty(), "stores of earlier releases are kept in {}", parent.display());
    found
}

//! The stored form of every event, work item, error and cause of a bounce, kept byte for byte in `golden/v1`.
//!
//! What is stored once is read forever. A file that no longer matches means that this build could not read,
//! or would write differently, what a released build has stored; the code is wrong, not the file.
//! `UPDATE_GOLDEN=1` writes the files of new variants. It changes an existing file only with
//! `GOLDEN_OVERWRITE=1` besides, which is right only for a form that was never released.

#[path = "golden/samples.rs"]
mod samples;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::{Path, PathBuf};

use duroxide_core::{Event, EventKind, WorkItem};
use samples::{Samples, event};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

fn directory(area: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1").join(area)
}

/// What the environment allows a run to do to the files.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Files {
    Compare,
    AddMissing,
    Overwrite,
}

impl Files {
    fn from_env() -> Self {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| value == "1");
        match (is_set("UPDATE_GOLDEN"), is_set("GOLDEN_OVERWRITE")) {
            (false, _) => Self::Compare,
            (true, false) => Self::AddMissing,
            (true, true) => Self::Overwrite,
        }
    }
}

/// The form in the file, after writing it where the environment allows that.
fn stored(path: &Path, written: &str, files: Files) -> Result<String, String> {
    let write = || std::fs::write(path, written).map_err(|cause| format!("{}: {cause}", path.display()));
    match (std::fs::read_to_string(path), files) {
        (Ok(found), Files::Overwrite) if found != written => write()?,
        (Ok(found), Files::AddMissing) if found != written => {
            return Err(format!(
                "{} differs and is kept: a stored form does not change. Set GOLDEN_OVERWRITE=1 as well if it was \
                 never released.",
                path.display()
            ));
        }
        (Ok(found), Files::Compare | Files::AddMissing | Files::Overwrite) => return Ok(found),
        (Err(_), Files::AddMissing | Files::Overwrite) => write()?,
        (Err(cause), Files::Compare) => {
            return Err(format!("{}: {cause}. Set UPDATE_GOLDEN=1 to write the file.", path.display()));
        }
    }
    Ok(written.to_string())
}

/// Compares one value with its file in both directions.
fn check<T: Serialize + DeserializeOwned + PartialEq + Debug>(area: &str, file: &str, value: &T) {
    let directory = directory(area);
    let files = Files::from_env();
    if files != Files::Compare {
        std::fs::create_dir_all(&directory).expect("the directory of golden files can be made");
    }
    let written = serde_json::to_string(value).expect("a sample can be written as JSON") + "\n";
    let stored = stored(&directory.join(file), &written, files).unwrap_or_else(|problem| panic!("{problem}"));
    assert_eq!(written, stored, "{area}/{file}: this build would store another form");
    let read: T = serde_json::from_str(&stored).unwrap_or_else(|cause| panic!("{area}/{file}: {cause}"));
    assert_eq!(&read, value, "{area}/{file}: this build reads the stored form as something else");
}

/// Compares all samples of an enum with their files; gives the names of the files.
fn check_all<T, S>(
    area: &str,
    samples: Vec<Samples<T>>,
    name_of: fn(&T) -> &'static str,
    wrap: fn(T) -> S,
) -> BTreeSet<String>
where
    S: Serialize + DeserializeOwned + PartialEq + Debug,
{
    let mut names = BTreeSet::new();
    for Samples { variant, full, minimal } in samples {
        let forms = [(format!("{variant}.json"), Some(full)), (format!("{variant}.minimal.json"), minimal)];
        for (file, value) in forms {
            let Some(value) = value else { continue };
            assert_eq!(name_of(&value), variant, "{file} holds a sample of another variant");
            check(area, &file, &wrap(value));
            assert!(names.insert(file), "two samples of {variant}");
        }
    }
    names
}

fn files_in(area: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory(area)).expect("the directory of golden files can be read");
    entries
        .map(|entry| entry.expect("its entries can be read").file_name().to_string_lossy().into_owned())
        .collect()
}

#[test]
fn every_event_kind_keeps_its_stored_form() {
    let files = check_all("events", samples::event_kinds(), samples::event_kind_name, event);
    assert_eq!(files, files_in("events"), "a stored kind of event is never removed");
}

#[test]
fn every_work_item_keeps_its_stored_form() {
    let mut files = check_all("work_items", samples::work_items(), samples::work_item_name, |item| item);
    let later_attempt = "ActivityExecuteWithin.retried.json";
    check("work_items", later_attempt, &samples::later_attempt());
    files.insert(later_attempt.to_string());
    let reports_stop = "ActivityExecuteWithin.reports_stop.json";
    check("work_items", reports_stop, &samples::reports_stop());
    files.insert(reports_stop.to_string());
    assert_eq!(files, files_in("work_items"), "a stored kind of work item is never removed");
}

#[test]
fn every_error_keeps_its_stored_form() {
    let parts = [
        check_all("errors", samples::error_details(), samples::error_details_name, |value| value),
        check_all("errors", samples::config_error_kinds(), samples::config_error_kind_name, |value| value),
        check_all("errors", samples::app_error_kinds(), samples::app_error_kind_name, |value| value),
        check_all("errors", samples::poison_message_types(), samples::poison_message_type_name, |value| {
            value
        }),
    ];
    let count: usize = parts.iter().map(BTreeSet::len).sum();
    let files: BTreeSet<String> = parts.into_iter().flatten().collect();
    assert_eq!(files.len(), count, "two variants of the errors share a file");
    assert_eq!(files, files_in("errors"), "a stored kind of error is never removed");
}

#[test]
fn every_cause_of_a_bounce_keeps_its_stored_form() {
    let files = check_all("causes", samples::bounce_causes(), samples::bounce_cause_name, |value| value);
    assert_eq!(files, files_in("causes"), "a stored kind of cause is never removed");
}

#[test]
fn an_existing_file_is_changed_only_when_told_twice() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = directory.join("golden_refusal.json");
    std::fs::write(&path, "old\n").unwrap();
    assert_eq!(stored(&path, "new\n", Files::Compare).unwrap(), "old\n");
    assert!(stored(&path, "new\n", Files::AddMissing).unwrap_err().contains("GOLDEN_OVERWRITE"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "old\n");
    assert_eq!(stored(&path, "new\n", Files::Overwrite).unwrap(), "new\n");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "new\n");

    std::fs::remove_file(&path).unwrap();
    assert!(stored(&path, "new\n", Files::Compare).unwrap_err().contains("UPDATE_GOLDEN"));
    assert_eq!(stored(&path, "new\n", Files::AddMissing).unwrap(), "new\n");
    std::fs::remove_file(&path).unwrap();
}

/// The same JSON without the fields that are null, at any depth: what a build writes that lacks them.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .filter(|(_, field)| !field.is_null())
                .map(|(name, field)| (name, without_nulls(field)))
                .collect(),
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => value,
    }
}

fn check_older_form<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let older = without_nulls(serde_json::to_value(value).expect("a sample has a JSON form"));
    let read: T = serde_json::from_str(&older.to_string()).unwrap_or_else(|cause| panic!("{older}: {cause}"));
    assert_eq!(&read, value, "{older}");
}

#[test]
fn a_form_without_the_optional_fields_decodes_to_their_defaults() {
    for minimal in samples::event_kinds().into_iter().filter_map(|sample| sample.minimal) {
        check_older_form(&Event { source_event_id: None, ..event(minimal) });
    }
    for minimal in samples::work_items().into_iter().filter_map(|sample| sample.minimal) {
        check_older_form(&minimal);
    }
    for minimal in samples::bounce_causes().into_iter().filter_map(|sample| sample.minimal) {
        check_older_form(&minimal);
    }
    for minimal in samples::error_details().into_iter().filter_map(|sample| sample.minimal) {
        check_older_form(&minimal);
    }
}

#[test]
fn a_value_set_without_a_time_decodes_with_time_zero() {
    let stored = r#"{"event_id":2,"source_event_id":null,"instance_id":"i","execution_id":1,"timestamp_ms":7,
        "duroxide_version":"1.0.0","type":"KeyValueSet","key":"k","value":"v"}"#;
    let read: Event = serde_json::from_str(stored).expect("the time is optional");
    let (key, value) = ("k".to_string(), "v".to_string());
    assert_eq!(read.kind, EventKind::KeyValueSet { key, value, last_updated_at_ms: 0 });
}

#[test]
fn a_field_of_a_later_build_is_ignored() {
    for sample in samples::event_kinds() {
        let event = event(sample.full);
        let mut json = serde_json::to_value(&event).unwrap();
        json["of_a_later_build"] = Value::from("x");
        assert_eq!(serde_json::from_value::<Event>(json).unwrap(), event, "{}", sample.variant);
    }
    for Samples { variant, full: item, .. } in samples::work_items() {
        let mut json = serde_json::to_value(&item).unwrap();
        json[work_item_tag(variant)]["of_a_later_build"] = Value::from("x");
        assert_eq!(serde_json::from_value::<WorkItem>(json).unwrap(), item, "{variant}");
    }
}

#[test]
fn a_kind_of_a_later_build_is_an_error_that_names_it() {
    let json = serde_json::to_string(&event(EventKind::KeyValuesCleared)).unwrap();
    let error = serde_json::from_str::<Event>(&json.replace("KeyValuesCleared", "Levitated")).unwrap_err();
    assert!(error.to_string().contains("Levitated"), "{error}");
    let error = serde_json::from_str::<WorkItem>(r#"{"Levitate":{}}"#).unwrap_err();
    assert!(error.to_string().contains("Levitate"), "{error}");
}

#[test]
fn an_event_is_flat_and_tagged_by_its_kind() {
    for Samples { variant, full, .. } in samples::event_kinds() {
        let tag = match variant {
            "QueueSubscribed" => "ExternalSubscribedPersistent",
            "QueueEventDelivered" => "ExternalEventPersistent",
            "QueueSubscriptionCancelled" => "ExternalSubscribedPersistentCancelled",
            same => same,
        };
        let json = serde_json::to_value(event(full)).unwrap();
        assert_eq!(json["type"], tag);
        assert!(json.get("kind").is_none(), "{variant}: the kind is flattened");
        assert_eq!(json["event_id"], 7, "{variant}");
        assert_eq!(json["source_event_id"], 3, "{variant}");
    }
    let json =
        serde_json::to_value(event(EventKind::ExternalEvent { name: "n".into(), data: "d".into() })).unwrap();
    assert_eq!((&json["name"], &json["data"]), (&Value::from("n"), &Value::from("d")));
}

#[test]
fn a_work_item_is_tagged_from_outside() {
    for Samples { variant, full, .. } in samples::work_items() {
        let json = serde_json::to_value(full).unwrap();
        let names: Vec<&String> = json.as_object().unwrap().keys().collect();
        assert_eq!(names, [work_item_tag(variant)]);
    }
}

/// A failure with an error has the tag of one without.
fn work_item_tag(variant: &str) -> &str {
    match variant {
        "ActivityErrored" => "ActivityFailed",
        "SubOrchErrored" => "SubOrchFailed",
        same => same,
    }
}

fn names_of(json: &Value) -> BTreeSet<&str> {
    json.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[test]
fn optional_fields_are_left_out_when_there_is_nothing_in_them() {
    for Samples { variant, minimal, .. } in samples::event_kinds() {
        let Some(minimal) = minimal else { continue };
        let json = serde_json::to_value(event(minimal)).unwrap();
        let own = &names_of(&json)
            - &BTreeSet::from([
                "event_id",
                "source_event_id",
                "instance_id",
                "execution_id",
                "timestamp_ms",
                "duroxide_version",
                "type",
            ]);
        let expected = match variant {
            "OrchestrationStarted" => vec!["input", "name", "parent_id", "parent_instance", "version"],
            "ActivityScheduled" => vec!["input", "name"],
            "CustomStatusUpdated" => vec!["status"],
            "ActivityDeadlinesRecorded" => vec![],
            "ErrorRecorded" => vec!["error"],
            other => panic!("say here which fields of {other} are left out"),
        };
        assert_eq!(own.into_iter().collect::<Vec<_>>(), expected, "{variant}");
    }
    for Samples { variant, minimal, .. } in samples::work_items() {
        let Some(minimal) = minimal else { continue };
        let json = serde_json::to_value(minimal).unwrap();
        let expected = match variant {
            "StartOrchestration" => {
                vec![
                    "execution_id",
                    "input",
                    "instance",
                    "orchestration",
                    "parent_id",
                    "parent_instance",
                    "version",
                ]
            }
            "ActivityExecute" => vec!["execution_id", "id", "input", "instance", "name"],
            "ActivityExecuteWithin" => vec!["deadlines", "execution_id", "id", "input", "instance", "name"],
            "ActivityErrored" => vec!["details", "error", "execution_id", "id", "instance"],
            "ContinueAsNew" => vec!["input", "instance", "orchestration", "version"],
            other => panic!("say here which fields of {other} are left out"),
        };
        assert_eq!(
            names_of(&json[work_item_tag(variant)]).into_iter().collect::<Vec<_>>(),
            expected,
            "{variant}"
        );
    }
}

//! What must have come of the programs that both builds worked on.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use duroxide::{AppErrorKind, Client, ErrorDetails, Event, EventKind, OrchestrationStatus};
use duroxide_core::{cancel_policy_of, introduced_in};
use semver::Version;

use super::workload::{Program, REASON};
use super::{DECLINED, ROUNDS};
use crate::shared::finish::Histories;

/// How long an instance may take to end once no process is killed any more: longer than a scope waits for a worker that
/// was killed, and than a compensation may take.
const PATIENCE: Duration = Duration::from_secs(200);

/// Waits for the ends of all instances of these programs; fails on one that ended otherwise than it must. Gives how many
/// there were.
pub(crate) async fn check_ends(client: &Client) -> usize {
    let instances = client.list_all_instances().await.expect("listed");
    let roots: Vec<(String, Program)> = instances
        .into_iter()
        .filter_map(|instance| Program::of(&instance).map(|program| (instance, program)))
        .collect();
    for (instance, _) in roots.iter().filter(|(_, program)| program.is_cancelled()) {
        // The process that would have cancelled it may have been killed before.
        if !is_cancel_requested(client, instance).await {
            client.cancel_instance(instance, REASON).await.expect("cancel");
        }
    }
    for (instance, program) in &roots {
        let status = client.wait_for_orchestration(instance, PATIENCE).await;
        let status = status.unwrap_or_else(|error| panic!("{instance}: {error}"));
        let history = current_history(client, instance).await;
        let is_right = match (program, &status) {
            (Program::Upgraded, OrchestrationStatus::Completed { output, .. }) => {
                *output == upgraded_output(&history)
            }
            (Program::Conditional, OrchestrationStatus::Completed { output, .. }) => {
                output.starts_with("paid ")
            }
            (Program::Compensated | Program::Overdue, OrchestrationStatus::Failed { details, .. }) => {
                is_cancelled(details)
            }
            (_, _) => false,
        };
        assert!(is_right, "{instance} ended as {status:?}: {history:#?}");
    }
    check_failed(client).await;
    roots.len()
}

async fn is_cancel_requested(client: &Client, instance: &str) -> bool {
    let is_cancel = |event: &Event| matches!(event.kind, EventKind::OrchestrationCancelRequested { .. });
    current_history(client, instance).await.iter().any(is_cancel)
}

async fn current_history(client: &Client, instance: &str) -> Vec<Event> {
    let info = client.get_instance_info(instance).await.expect("read");
    client.read_execution_history(instance, info.current_execution_id).await.expect("read")
}

/// The check was made where a node of this build came first to its line.
fn upgraded_output(history: &[Event]) -> String {
    let is_patched = history.iter().any(|event| matches!(event.kind, EventKind::PatchMarked { .. }));
    let checked = if is_patched { format!("checked {ROUNDS}") } else { "unchecked".to_string() };
    format!("paid {ROUNDS} paid {ROUNDS}, {DECLINED}, {DECLINED}, {checked}, go {ROUNDS}")
}

fn is_cancelled(details: &ErrorDetails) -> bool {
    matches!(details, ErrorDetails::Application { kind: AppErrorKind::Cancelled { reason }, .. } if reason == REASON)
}

/// What failed was cancelled, or is a child that must fail: nothing is poisoned, and every history fitted the code.
async fn check_failed(client: &Client) {
    for instance in client.list_instances_by_status("Failed").await.expect("listed") {
        let status = client.get_orchestration_status(&instance).await.expect("read");
        let OrchestrationStatus::Failed { details, .. } = &status else { panic!("{instance}: {status:?}") };
        let must_fail = match Program::of(&instance) {
            Some(program) => program.is_cancelled() && is_cancelled(details),
            None => is_refused_child(&instance) && details.display_message() == DECLINED,
        };
        assert!(must_fail, "{instance}: {status:?}");
    }
}

fn is_refused_child(instance: &str) -> bool {
    let root = instance.split("::").next().unwrap_or_default();
    matches!(Program::of(root), Some(Program::Upgraded | Program::Conditional))
}

/// What the histories tell about the two builds.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Executions that an earlier build began and that this build gave an event of a kind which is younger.
    pub(crate) raised: usize,
    /// Executions with a cancel policy that undid both steps after a cancel.
    pub(crate) compensated: usize,
}

/// Fails if a build wrote to an execution that it cannot read, or if a kind of event is missing which is younger than
/// the earlier build.
pub(crate) fn check_histories(histories: &Histories) -> Found {
    let all: Vec<&Vec<Event>> = histories.values().flat_map(|executions| executions.values()).collect();
    let earlier = all.iter().filter_map(|history| history.first()).map(version_of).min();
    let earlier = earlier.expect("there are histories");
    let mut found = Found::default();
    let mut kinds = BTreeSet::new();
    for history in all {
        let mut readable_from = history.first().map(version_of).expect("no history is empty");
        let begun_by = readable_from.clone();
        for event in history {
            let by = version_of(event);
            assert!(
                by >= readable_from,
                "a node of {by} wrote {event:?}, which it cannot have read: {history:#?}"
            );
            if let Some(introduced) = introduced_in(&event.kind) {
                kinds.insert(kind_of(&serde_json::to_value(event).expect("an event is JSON")));
                readable_from = readable_from.max(introduced);
            }
        }
        found.raised += usize::from(readable_from > begun_by);
        found.compensated += usize::from(is_compensated(history));
    }
    let missing: Vec<String> =
        younger_kinds(&earlier).into_iter().filter(|kind| !kinds.contains(kind)).collect();
    assert!(missing.is_empty(), "no history has events of {missing:?}");
    assert!(found.raised > 0, "no execution was begun by {earlier} and got an event that it does not know");
    assert!(found.compensated > 0, "no execution undid its steps after a cancel");
    found
}

fn is_compensated(history: &[Event]) -> bool {
    let is_undo =
        |event: &&Event| matches!(&event.kind, EventKind::ActivityScheduled { name, .. } if name == "Undo");
    let is_paid = |event: &&Event| {
        is_undo(event)
            && matches!(&event.kind, EventKind::ActivityScheduled { input, .. } if input.starts_with("paid"))
    };
    let has_cancel = history.iter().any(|e| matches!(e.kind, EventKind::OrchestrationCancelRequested { .. }));
    // Payments are undone last.
    let completed = |id: u64| {
        history.iter().any(|event| {
            event.source_event_id == Some(id) && matches!(event.kind, EventKind::ActivityCompleted { .. })
        })
    };
    cancel_policy_of(history).is_some()
        && has_cancel
        && history.iter().filter(is_paid).any(|event| completed(event.event_id))
}

/// All kinds of events that a version does not know, by the samples that are kept of each.
fn younger_kinds(version: &Version) -> BTreeSet<String> {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../duroxide-core/tests/golden/v1/events");
    let files = std::fs::read_dir(&samples).unwrap_or_else(|cause| panic!("{}: {cause}", samples.display()));
    let mut kinds = BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(file.expect("listed").path()).expect("a sample can be read");
        let event: Event = serde_json::from_str(&text).expect("a sample is an event");
        if introduced_in(&event.kind).is_some_and(|introduced| introduced > *version) {
            kinds.insert(kind_of(&serde_json::from_str(&text).expect("it is JSON")));
        }
    }
    assert!(!kinds.is_empty(), "no kind of event is younger than {version}");
    kinds
}

fn kind_of(event: &serde_json::Value) -> String {
    event["type"].as_str().unwrap_or_default().to_string()
}

fn version_of(event: &Event) -> Version {
    Version::parse(&event.duroxide_version).expect("a build stamps its version")
}

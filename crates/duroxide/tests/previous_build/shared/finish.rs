//! Lets everything in a kept store run to its end, and replays every history before and after.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::Provider;
use duroxide::{Client, Event, EventKind, OrchestrationStatus};
use serde::{Deserialize, Serialize};

use super::cases::{REDRIVEN_AFTER, sent_to_finish};
use super::child::node;
use super::make::send;
use super::phase::Phase;
use super::programs::orchestrations;
use super::replay::replay;
use super::upgraded::with_orchestrations;

/// How long an instance may take to end.
const PATIENCE: Duration = Duration::from_secs(120);

/// How an instance ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct End {
    /// `completed`, or the category of the error.
    pub(crate) how: String,
    /// Its output, or the error's message.
    pub(crate) text: String,
}

/// The histories of all executions of all instances.
pub(crate) type Histories = BTreeMap<String, BTreeMap<u64, Vec<Event>>>;

/// How all instances ended, and their histories.
pub(crate) struct Finished {
    pub(crate) ends: BTreeMap<String, End>,
    pub(crate) histories: Histories,
}

/// Runs everything to its end. `directory` is for what the activities write down.
pub(crate) async fn finish(store: Arc<dyn Provider>, directory: &Path) -> Finished {
    let client = Client::new(store.clone());
    replay_all(&read_all(&client).await);
    let node = node(store, Phase::Finishing, directory).await;
    for instance in REDRIVEN_AFTER {
        client.redrive(instance).await.unwrap_or_else(|error| panic!("redrive of {instance}: {error}"));
    }
    for (instance, sent) in sent_to_finish() {
        send(&client, &instance, sent).await;
    }
    let ends = ends(&client).await;
    let metrics = node.metrics_snapshot().expect("a runtime counts");
    assert_eq!((metrics.orch_poison, metrics.activity_poison), (0, 0), "nothing is poisoned");
    assert_eq!(metrics.orch_configuration_errors, 0, "every history fits the code");
    node.shutdown(None).await;
    let histories = read_all(&client).await;
    replay_all(&histories);
    let depths = client.get_queue_depths().await.expect("read");
    assert_eq!((depths.orchestrator_queue, depths.worker_queue, depths.timer_queue), (0, 0, 0));
    Finished { ends, histories }
}

async fn ends(client: &Client) -> BTreeMap<String, End> {
    let mut ends = BTreeMap::new();
    loop {
        // What runs may start others: everything has ended when there is nothing new.
        let mut instances = client.list_all_instances().await.expect("listed");
        instances.retain(|instance| !ends.contains_key(instance));
        if instances.is_empty() {
            return ends;
        }
        for instance in instances {
            let end = end_of(client, &instance).await;
            ends.insert(instance, end);
        }
    }
}

async fn end_of(client: &Client, instance: &str) -> End {
    let status = client.wait_for_orchestration(instance, PATIENCE).await;
    match status.unwrap_or_else(|error| panic!("{instance}: {error}")) {
        OrchestrationStatus::Completed { output, .. } => End { how: "completed".to_string(), text: output },
        OrchestrationStatus::Failed { details, .. } => {
            End { how: details.category().to_string(), text: details.display_message() }
        }
        status @ (OrchestrationStatus::NotFound | OrchestrationStatus::Running { .. }) => {
            panic!("{instance} has not ended: {status:?}")
        }
    }
}

pub(crate) async fn read_all(client: &Client) -> Histories {
    let mut histories = Histories::new();
    for instance in client.list_all_instances().await.expect("listed") {
        let mut executions = BTreeMap::new();
        for execution in client.list_executions(&instance).await.expect("listed") {
            let history = client.read_execution_history(&instance, execution).await.expect("read");
            executions.insert(execution, history);
        }
        histories.insert(instance, executions);
    }
    histories
}

/// Whether a program has run. A cancel that comes before the first turn ends the execution as version 0.0.0.
fn has_run(history: &[Event]) -> bool {
    let started = history.first().map(|event| &event.kind);
    matches!(started, Some(EventKind::OrchestrationStarted { version, .. }) if version != "0.0.0")
}

/// Replays every history that has begun; fails with all that do not replay.
pub(crate) fn replay_all(histories: &Histories) {
    let registry = with_orchestrations(&orchestrations(Phase::Finishing));
    let mut faults = Vec::new();
    for (instance, executions) in histories {
        for (execution, history) in executions.iter().filter(|(_, history)| has_run(history)) {
            if let Err(fault) = replay(&registry, history) {
                faults.push(format!("{instance}, execution {execution}: {fault}"));
            }
        }
    }
    assert!(faults.is_empty(), "{} histories do not replay:\n{}", faults.len(), faults.join("\n"));
}

//! Makes a store that is in the middle of its work: how the kept stores were made, and how the next release keeps
//! its own.

use std::path::Path;
use std::time::Duration;

use duroxide::{Client, Event, OrchestrationStatus};

use super::activities::begun_beside;
use super::cases::{self, Case, REDRIVEN_AFTER, REDRIVEN_BEFORE, Sent, Until};
use super::child::Worker;
use super::phase::Phase;

/// How long the instances may take to get where they must.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often they are looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// A store, a client of it, and a directory beside it.
pub(crate) struct Place<'a> {
    pub(crate) store: &'a str,
    pub(crate) client: &'a Client,
    pub(crate) directory: &'a Path,
}

/// Fills an empty store. When this returns no process works on it, and every case stands where it must.
pub(crate) async fn make(place: &Place<'_>) {
    break_some(place).await;
    for (instance, sent) in cases::sent_early() {
        send(place.client, &instance, sent).await;
    }
    let healthy = cases::healthy();
    start_all(place, &healthy).await;
    let worker = Worker::start(Phase::Interrupted, place.store, place.directory);
    wait_for(place, &healthy).await;
    for (instance, sent) in cases::sent_meanwhile() {
        send(place.client, &instance, sent).await;
        place.client.wait_for_orchestration(&instance, PATIENCE).await.expect("it is cancelled");
    }
    let queued = cases::queued();
    start_all(place, &queued).await;
    wait_for(place, &queued).await;
    drop(worker);
    wait_for(place, &queued).await;
    let worker = Worker::start(Phase::Queueing, place.store, place.directory);
    wait_until("all second attempts are queued", async || {
        let mut count = 0;
        for case in &queued {
            count += usize::from(attempts(place.client, &case.instance).await == 2);
        }
        count == queued.len()
    })
    .await;
    let timely = cases::timely();
    start_all(place, &timely).await;
    wait_for(place, &timely).await;
    drop(worker);
    for case in healthy.iter().chain(&timely) {
        assert!(stands(place, case).await, "{case:?} does not stand where it must when the store is kept");
    }
    start_all(place, &cases::started_at_last()).await;
    for (instance, sent) in cases::sent_at_last() {
        send(place.client, &instance, sent).await;
    }
}

/// Instances that faulty code poisons, or that do not fit it. Some of them are redriven.
async fn break_some(place: &Place<'_>) {
    let (before, broken): (Vec<Case>, Vec<Case>) =
        cases::faulty().into_iter().partition(|case| case.orchestration == "Drifts");
    start_all(place, &before).await;
    let worker = Worker::start(Phase::Interrupted, place.store, place.directory);
    wait_for(place, &before).await;
    drop(worker);
    for case in &before {
        let go = Sent::Message { queue: "wakes it", data: String::new() };
        send(place.client, &case.instance, go).await;
    }
    start_all(place, &broken).await;
    let mut worker = Worker::start(Phase::Broken, place.store, place.directory);
    wait_until("the faulty code ends its instances", async || {
        if worker.has_ended() {
            worker = Worker::start(Phase::Broken, place.store, place.directory);
        }
        let mut failed = 0;
        for instance in REDRIVEN_BEFORE.iter().chain(&REDRIVEN_AFTER) {
            let status = place.client.get_orchestration_status(instance).await.expect("read");
            failed += usize::from(matches!(status, OrchestrationStatus::Failed { .. }));
        }
        failed == REDRIVEN_BEFORE.len() + REDRIVEN_AFTER.len()
    })
    .await;
    drop(worker);
    for instance in REDRIVEN_BEFORE {
        place.client.redrive(instance).await.expect("it goes on");
    }
}

pub(crate) async fn start_all(place: &Place<'_>, cases: &[Case]) {
    for case in cases {
        let Case { instance, orchestration, version, input, .. } = case.clone();
        let started = match version {
            None => place.client.start_orchestration(instance, orchestration, input).await,
            Some(version) => {
                place.client.start_orchestration_versioned(instance, orchestration, version, input).await
            }
        };
        started.expect("start");
    }
}

pub(crate) async fn send(client: &Client, instance: &str, sent: Sent) {
    let outcome = match sent {
        Sent::Event { name, data } => client.raise_event(instance, name, data).await,
        Sent::Message { queue, data } => client.enqueue_event(instance, queue, data).await,
        Sent::Cancel => client.cancel_instance(instance, "enough").await,
    };
    outcome.unwrap_or_else(|error| panic!("{instance}: {error}"));
}

async fn wait_for(place: &Place<'_>, cases: &[Case]) {
    for case in cases {
        wait_until(&format!("{case:?}"), async || stands(place, case).await).await;
    }
}

async fn wait_until(what: &str, mut is_reached: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !is_reached().await {
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("timed out: {what}"));
}

async fn stands(place: &Place<'_>, case: &Case) -> bool {
    let Ok(info) = place.client.get_instance_info(&case.instance).await else { return false };
    let history = |execution| place.client.read_execution_history(&case.instance, execution);
    match case.until {
        Until::Ended => info.status == "Completed" || info.status == "Failed",
        Until::Begun => {
            let begun = std::fs::read_to_string(begun_beside(place.directory)).unwrap_or_default();
            let child = format!("{}::", case.instance);
            begun.lines().any(|line| line == case.instance || line.starts_with(&child))
        }
        Until::Last { execution, event } => {
            let history = history(info.current_execution_id).await.unwrap_or_default();
            info.current_execution_id == execution
                && history.last().is_some_and(|last| type_of(last) == event)
        }
        Until::After { execution } => {
            let next = history(execution + 1).await.unwrap_or_default();
            info.current_execution_id == execution + 1 && next.is_empty()
        }
    }
}

/// How often an instance's activity has been scheduled.
async fn attempts(client: &Client, instance: &str) -> usize {
    let history = client.read_execution_history(instance, 1).await.unwrap_or_default();
    history.iter().filter(|event| type_of(event) == "ActivityScheduled").count()
}

fn type_of(event: &Event) -> String {
    let json = serde_json::to_value(event).expect("an event has a JSON form");
    json["type"].as_str().unwrap_or_default().to_string()
}

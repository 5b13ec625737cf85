//! The clients: send until they get an `Ok`, and wait for what they started.

use std::sync::Arc;
use std::time::Duration;

use duroxide::{Client, ClientError, InstanceFilter, OrchestrationStatus, PruneOptions};
use serde_json::Value;
use tokio::time::Instant;

use crate::generate::{Call, Send};
use crate::interpret::{parsed, result_value};
use crate::ledger::Acknowledged;
use crate::program::ORCHESTRATION;
use crate::store;
use crate::world::World;

/// How long a client waits for an end: longer than any simulation lasts.
pub(crate) const WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Makes the calls about one instance, one after the other, each at its time or later.
pub(crate) async fn send_all(world: Arc<World>, calls: Vec<Call>) {
    let client = Client::new(store::of_client(&world));
    let begun = Instant::now();
    for call in calls {
        tokio::time::sleep_until(begun + Duration::from_millis(call.at_ms)).await;
        announce(&world, &call);
        for failures in 0.. {
            match send(&client, &call).await {
                Ok(()) => break,
                Err(error) if error.is_retryable() => {
                    let longest_ms = 500 << failures.min(6);
                    let pause = world.random(|rng| rng.millis(10, longest_ms));
                    tokio::time::sleep(pause).await;
                }
                Err(error) => {
                    world.fail(format!("a client's call for {} was refused: {error}", call.instance));
                    break;
                }
            }
        }
        world.trace("client", format_args!("has its ok for {} {}", call.instance, label(&call.what)));
        answered(&world, call);
    }
}

/// What the ledger must know before a call.
fn announce(world: &World, call: &Call) {
    world.ledger(|ledger| match &call.what {
        Send::Cancel { reason } => {
            ledger.cancels.entry(call.instance.clone()).or_default().push(reason.clone());
        }
        Send::Delete | Send::DeleteFinished => ledger.may_vanish(&call.instance),
        Send::Prune => {
            ledger.prunable.insert(call.instance.clone());
        }
        Send::Start { .. } | Send::Raise { .. } | Send::Enqueue { .. } => {}
    });
}

/// What a call that returned `Ok` promises.
fn answered(world: &World, call: Call) {
    let Call { instance, what, .. } = call;
    match &what {
        Send::Start { .. } | Send::Raise { .. } | Send::Enqueue { .. } | Send::Cancel { .. } => {
            world.ledger(|ledger| ledger.acknowledged.push(Acknowledged { instance, what }));
        }
        Send::Delete => {
            world.count("instance deleted by force");
            if world.exists(&instance) {
                world.fail(format!("{instance}: its deletion was acknowledged and it is there"));
            }
            world.ledger(|ledger| ledger.forget(&instance));
        }
        Send::DeleteFinished if !world.ledger(|ledger| ledger.is_started(&instance)) => {}
        Send::DeleteFinished if !world.exists(&instance) => {
            world.count("finished instance deleted");
            if !world.ledger(|ledger| ledger.has_ended(&instance)) {
                world.fail(format!("{instance}: was deleted as finished while it was running"));
            }
            world.ledger(|ledger| ledger.forget(&instance));
        }
        Send::DeleteFinished => world.count("running instance survived a bulk deletion"),
        Send::Prune => world.count("old executions removed"),
    }
}

async fn send(client: &Client, call: &Call) -> Result<(), ClientError> {
    let instance = call.instance.clone();
    match call.what.clone() {
        Send::Start { version: None, input } => {
            client.start_orchestration(instance, ORCHESTRATION, input).await
        }
        Send::Start { version: Some(version), input } => {
            client.start_orchestration_versioned(instance, ORCHESTRATION, version, input).await
        }
        Send::Raise { name, data } => client.raise_event(instance, name, data).await,
        Send::Enqueue { queue, data } => client.enqueue_event(instance, queue, data).await,
        Send::Cancel { reason } => client.cancel_instance(instance, reason).await,
        Send::Delete => gone(client.delete_instance(&instance, true).await),
        Send::DeleteFinished => {
            let filter = InstanceFilter { instance_ids: Some(vec![instance]), ..InstanceFilter::default() };
            client.delete_instance_bulk(filter).await.map(|_| ())
        }
        Send::Prune => gone(client.prune_executions(&instance, PruneOptions::default()).await),
    }
}

/// What is not there need not be removed: the answer to the first try may have been lost.
fn gone<T>(answer: Result<T, ClientError>) -> Result<(), ClientError> {
    match answer {
        Ok(_) | Err(ClientError::InstanceNotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

fn label(what: &Send) -> String {
    match what {
        Send::Start { .. } => "start".to_string(),
        Send::Raise { name, .. } => format!("event {name}"),
        Send::Enqueue { data, .. } => format!("message {data}"),
        Send::Cancel { reason } => format!("cancel ({reason})"),
        Send::Delete => "deletion".to_string(),
        Send::DeleteFinished => "deletion if finished".to_string(),
        Send::Prune => "pruning".to_string(),
    }
}

/// Waits for the end of an instance and remembers what was seen.
pub(crate) async fn wait(world: Arc<World>, instance: String) {
    let client = Client::new(store::of_client(&world));
    match client.wait_for_orchestration(&instance, WAIT).await {
        Ok(status) => {
            let seen = end_value(&status);
            world.trace("client", format_args!("sees the end of {instance}"));
            world.ledger(|ledger| ledger.seen_ends.insert(instance, seen));
        }
        Err(error) => world.fail(format!("waiting for {instance} failed: {error}")),
    }
}

/// An end as a value: what [`crate::expect`] speaks about.
pub(crate) fn end_value(status: &OrchestrationStatus) -> Value {
    match status {
        OrchestrationStatus::Completed { output, .. } => result_value(Ok(parsed(output))),
        OrchestrationStatus::Failed { details, .. } => result_value(Err(details.display_message())),
        OrchestrationStatus::NotFound | OrchestrationStatus::Running { .. } => Value::Null,
    }
}

//! The clients: send until they get an `Ok`, and wait for what they started.

use std::sync::Arc;
use std::time::Duration;

use duroxide::{Client, ClientError, OrchestrationStatus};
use serde_json::Value;
use tokio::time::Instant;

use crate::generate::{Call, Send};
use crate::interpret::{parsed, result_value};
use crate::ledger::Acknowledged;
use crate::nodes::client_store;
use crate::program::ORCHESTRATION;
use crate::world::World;

/// How long a client waits for an end: longer than any simulation lasts.
const WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Makes the calls about one instance, one after the other, each at its time or later.
pub(crate) async fn send_all(world: Arc<World>, calls: Vec<Call>) {
    let client = Client::new(client_store(&world));
    let begun = Instant::now();
    for call in calls {
        tokio::time::sleep_until(begun + Duration::from_millis(call.at_ms)).await;
        if let Send::Cancel { reason } = &call.what {
            world.ledger(|ledger| {
                ledger.cancels.entry(call.instance.clone()).or_default().push(reason.clone());
            });
        }
        loop {
            match send(&client, &call).await {
                Ok(()) => break,
                Err(error) if error.is_retryable() => {
                    let pause = world.random(|rng| rng.millis(10, 500));
                    tokio::time::sleep(pause).await;
                }
                Err(error) => {
                    world.fail(format!("a client's call for {} was refused: {error}", call.instance));
                    break;
                }
            }
        }
        world.trace("client", format_args!("has its ok for {} {}", call.instance, label(&call.what)));
        let Call { instance, what, .. } = call;
        world.ledger(|ledger| ledger.acknowledged.push(Acknowledged { instance, what }));
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
    }
}

fn label(what: &Send) -> String {
    match what {
        Send::Start { .. } => "start".to_string(),
        Send::Raise { name, .. } => format!("event {name}"),
        Send::Enqueue { data, .. } => format!("message {data}"),
        Send::Cancel { reason } => format!("cancel ({reason})"),
    }
}

/// Waits for the end of an instance and remembers what was seen.
pub(crate) async fn wait(world: Arc<World>, instance: String) {
    let client = Client::new(client_store(&world));
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
fn end_value(status: &OrchestrationStatus) -> Value {
    match status {
        OrchestrationStatus::Completed { output, .. } => result_value(Ok(parsed(output))),
        OrchestrationStatus::Failed { details, .. } => result_value(Err(details.display_message())),
        OrchestrationStatus::NotFound | OrchestrationStatus::Running { .. } => Value::Null,
    }
}

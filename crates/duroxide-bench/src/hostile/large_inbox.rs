//! One instance is sent 0.8 GB of messages, each within its limit, all at once, and reads them all: memory stays bounded, and
//! no other call waits.

use std::time::Duration;

use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{Client, ClientError, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Options;
use super::memory::peak_mib;
use super::neighbour::Neighbour;
use crate::floor::report::Report;
use crate::floor::store::{PATIENCE, Store};
use crate::floor::{self, Failure};

/// Messages that are 0.8 GB together.
const MESSAGES: usize = 800;
const MESSAGE_BYTES: usize = 1_000_000;
const QUEUE: &str = "Large";
/// How long a neighbour may take beside it.
const BESIDE: Duration = Duration::from_millis(200);
/// Resident at most, with the messages of the senders themselves.
const MEMORY_MIB: f64 = 1_000.0;

/// Whether memory stays within its bound and neighbours are served, while the messages are sent and while they are read.
pub(crate) async fn run(options: &Options) -> Result<bool, Failure> {
    let mut report = Report::default();
    report.section(&format!("a large inbox on {:?}", options.store));
    let floor = floor::Options { dir: options.dir.clone(), store: options.store, only: None, scale: 1 };
    let store = Store::open(&floor, &mut report).await?;
    let activities = ActivityRegistry::builder().build();
    let node = Runtime::start_with_store(store.provider.clone(), activities, orchestrations()).await;
    let client = node.client();
    let neighbour = Neighbour::start(&client, "AtOnce");
    tokio::time::sleep(Duration::from_secs(1)).await;
    report.figure("neighbour before", neighbour.measured().await);

    client.start_orchestration("reader", "Reader", MESSAGES.to_string()).await?;
    // What it takes the senders to make them is not measured.
    let make = || (0..MESSAGES).map(|_| "x".repeat(MESSAGE_BYTES)).collect();
    let messages: Vec<String> = tokio::task::spawn_blocking(make).await?;
    report.figure("neighbour while they are made", neighbour.measured().await);
    let begun = Instant::now();
    send_all(&client, messages).await?;
    report.figure("0.8 GB were sent after", format!("{:.1?}", begun.elapsed()));
    let beside = neighbour.measured().await;
    report.figure("neighbour while they are sent", beside);
    let limit = BESIDE.as_secs_f64();
    report.at_most("neighbour beside the senders, in seconds", beside.worst.as_secs_f64(), limit);
    report.at_most("memory resident while they are sent, in MiB", peak_mib()?, MEMORY_MIB);

    let begun = Instant::now();
    let status = client.wait_for_orchestration("reader", PATIENCE).await?;
    report.figure("all were read after", format!("{:.1?}", begun.elapsed()));
    let expected = (MESSAGES * MESSAGE_BYTES).to_string();
    if !matches!(&status, OrchestrationStatus::Completed { output, .. } if *output == expected) {
        return Err(format!("the reader ended as {status:?}").into());
    }
    let beside = neighbour.measured().await;
    report.figure("neighbour while they are read", beside);
    report.at_most("neighbour beside the reader, in seconds", beside.worst.as_secs_f64(), limit);
    report.at_most("memory resident at most, in MiB", peak_mib()?, MEMORY_MIB);
    drop(neighbour);
    node.shutdown(None).await;
    Ok(report.finish())
}

/// Sends all messages at the same time.
async fn send_all(client: &Client, messages: Vec<String>) -> Result<(), Failure> {
    let mut senders: JoinSet<Result<(), ClientError>> = JoinSet::new();
    for message in messages {
        let client = client.clone();
        senders.spawn(async move { client.enqueue_event("reader", QUEUE, message).await });
    }
    while let Some(sent) = senders.join_next().await {
        sent??;
    }
    Ok(())
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("AtOnce", |_: OrchestrationContext, input: String| async move { Ok(input) })
        .register("Reader", |ctx: OrchestrationContext, input: String| async move {
            let count: usize = input.parse().map_err(|_| "the input is a number".to_string())?;
            let mut bytes = 0;
            for _ in 0..count {
                bytes += ctx.dequeue_event(QUEUE).await.len();
            }
            Ok(bytes.to_string())
        })
        .build()
}

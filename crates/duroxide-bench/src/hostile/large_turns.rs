//! A turn that is larger than the limit, and one that schedules 200,000 activities: neither holds others up.

use std::time::Duration;

use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
use tokio::time::Instant;

use super::Options;
use super::memory::peak_mib;
use super::neighbour::Neighbour;
use crate::floor::report::Report;
use crate::floor::store::{PATIENCE, Store};
use crate::floor::{self, Failure};

/// Inputs of one turn that are 1.2 GB together, each within its limit.
const INPUTS: usize = 1_200;
const INPUT_BYTES: usize = 1_000_000;
/// Activities that one turn schedules.
const FAN_OUT: usize = 200_000;
/// How long a neighbour may take beside either of them.
const BESIDE_TOO_LARGE: Duration = Duration::from_millis(200);
const BESIDE_FAN_OUT: Duration = Duration::from_millis(500);
/// Resident at most after the turn that is too large.
const MEMORY_MIB: f64 = 1_000.0;

/// Whether neighbours are served, and the turn that is too large fails with a text that names the limit.
pub(crate) async fn run(options: &Options) -> Result<bool, Failure> {
    let mut report = Report::default();
    report.section(&format!("large turns on {:?}", options.store));
    let floor = floor::Options { dir: options.dir.clone(), store: options.store, only: None, scale: 1 };
    let store = Store::open(&floor, &mut report).await?;
    let node = Runtime::start_with_store(store.provider.clone(), activities(), orchestrations()).await;
    let client = node.client();
    let neighbour = Neighbour::start(&client, "AtOnce");
    tokio::time::sleep(Duration::from_secs(1)).await;
    report.figure("neighbour before", neighbour.measured().await);

    let begun = Instant::now();
    client.start_orchestration("too-large", "TooLarge", "").await?;
    let status = client.wait_for_orchestration("too-large", PATIENCE).await?;
    report.figure("a turn of 1.2 GB ended after", format!("{:.1?}", begun.elapsed()));
    let names_limit = match &status {
        OrchestrationStatus::Failed { details, .. } => {
            let text = details.display_message();
            report.figure("its text", &text);
            text.contains(&duroxide_core::limits::MAX_STEP_BYTES.to_string())
        }
        OrchestrationStatus::Completed { .. }
        | OrchestrationStatus::Running { .. }
        | OrchestrationStatus::NotFound => false,
    };
    report.at_least("its text names the limit", f64::from(u8::from(names_limit)), 1.0);
    let beside = neighbour.measured().await;
    report.figure("neighbour beside it", beside);
    let limit = BESIDE_TOO_LARGE.as_secs_f64();
    report.at_most("neighbour beside a turn too large, in seconds", beside.worst.as_secs_f64(), limit);
    report.at_most("memory resident at most, in MiB", peak_mib()?, MEMORY_MIB);

    let begun = Instant::now();
    client.start_orchestration("fan-out", "FanOut", FAN_OUT.to_string()).await?;
    // The events of a turn are seen when it is committed, all of them at once.
    while client.get_orchestration_stats("fan-out").await?.is_none_or(|stats| stats.history_event_count < 2) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    report.figure("its turn was committed after", format!("{:.1?}", begun.elapsed()));
    let beside = neighbour.measured().await;
    report.figure("neighbour meanwhile", beside);
    let limit = BESIDE_FAN_OUT.as_secs_f64();
    report.at_most("neighbour beside the fan-out, in seconds", beside.worst.as_secs_f64(), limit);
    let status = client.wait_for_orchestration("fan-out", PATIENCE).await?;
    report.figure("the fan-out ended after", format!("{:.1?}", begun.elapsed()));
    if !matches!(&status, OrchestrationStatus::Completed { output, .. } if *output == FAN_OUT.to_string()) {
        return Err(format!("the fan-out ended as {status:?}").into());
    }
    let beside = neighbour.measured().await;
    report.figure("neighbour while its activities run", beside);
    report.at_most("neighbour beside its activities, in seconds", beside.worst.as_secs_f64(), limit);
    report.figure("memory resident at most", format!("{:.0} MiB", peak_mib()?));
    drop(neighbour);
    node.shutdown(None).await;
    Ok(report.finish())
}

fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Echo", |_: ActivityContext, input: String| async move { Ok(input) })
        .build()
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("AtOnce", |_: OrchestrationContext, input: String| async move { Ok(input) })
        .register("TooLarge", |ctx: OrchestrationContext, _: String| async move {
            let input = "x".repeat(INPUT_BYTES);
            let all = (0..INPUTS).map(|_| ctx.schedule_activity("Echo", input.as_str())).collect();
            Ok(ctx.join(all).await.len().to_string())
        })
        .register("FanOut", |ctx: OrchestrationContext, input: String| async move {
            let count: usize = input.parse().map_err(|_| "the input is a number".to_string())?;
            let all = (0..count).map(|n| ctx.schedule_activity("Echo", n.to_string())).collect();
            let results = ctx.join(all).await;
            Ok(results.into_iter().filter(Result::is_ok).count().to_string())
        })
        .build()
}

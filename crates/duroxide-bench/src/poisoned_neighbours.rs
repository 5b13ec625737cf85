//! Healthy orchestrations beside others that are poisoned meanwhile: the healthy ones hardly notice.

use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, UnregisteredBackoffConfig};
use duroxide::{
    ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus, RuntimeOptions,
};
use futures::future::try_join_all;

use crate::floor::Failure;
use crate::floor::report::{Report, median, ratio};
use crate::floor::store::PATIENCE;
use crate::size::Size;

/// One bad orchestration for so many healthy ones: 50 beside 1,000.
const HEALTHY_PER_BAD: usize = 20;
/// Activities of a healthy orchestration, one after the other, so that a run lasts longer than the bad ones do.
const STEPS: usize = 10;
/// Pairs of runs; each gives a ratio, and the median counts. Whatever else the machine does hits both of a pair.
const ROUNDS: usize = 11;
/// What must be left of the throughput.
const LEAST: f64 = 0.9;

/// Whether the throughput of the healthy ones stays the same beside the bad ones.
pub(crate) async fn run(size: Size) -> Result<bool, Failure> {
    let mut report = Report::default();
    let bad = size.count.div_ceil(HEALTHY_PER_BAD);
    report.section(&format!("{} healthy orchestrations beside {bad} that are poisoned", size.count));
    one_run(&size, 0).await?;
    let (mut alone, mut beside, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // Neither kind always has the other's writes still on their way to the disk.
        let (without, with) = if round % 2 == 0 {
            let without = one_run(&size, 0).await?;
            (without, one_run(&size, bad).await?)
        } else {
            let with = one_run(&size, bad).await?;
            (one_run(&size, 0).await?, with)
        };
        let poisoned = format!("{} of {bad}", with.poisoned);
        report.figure("poisoned before the healthy ones were done", poisoned);
        alone.push(without.took);
        beside.push(with.took);
        ratios.push(ratio(without.took, with.took));
    }
    ratios.sort_by(f64::total_cmp);
    let rate = |mut took: Vec<Duration>| {
        format!("{:.0} per second", size.count as f64 / median(&mut took).as_secs_f64())
    };
    report.figure("healthy orchestrations, alone", rate(alone));
    report.figure("healthy orchestrations, beside poisoned ones", rate(beside));
    report.at_least("throughput beside / alone", ratios[ROUNDS / 2], LEAST);
    Ok(report.finish())
}

struct Run {
    took: Duration,
    /// Bad ones that had been poisoned when the last healthy one was done.
    poisoned: u64,
}

async fn one_run(size: &Size, bad: usize) -> Result<Run, Failure> {
    let directory = size.directory()?;
    let url = format!("sqlite:{}", directory.path().join("store.db").display());
    let store = Arc::new(SqliteProvider::new(&url, None).await?);
    let backoff = UnregisteredBackoffConfig {
        base_delay: Duration::from_millis(5),
        max_delay: Duration::from_millis(50),
    };
    let options = RuntimeOptions { unregistered_backoff: backoff, ..Default::default() };
    let node = Runtime::start_with_options(store, activities(), orchestrations(), options).await;
    let client = node.client();
    for n in 0..bad {
        let name = if n % 2 == 0 { "Missing" } else { "CallsMissing" };
        client.start_orchestration(format!("bad-{n}"), name, "").await?;
    }
    let begun = Instant::now();
    try_join_all((0..size.count).map(|n| healthy(&client, n))).await?;
    let took = begun.elapsed();
    let counted = node.metrics_snapshot().ok_or("the node does not count")?;
    for n in 0..bad {
        let status = client.wait_for_orchestration(&format!("bad-{n}"), PATIENCE).await?;
        let details = match status {
            OrchestrationStatus::Failed { ref details, .. } => details.clone(),
            OrchestrationStatus::NotFound
            | OrchestrationStatus::Running { .. }
            | OrchestrationStatus::Completed { .. } => {
                return Err(format!("bad-{n} ended as {status:?}").into());
            }
        };
        if details.category() != "poison" {
            return Err(format!("bad-{n} failed otherwise: {details}").into());
        }
    }
    node.shutdown(None).await;
    Ok(Run { took, poisoned: counted.orch_poison })
}

async fn healthy(client: &Client, n: usize) -> Result<(), Failure> {
    let instance = format!("healthy-{n}");
    client.start_orchestration(&instance, "Healthy", "well").await?;
    let output = client.wait_for_orchestration_typed::<String>(&instance, PATIENCE).await??;
    if output == "well" { Ok(()) } else { Err(format!("{instance} gave {output}").into()) }
}

fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Echo", |_ctx: ActivityContext, input: String| async move { Ok(input) })
        .build()
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Healthy", |ctx: OrchestrationContext, input: String| async move {
            let mut value = input;
            for _ in 0..STEPS {
                value = ctx.schedule_activity("Echo", value).await?;
            }
            Ok(value)
        })
        .register("CallsMissing", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_activity("Missing", input).await
        })
        .build()
}

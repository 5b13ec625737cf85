//! Many calls of a typed activity in many instances, deleted as they finish: the memory does not grow.

use std::sync::Arc;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};

use crate::floor::Failure;
use crate::floor::report::Report;
use crate::floor::store::PATIENCE;
use crate::size::Size;

/// Calls in each instance.
const CALLS_PER_INSTANCE: usize = 50;
/// Instances at a time.
const INSTANCES_AT_A_TIME: usize = 20;
/// The memory after this part of the calls is what the rest is compared with.
const FIRST_PART: usize = 20;
/// But not before this many, or half of a shorter run: caches fill first.
const WARM_AFTER_CALLS: usize = 10_000;
/// What the memory may grow by after that.
const GROWTH: f64 = 1.10;

/// Whether the memory stays as it was after the first part of the calls.
pub(crate) async fn run(size: Size) -> Result<bool, Failure> {
    let mut report = Report::default();
    report.section(&format!("{} calls of a typed activity", size.count));
    let directory = size.directory()?;
    let url = format!("sqlite:{}", directory.path().join("store.db").display());
    let store = Arc::new(SqliteProvider::new(&url, None).await?);
    let node = Runtime::start_with_store(store, activities(), orchestrations()).await;
    let client = node.client();
    let warm_after = (size.count / FIRST_PART).max(WARM_AFTER_CALLS.min(size.count / 2));
    let (mut calls, mut round, mut early) = (0, 0, None);
    while calls < size.count {
        one_round(&client, round).await?;
        calls += CALLS_PER_INSTANCE * INSTANCES_AT_A_TIME;
        round += 1;
        if early.is_none() && calls >= warm_after {
            early = Some(resident_kib()?);
        }
    }
    let (early, late) = (early.unwrap_or_default(), resident_kib()?);
    let left = client.get_system_metrics().await?.total_instances;
    node.shutdown(None).await;
    report.figure("calls", calls);
    report.figure("instances left", left);
    report.figure(&format!("resident after {warm_after} calls"), format!("{early} KiB"));
    report.figure("resident at the end", format!("{late} KiB"));
    report.at_most("resident at the end / early", late as f64 / early as f64, GROWTH);
    Ok(report.finish() && left == 0)
}

async fn one_round(client: &Client, round: usize) -> Result<(), Failure> {
    let instances = (0..INSTANCES_AT_A_TIME).map(|n| async move {
        let instance = format!("soak-{round}-{n}");
        client.start_orchestration_typed(&instance, "Sum", CALLS_PER_INSTANCE as u64).await?;
        let sum = client.wait_for_orchestration_typed::<u64>(&instance, PATIENCE).await??;
        if sum != (1..=CALLS_PER_INSTANCE as u64).sum::<u64>() {
            return Err(Failure::from(format!("{instance} counted {sum}")));
        }
        client.delete_instance(&instance, false).await?;
        Ok(())
    });
    futures::future::try_join_all(instances).await?;
    Ok(())
}

fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register_typed("Add", |_ctx: ActivityContext, (sum, n): (u64, u64)| async move { Ok(sum + n) })
        .build()
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register_typed("Sum", |ctx: OrchestrationContext, count: u64| async move {
            let mut sum = 0_u64;
            for n in 1..=count {
                sum = ctx.schedule_activity_typed("Add", &(sum, n)).await?;
            }
            Ok(sum)
        })
        .build()
}

/// The memory that this process has in use, from the kernel's accounts.
fn resident_kib() -> Result<usize, Failure> {
    /// The unit of these accounts on Linux.
    const PAGE_KIB: usize = 4;
    let line = std::fs::read_to_string("/proc/self/statm")?;
    let pages = line.split_whitespace().nth(1).and_then(|field| field.parse::<usize>().ok());
    pages
        .map(|pages| pages * PAGE_KIB)
        .ok_or_else(|| "the kernel's account of the memory cannot be read".into())
}

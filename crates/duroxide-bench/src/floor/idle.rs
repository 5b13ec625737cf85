//! Doing nothing beside many parked instances.

use std::time::Duration;

use super::report::Report;
use super::store::Store;
use super::{Failure, Options};

/// How long to watch.
const WATCHED: Duration = Duration::from_secs(10);

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<(), Failure> {
    let count = options.sized(10_000);
    report.section(&format!("idle for {} s with {count} parked instances", WATCHED.as_secs()));
    let store = Store::open(options, report).await?;
    let node = store.node().await;
    let starts = (0..count).map(|n| store.client.start_orchestration(format!("parked{n}"), "Parked", ""));
    futures::future::try_join_all(starts).await?;
    while node.metrics_snapshot().is_none_or(|metrics| metrics.orch_starts < count as u64) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Two looks at a store that has come to rest.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let statements = store.statistics().statements;
    let cpu = cpu_time()?;
    tokio::time::sleep(WATCHED).await;
    let statements = store.statistics().statements - statements;
    let cpu = cpu_time()? - cpu;
    report.figure("file", store.file_size());
    report.at_most(
        "statements per second",
        statements as f64 / WATCHED.as_secs_f64(),
        options.limit(1.0, 2.0),
    );
    report.at_most("share of a core, percent", 100.0 * cpu.as_secs_f64() / WATCHED.as_secs_f64(), 1.0);
    node.shutdown(None).await;
    Ok(())
}

/// The time that this process has spent on all cores, from the kernel's accounts.
fn cpu_time() -> Result<Duration, Failure> {
    /// The unit of these accounts on Linux: a hundredth of a second.
    const TICK: Duration = Duration::from_millis(10);
    let line = std::fs::read_to_string("/proc/self/stat")?;
    // The name in parentheses may hold spaces; user and system time are the 12th and 13th fields behind it.
    let fields: Vec<&str> =
        line.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<u32>().ok());
    match (ticks(11), ticks(12)) {
        (Some(user), Some(system)) => Ok(TICK * (user + system)),
        _ => Err("the kernel's account of this process cannot be read".into()),
    }
}

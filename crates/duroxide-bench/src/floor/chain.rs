//! A chain of activities, each waiting for the one before.

use std::time::Duration;

use super::raw::around;
use super::report::{Report, micros, ratio};
use super::store::Store;
use super::{Failure, Options};

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<(), Failure> {
    let steps = options.sized(2_000);
    report.section(&format!("a chain of {steps} activities"));
    let store = Store::open(options, report).await?;
    let node = store.node().await;
    let before = store.raw.measure(1_000).await?;
    let statistics = store.statistics();
    let begun = std::time::Instant::now();
    store.client.start_orchestration("chain", "Chain", steps.to_string()).await?;
    store.completed("chain").await?;
    let step = begun.elapsed() / u32::try_from(steps)?;
    let after = store.statistics();
    let commits = after.commits - statistics.commits;
    let statements = after.statements - statistics.statements;
    let raw = around(before, store.raw.measure(1_000).await?);
    let history = store.client.read_execution_history("chain", 1).await?;
    let tenth = history.len() / 10;
    let span = |from: usize, to: usize| {
        Duration::from_millis(history[to].timestamp_ms.saturating_sub(history[from].timestamp_ms))
    };
    let first = span(0, tenth);
    let last = span(history.len() - 1 - tenth, history.len() - 1);
    report.figure("commits per step", format!("{:.2}", commits as f64 / steps as f64));
    report.figure("statements per step", format!("{:.1}", statements as f64 / steps as f64));
    report.figure("file", store.file_size());
    report.figure("p50 of one raw durable commit", micros(raw.median));
    report.figure("mean of one step", micros(step));
    report.at_most("step / raw commit", ratio(step, raw.median), 6.0);
    report.at_most("last tenth / first tenth", ratio(last, first), 1.3);
    node.shutdown(None).await;
    Ok(())
}

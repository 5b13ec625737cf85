//! One hello world at a time on an idle store.

use std::time::Instant;

use super::raw::around;
use super::report::{Report, median, micros, ratio};
use super::store::Store;
use super::{Failure, Options};

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<(), Failure> {
    report.section("hello world on an idle store: start, one activity, done, seen by a waiting client");
    let store = Store::open(options, report).await?;
    let node = store.node().await;
    for n in 0..50 {
        hello(&store, &format!("warm{n}")).await?;
    }
    let count = options.sized(500);
    let before = store.raw.measure(count).await?;
    let statistics = store.statistics();
    let mut times = Vec::with_capacity(count);
    for n in 0..count {
        let begun = Instant::now();
        hello(&store, &format!("hello{n}")).await?;
        times.push(begun.elapsed());
    }
    let commits = store.statistics().commits - statistics.commits;
    let raw = around(before, store.raw.measure(count).await?);
    let ours = median(&mut times);
    report.figure("commits per orchestration", format!("{:.2}", commits as f64 / count as f64));
    report.figure("file", store.file_size());
    report.figure("p50 of one raw durable commit", micros(raw.median));
    report.figure("p50 of one hello world", micros(ours));
    report.at_most("hello world / raw commit", ratio(ours, raw.median), options.limit(12.0, 14.0));
    node.shutdown(None).await;
    Ok(())
}

async fn hello(store: &Store, instance: &str) -> Result<(), Failure> {
    store.client.start_orchestration(instance, "Hello", "world").await?;
    store.completed(instance).await?;
    Ok(())
}

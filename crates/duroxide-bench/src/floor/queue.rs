//! A loop over queued events in one orchestration.

use std::time::{Duration, Instant};

use futures::future::try_join_all;

use super::report::{Report, ratio};
use super::store::Store;
use super::{Failure, Options};

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<(), Failure> {
    let (small, large) = (options.sized(10_000), options.sized(100_000));
    report.section(&format!("a loop over {small} and over {large} queued events"));
    let store = Store::open(options, report).await?;
    for (instance, count) in [("small0", small), ("small1", small), ("small2", small), ("large", large)] {
        enqueue(&store, instance, count).await?;
    }
    let node = store.node().await;
    let mut smalls = Vec::new();
    for instance in ["small0", "small1", "small2"] {
        smalls.push(drain(&store, instance, small).await?);
    }
    let ours = drain(&store, "large", large).await?;
    let theirs = super::report::median(&mut smalls);
    report.figure("file", store.file_size());
    report.figure(&format!("{small} events"), format!("{:.0} ms", theirs.as_secs_f64() * 1e3));
    report.figure(&format!("{large} events"), format!("{:.0} ms", ours.as_secs_f64() * 1e3));
    report.at_most("ten times as many / as many", ratio(ours, theirs), 13.0);
    node.shutdown(None).await;
    Ok(())
}

async fn enqueue(store: &Store, instance: &str, count: usize) -> Result<(), Failure> {
    let mut left = count;
    while left > 0 {
        let batch = left.min(1_000);
        try_join_all((0..batch).map(|_| store.client.enqueue_event(instance, "queue", "data"))).await?;
        left -= batch;
    }
    Ok(())
}

async fn drain(store: &Store, instance: &str, count: usize) -> Result<Duration, Failure> {
    let begun = Instant::now();
    store.client.start_orchestration(instance, "Drain", count.to_string()).await?;
    store.completed(instance).await?;
    Ok(begun.elapsed())
}

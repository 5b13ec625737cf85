//! Many hello worlds started at once.

use std::time::Instant;

use futures::future::try_join_all;

use super::raw::around;
use super::report::Report;
use super::store::Store;
use super::{Failure, Options};

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<(), Failure> {
    let count = options.sized(5_000);
    report.section(&format!("{count} hello worlds started at once"));
    let store = Store::open(options, report).await?;
    let node = store.node().await;
    let before = store.raw.measure_many(2_000).await?;
    let statistics = store.statistics();
    let begun = Instant::now();
    try_join_all((0..count).map(|n| {
        let store = &store;
        async move {
            let instance = format!("hello{n}");
            store.client.start_orchestration(&instance, "Hello", "world").await?;
            store.completed(&instance).await
        }
    }))
    .await?;
    let elapsed = begun.elapsed();
    let after = store.statistics();
    let raw = around(before, store.raw.measure_many(2_000).await?);
    let rate = count as f64 / elapsed.as_secs_f64();
    let commits = (after.commits - statistics.commits) as f64;
    let calls = (after.calls - statistics.calls) as f64;
    report.figure("file", store.file_size());
    report.figure("raw durable commits per second", format!("{:.0}", raw.commits_per_second));
    report.figure("orchestrations per second", format!("{rate:.0}"));
    report.figure("commits per orchestration", format!("{:.3}", commits / count as f64));
    report.at_least(
        "orchestrations/s / raw commits/s",
        rate / raw.commits_per_second,
        options.limit(0.5, 0.1),
    );
    report.at_least("mean calls per commit", calls / commits, 8.0);
    node.shutdown(None).await;
    Ok(())
}

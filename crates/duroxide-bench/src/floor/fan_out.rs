//! Many activities at once, joined.

use std::time::{Duration, Instant};

use super::report::{Report, median, ratio};
use super::store::Store;
use super::{Failure, Options};

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<(), Failure> {
    let (small, large) = (options.sized(1_000), options.sized(10_000));
    report.section(&format!("fan-out and join of {small} and of {large} activities"));
    let store = Store::open(options, report).await?;
    let node = store.node().await;
    fan_out(&store, "warm", small).await?;
    let (mut smalls, mut larges) = (Vec::new(), Vec::new());
    for round in 0..3 {
        for n in 0..3 {
            smalls.push(fan_out(&store, &format!("small{round}-{n}"), small).await?);
        }
        larges.push(fan_out(&store, &format!("large{round}"), large).await?);
    }
    let (ours, theirs) = (median(&mut larges), median(&mut smalls));
    report.figure("file", store.file_size());
    report.figure(&format!("{small} activities"), format!("{:.0} ms", theirs.as_secs_f64() * 1e3));
    report.figure(&format!("{large} activities"), format!("{:.0} ms", ours.as_secs_f64() * 1e3));
    report.at_most("ten times as many / as many", ratio(ours, theirs), 13.0);
    node.shutdown(None).await;
    Ok(())
}

async fn fan_out(store: &Store, instance: &str, count: usize) -> Result<Duration, Failure> {
    let begun = Instant::now();
    store.client.start_orchestration(instance, "FanOut", count.to_string()).await?;
    let done = store.completed(instance).await?;
    if done != count.to_string() {
        return Err(format!("{done} of {count} activities succeeded").into());
    }
    Ok(begun.elapsed())
}

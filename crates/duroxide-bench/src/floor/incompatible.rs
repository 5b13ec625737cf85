//! Fetching beside a backlog that this node may not touch.

use std::time::{Duration, Instant};

use duroxide::providers::{ExecutionMetadata, WorkItem};
use futures::future::try_join_all;
use semver::Version;

use super::drain::{fill, request};
use super::report::{Report, median, micros, ratio};
use super::store::Store;
use super::{Failure, Options};

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<(), Failure> {
    let count = options.sized(100_000);
    report.section(&format!("fetching beside {count} ready but incompatible instances"));
    let store = Store::open(options, report).await?;
    let alone = fetches(&store, "alone").await?;
    fill(&store, count, "later").await?;
    pin_all(&store, count).await?;
    let raised =
        try_join_all((0..count).map(|n| store.client.raise_event(format!("later{n}"), "go", ""))).await?;
    report.figure("incompatible instances made ready", raised.len());
    let beside = fetches(&store, "beside").await?;
    report.figure("p50 of a fetch beside none", micros(alone));
    report.figure("p50 of a fetch beside them", micros(beside));
    report.at_most("beside them / beside none", ratio(beside, alone), 2.0);
    Ok(())
}

/// The median time of a fetch with one instance ready for it.
async fn fetches(store: &Store, prefix: &str) -> Result<Duration, Failure> {
    let mut times = Vec::new();
    for n in 0..300 {
        store.client.start_orchestration(format!("{prefix}{n}"), "Hello", "world").await?;
        let begun = Instant::now();
        let turns = store.provider.fetch_turns(request(1)).await?;
        times.push(begun.elapsed());
        let turn = turns.into_iter().next().ok_or("the ready instance was not fetched")?;
        if !turn.item.instance.starts_with(prefix) {
            return Err(format!("fetched {} instead", turn.item.instance).into());
        }
        end(store, &turn.lock_token).await?;
    }
    Ok(median(&mut times))
}

async fn end(store: &Store, token: &str) -> Result<(), Failure> {
    let metadata =
        ExecutionMetadata { status: Some("Completed".to_string()), ..ExecutionMetadata::default() };
    Ok(store.provider.ack_orchestration_item(token, 1, vec![], vec![], vec![], metadata, vec![]).await?)
}

/// Pins every ready instance to a build that does not exist yet.
async fn pin_all(store: &Store, count: usize) -> Result<(), Failure> {
    let mut pinned = 0;
    while pinned < count {
        let turns = store.provider.fetch_turns(request(256)).await?;
        if turns.is_empty() {
            return Err("not all instances could be pinned".into());
        }
        let no_items: Vec<WorkItem> = Vec::new();
        pinned += turns.len();
        try_join_all(turns.iter().map(|turn| {
            let metadata = ExecutionMetadata {
                pinned_duroxide_version: Some(Version::new(99, 0, 0)),
                ..ExecutionMetadata::default()
            };
            store.provider.ack_orchestration_item(
                &turn.lock_token,
                1,
                Vec::new(),
                no_items.clone(),
                no_items.clone(),
                metadata,
                Vec::new(),
            )
        }))
        .await?;
    }
    Ok(())
}

//! Draining a backlog of ready messages through the store's own calls.

use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide::providers::{ExecutionMetadata, NothingHeld, Suspects, TurnRequest, WorkItem};
use futures::future::try_join_all;

use super::report::{Report, micros, ratio};
use super::store::Store;
use super::{Failure, Options};

/// Instances that one fetch takes, as the runtime does.
const BATCH: usize = 32;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<(), Failure> {
    let count = options.sized(200_000);
    report.section(&format!("draining {count} ready messages"));
    let store = Store::open(options, report).await?;
    fill(&store, count, "ready").await?;
    report.figure("file", store.file_size());
    let tenth = count / 10;
    let mut first = Duration::ZERO;
    let mut last = Duration::ZERO;
    let mut drained = 0;
    while drained < count {
        let begun = Instant::now();
        let taken = drain_batch(&store).await?;
        if drained < tenth {
            first += begun.elapsed();
        } else if drained >= count - tenth {
            last += begun.elapsed();
        }
        drained += taken;
    }
    let each = |time: Duration| time / u32::try_from(tenth).unwrap_or(u32::MAX);
    report.figure("per message, first tenth", micros(each(first)));
    report.figure("per message, last tenth", micros(each(last)));
    report.at_most("last tenth / first tenth", ratio(last, first), 1.3);
    Ok(())
}

/// Starts `count` instances.
pub(crate) async fn fill(store: &Store, count: usize, prefix: &str) -> Result<(), Failure> {
    let mut begun = 0;
    while begun < count {
        let batch = (count - begun).min(1_000);
        let starts = (begun..begun + batch)
            .map(|n| store.client.start_orchestration(format!("{prefix}{n}"), "Hello", "world"));
        try_join_all(starts).await?;
        begun += batch;
    }
    Ok(())
}

/// A fetch that does not wait.
pub(crate) fn request(max_items: usize) -> TurnRequest {
    TurnRequest {
        lock_timeout: Duration::from_secs(60),
        poll_timeout: Duration::ZERO,
        filter: Some(duroxide::DispatcherCapabilityFilter::default_for_current_build()),
        handlers: None,
        max_items,
        suspects: Suspects::AtMost(1),
        holder: duroxide::providers::LockHolder::UNKNOWN,
        held: Arc::new(NothingHeld),
    }
}

async fn drain_batch(store: &Store) -> Result<usize, Failure> {
    let turns = store.provider.fetch_turns(request(BATCH)).await?;
    if turns.is_empty() {
        return Err("the backlog ended early".into());
    }
    let taken = turns.iter().map(|turn| turn.item.messages.len()).sum();
    let no_items: Vec<WorkItem> = Vec::new();
    try_join_all(turns.iter().map(|turn| {
        store.provider.ack_orchestration_item(
            &turn.lock_token,
            turn.item.execution_id,
            Vec::new(),
            no_items.clone(),
            no_items.clone(),
            ExecutionMetadata::default(),
            Vec::new(),
        )
    }))
    .await?;
    Ok(taken)
}

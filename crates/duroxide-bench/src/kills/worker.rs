//! One of the processes: a node, and clients whose acknowledged calls are written down. It is killed at any moment and
//! started again; then it goes on with the calls that were not acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::Runtime;
use duroxide::{Client, ClientError, RuntimeOptions};
use tokio::sync::Semaphore;

use super::PROCESSES;
use super::log::{Line, Log};
use super::workload::{Call, Kind, activities, instance, orchestrations, outcome};
use crate::floor::Failure;
use crate::floor::store::PATIENCE;

/// Orchestrations that one process has calls under way for.
const AT_A_TIME: usize = 64;
/// How long a call that may succeed later waits before it is made again.
const PAUSE: Duration = Duration::from_millis(20);

/// What a process is told on its command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Orders {
    pub(crate) directory: PathBuf,
    /// Which of the processes it is; it takes every fourth orchestration.
    pub(crate) process: usize,
    pub(crate) count: usize,
    /// The starts are spread over this time.
    pub(crate) spread_ms: u64,
    /// How much of it has passed.
    pub(crate) elapsed_ms: u64,
}

impl Orders {
    pub(crate) fn arguments(&self) -> [String; 5] {
        [
            self.directory.display().to_string(),
            self.process.to_string(),
            self.count.to_string(),
            self.spread_ms.to_string(),
            self.elapsed_ms.to_string(),
        ]
    }

    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let arguments: Vec<String> = arguments.collect();
        let [directory, process, count, spread_ms, elapsed_ms] = arguments.as_slice() else {
            return Err("a process of the kills is started by them alone".to_string());
        };
        let number = |text: &String| text.parse::<u64>().map_err(|_| format!("'{text}' is no number"));
        let size = |text| number(text).and_then(|n| usize::try_from(n).map_err(|cause| cause.to_string()));
        Ok(Self {
            directory: PathBuf::from(directory),
            process: size(process)?,
            count: size(count)?,
            spread_ms: number(spread_ms)?,
            elapsed_ms: number(elapsed_ms)?,
        })
    }
}

/// The store's file in the run's directory.
pub(crate) fn url(directory: &Path) -> String {
    format!("sqlite:{}", directory.join("store.db").display())
}

/// Locks that expire soon, so that what a dead process held is free again soon; but long enough that only a dead
/// process loses them.
fn options() -> RuntimeOptions {
    RuntimeOptions {
        orchestrator_lock_timeout: Duration::from_secs(3),
        orchestrator_lock_renewal_buffer: Duration::from_secs(2),
        worker_lock_timeout: Duration::from_secs(3),
        worker_lock_renewal_buffer: Duration::from_secs(2),
        ..RuntimeOptions::default()
    }
}

/// What of an orchestration's calls has been acknowledged.
#[derive(Debug, Default, Clone)]
struct Progress {
    started: bool,
    sent: BTreeSet<usize>,
    ended: bool,
}

/// Runs until it is killed.
pub(crate) async fn run(orders: Orders) -> Result<bool, Failure> {
    let begun = Instant::now();
    let store = Arc::new(SqliteProvider::new(&url(&orders.directory), None).await?);
    let activities = activities(&orders.directory)?;
    let _node = Runtime::start_with_options(store.clone(), activities, orchestrations(), options()).await;
    let client = Client::new(store);
    let log = Arc::new(Log::open(&orders.directory)?);
    let known = progress(Log::read(&orders.directory)?);
    let slots = Arc::new(Semaphore::new(AT_A_TIME));
    let mut calling = Vec::new();
    for n in (orders.process..orders.count).step_by(PROCESSES) {
        let known = known.get(&n).cloned().unwrap_or_default();
        if known.ended {
            continue;
        }
        let due_ms = orders.spread_ms * n as u64 / orders.count as u64;
        let wait = Duration::from_millis(due_ms.saturating_sub(orders.elapsed_ms));
        tokio::time::sleep_until((begun + wait).into()).await;
        let slot = slots.clone().acquire_owned().await?;
        let (client, log) = (client.clone(), log.clone());
        calling.push(tokio::spawn(async move {
            let done = call_all(&client, &log, n, &known).await;
            drop(slot);
            done
        }));
    }
    for calls in calling {
        calls.await??;
    }
    // The node goes on for the others.
    std::future::pending().await
}

fn progress(lines: Vec<Line>) -> BTreeMap<usize, Progress> {
    let mut progress: BTreeMap<usize, Progress> = BTreeMap::new();
    for line in lines {
        match line {
            Line::Started { n } => progress.entry(n).or_default().started = true,
            Line::Sent { n, message } => {
                progress.entry(n).or_default().sent.insert(message);
            }
            // It is the only message of its kind.
            Line::Cancelled { n } => {
                progress.entry(n).or_default().sent.insert(0);
            }
            Line::Ended { n, .. } => progress.entry(n).or_default().ended = true,
            Line::Begun { .. } => {}
        }
    }
    progress
}

/// Makes the calls of one orchestration that have not been acknowledged, and waits for its end.
async fn call_all(client: &Client, log: &Log, n: usize, known: &Progress) -> Result<(), Failure> {
    let (id, kind) = (instance(n), Kind::of(n));
    if !known.started {
        again(|| client.start_orchestration(&id, kind.name(), n.to_string())).await?;
        log.write(&Line::Started { n })?;
    }
    for (message, call) in kind.calls(n).iter().enumerate() {
        if known.sent.contains(&message) {
            continue;
        }
        let line = match call {
            Call::Raise { event, data } => {
                again(|| client.raise_event(&id, *event, data)).await?;
                Line::Sent { n, message }
            }
            Call::Enqueue { queue, data } => {
                again(|| client.enqueue_event(&id, *queue, data)).await?;
                Line::Sent { n, message }
            }
            Call::Cancel { reason } => {
                again(|| client.cancel_instance(&id, *reason)).await?;
                Line::Cancelled { n }
            }
        };
        log.write(&line)?;
    }
    let status = client.wait_for_orchestration(&id, PATIENCE).await?;
    let outcome = outcome(&status).ok_or_else(|| format!("{id} has not ended: {status:?}"))?;
    log.write(&Line::Ended { n, outcome })?;
    Ok(())
}

/// Makes a call until it is acknowledged or can never be.
async fn again<F: Future<Output = Result<(), ClientError>>>(call: impl Fn() -> F) -> Result<(), ClientError> {
    loop {
        match call().await {
            Err(error) if error.is_retryable() => tokio::time::sleep(PAUSE).await,
            other => return other,
        }
    }
}

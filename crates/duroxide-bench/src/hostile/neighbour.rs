//! An instance that is started again and again beside what is hostile: how long it takes is how far others are held up.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use duroxide::{Client, ClientError};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::floor::store::PATIENCE;

/// Measures until it is stopped.
pub(super) struct Neighbour {
    times: Arc<Mutex<Vec<Duration>>>,
    task: JoinHandle<Result<(), ClientError>>,
}

/// What was measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    pub(super) runs: usize,
    pub(super) median: Duration,
    pub(super) worst: Duration,
}

impl std::fmt::Display for Measured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1?} at worst, median {:.1?} of {} runs", self.worst, self.median, self.runs)
    }
}

impl Neighbour {
    /// Starts instances of an orchestration one after another, each when the one before has ended.
    pub(super) fn start(client: &Client, orchestration: &'static str) -> Self {
        let times = Arc::new(Mutex::new(Vec::new()));
        let (client, noted) = (client.clone(), times.clone());
        let task = tokio::spawn(async move {
            for n in 0_u64.. {
                let (id, begun) = (format!("neighbour-{n}"), Instant::now());
                client.start_orchestration(&id, orchestration, "x").await?;
                client.wait_for_orchestration(&id, PATIENCE).await?;
                noted.lock().unwrap_or_else(PoisonError::into_inner).push(begun.elapsed());
            }
            Ok(())
        });
        Self { times, task }
    }

    /// What was measured since the last question, once the run under way has ended.
    pub(super) async fn measured(&self) -> Measured {
        let before = self.lock().len();
        while self.lock().len() == before && !self.task.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let mut times = std::mem::take(&mut *self.lock());
        times.sort_unstable();
        let worst = times.last().copied().unwrap_or(Duration::MAX);
        let median = times.get(times.len() / 2).copied().unwrap_or(Duration::MAX);
        Measured { runs: times.len(), median, worst }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Duration>> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.task.abort();
    }
}

//! What the runtimes of one process share: the suspects they run, and where random bits come from.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// The process that a runtime is in.
#[derive(Debug, Clone)]
pub struct ProcessScope {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    turns: Gate,
    activities: Gate,
    /// Random bits of a simulation; a real process asks the system.
    simulated: Option<SimulatedEntropy>,
    #[cfg(feature = "test-hooks")]
    audit: Option<Arc<dyn super::verify::ReplayAudit>>,
}

/// Lets one suspect of a queue through at a time.
#[derive(Debug, Default)]
struct Gate {
    taken: AtomicBool,
    released: Notify,
}

#[derive(Debug)]
struct SimulatedEntropy {
    seed: u64,
    drawn: AtomicU64,
}

/// Which queue a suspect comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Queue {
    Turns,
    Activities,
}

impl Default for ProcessScope {
    /// The real process.
    fn default() -> Self {
        static REAL: OnceLock<ProcessScope> = OnceLock::new();
        REAL.get_or_init(|| Self { shared: Arc::default() }).clone()
    }
}

impl ProcessScope {
    /// A process of its own, with random bits that depend on the seed alone.
    pub fn simulated(seed: u64) -> Self {
        let entropy = SimulatedEntropy { seed, drawn: AtomicU64::new(0) };
        Self { shared: Arc::new(Shared { simulated: Some(entropy), ..Shared::default() }) }
    }

    /// [`Self::simulated`], with every turn of a held execution compared with a replay.
    #[cfg(feature = "test-hooks")]
    pub fn audited(seed: u64, audit: Arc<dyn super::verify::ReplayAudit>) -> Self {
        let entropy = SimulatedEntropy { seed, drawn: AtomicU64::new(0) };
        let shared = Shared { simulated: Some(entropy), audit: Some(audit), ..Shared::default() };
        Self { shared: Arc::new(shared) }
    }

    #[cfg(feature = "test-hooks")]
    pub(super) fn audit(&self) -> Option<Arc<dyn super::verify::ReplayAudit>> {
        self.shared.audit.clone()
    }

    fn gate(&self, queue: Queue) -> &Gate {
        match queue {
            Queue::Turns => &self.shared.turns,
            Queue::Activities => &self.shared.activities,
        }
    }

    /// Resolves when the suspect of this queue that runs now has ended.
    pub(super) fn suspect_ended(&self, queue: Queue) -> Notified<'_> {
        self.gate(queue).released.notified()
    }

    /// Whether no suspect of this queue runs now.
    pub(super) fn has_room_for_suspect(&self, queue: Queue) -> bool {
        !self.gate(queue).taken.load(Ordering::SeqCst)
    }

    /// The right to run the process's one suspect of this queue.
    pub(super) fn try_admit_suspect(&self, queue: Queue) -> Option<SuspectPermit> {
        let admitted = !self.gate(queue).taken.swap(true, Ordering::SeqCst);
        admitted.then(|| SuspectPermit { scope: self.clone(), queue })
    }

    /// 128 random bits.
    pub(super) fn entropy(&self) -> u128 {
        match &self.shared.simulated {
            None => uuid::Uuid::new_v4().as_u128(),
            Some(simulated) => {
                let drawn = simulated.drawn.fetch_add(1, Ordering::SeqCst);
                (u128::from(simulated.seed) << 64) | u128::from(drawn)
            }
        }
    }
}

/// Held while the process's one suspect of a queue runs.
#[derive(Debug)]
pub(super) struct SuspectPermit {
    scope: ProcessScope,
    queue: Queue,
}

impl Drop for SuspectPermit {
    fn drop(&mut self) {
        let gate = self.scope.gate(self.queue);
        gate.taken.store(false, Ordering::SeqCst);
        gate.released.notify_waiters();
    }
}

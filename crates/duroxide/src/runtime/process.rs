//! What the runtimes of one process share: the suspects they run, the names in their metrics, and where random bits come
//! from.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use duroxide_provider::random;

use super::name_labels::NameLabels;
use super::suspects::Suspects;

/// The process that a runtime is in.
#[derive(Debug, Clone)]
pub struct ProcessScope {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    suspects: Suspects,
    names: NameLabels,
    /// Random bits of a simulation; a real process asks the system.
    simulated: Option<SimulatedEntropy>,
    #[cfg(feature = "test-hooks")]
    audit: Option<Arc<dyn super::verify::ReplayAudit>>,
}

#[derive(Debug)]
struct SimulatedEntropy {
    seed: u64,
    drawn: AtomicU64,
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

    /// The suspects that this process runs.
    pub(super) fn suspects(&self) -> &Suspects {
        &self.shared.suspects
    }

    /// The names that this process puts into labels of metrics.
    pub(super) fn names(&self) -> &NameLabels {
        &self.shared.names
    }

    /// 128 random bits.
    pub(super) fn entropy(&self) -> u128 {
        match &self.shared.simulated {
            None => random::bits_128(),
            Some(simulated) => {
                let drawn = simulated.drawn.fetch_add(1, Ordering::SeqCst);
                (u128::from(simulated.seed) << 64) | u128::from(drawn)
            }
        }
    }
}

//! The store that a simulation runs on: the model, or the shared rules with rows in memory.

use std::ops::Deref;
use std::sync::Arc;

use duroxide::clock::Clock;
use duroxide::providers::memory::{Inspection, MemoryProvider, Snapshot};
use duroxide::providers::row_store::RowStore;
use duroxide::providers::{Provider, ProviderAdmin};

/// Which store a simulation runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backing {
    /// The memory store, which is the model of the contract.
    Memory,
    /// The rules that the stores with rows share, on rows in memory.
    Rules,
}

impl Backing {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Memory, Self::Rules];

    /// The word for it on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Rules => "rules",
        }
    }
}

/// The store of a simulation.
pub(crate) enum Store {
    Memory(Arc<MemoryProvider>),
    Rules(Arc<RowStore>),
}

impl Store {
    pub(crate) fn new(backing: Backing, clock: Arc<dyn Clock>, seed: u64) -> Self {
        match backing {
            Backing::Memory => Self::Memory(Arc::new(MemoryProvider::with_clock_and_seed(clock, seed))),
            Backing::Rules => Self::Rules(Arc::new(RowStore::with_clock_and_seed(clock, seed))),
        }
    }

    /// The store as runtimes and clients share it.
    pub(crate) fn shared(&self) -> Arc<dyn Provider> {
        match self {
            Self::Memory(store) => store.clone(),
            Self::Rules(store) => store.clone(),
        }
    }

    pub(crate) fn admin(&self) -> &dyn ProviderAdmin {
        match self {
            Self::Memory(store) => &**store,
            Self::Rules(store) => &**store,
        }
    }

    /// The whole state at this moment.
    pub(crate) fn snapshot(&self) -> Snapshot {
        match self {
            Self::Memory(store) => store.snapshot(),
            Self::Rules(store) => store.snapshot(),
        }
    }

    /// Looks at one instance at this moment. `None` if it does not exist.
    pub(crate) fn inspect<T>(&self, instance: &str, look: impl FnOnce(&Inspection<'_>) -> T) -> Option<T> {
        match self {
            Self::Memory(store) => store.inspect(instance, look),
            Self::Rules(store) => store.inspect(instance, look),
        }
    }
}

impl Deref for Store {
    type Target = dyn Provider;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Memory(store) => &**store,
            Self::Rules(store) => &**store,
        }
    }
}

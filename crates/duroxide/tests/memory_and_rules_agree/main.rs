//! The shared rules, on rows in memory, answer as the model does.

#[path = "../agreement/mod.rs"]
mod agreement;

use std::sync::Arc;

use agreement::{Damage, Subject, compare};
use async_trait::async_trait;
use duroxide::clock::ManualClock;
use duroxide::providers::Provider;
use duroxide::providers::row_store::RowStore;

/// Sequences that one run tries when the environment does not say: some seconds in a debug build.
const CASES: u32 = 60;

#[derive(Default)]
struct RowSubject {
    store: Option<Arc<RowStore>>,
}

impl RowSubject {
    fn store(&self) -> &RowStore {
        self.store.as_ref().expect("the store was opened")
    }
}

#[async_trait]
impl Subject for RowSubject {
    async fn open(&mut self, clock: &Arc<ManualClock>) -> Arc<dyn Provider> {
        // The rows outlive an opening.
        let new = || Arc::new(RowStore::with_clock_and_seed(clock.clone(), 2));
        self.store.get_or_insert_with(new).clone()
    }

    async fn damage(&self, damage: Damage<'_>) -> usize {
        match damage {
            Damage::LastEvent(instance) => self.store().corrupt_history(instance),
            Damage::Messages(instance, kind) => self.store().corrupt_messages(instance, kind),
            Damage::Work(instance) => self.store().corrupt_work(instance),
        }
    }

    async fn max_attempt_count(&self, instance: &str) -> u32 {
        self.store().max_attempt_count(instance)
    }

    fn dropped_messages(&self) -> u64 {
        self.store().dropped().dropped
    }
}

#[test]
fn both_stores_give_the_same_answers() {
    compare(CASES, || Box::new(RowSubject::default()));
}

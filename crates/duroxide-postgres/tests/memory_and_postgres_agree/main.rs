//! The PostgreSQL store answers as the model does.

#[path = "../../../duroxide/tests/agreement/mod.rs"]
mod agreement;
#[allow(dead_code, reason = "not every test file uses all of it")]
#[path = "../support/mod.rs"]
mod support;

use std::sync::Arc;

use agreement::{Damage, Subject, compare};
use async_trait::async_trait;
use duroxide::clock::ManualClock;
use duroxide::providers::Provider;
use duroxide_postgres::{PostgresOptions, PostgresProvider};

/// Sequences that one run tries when the environment does not say: some forty seconds.
const CASES: u32 = 45;

struct PostgresSubject {
    schema: String,
    store: Option<Arc<PostgresProvider>>,
}

impl PostgresSubject {
    fn store(&self) -> &PostgresProvider {
        self.store.as_ref().expect("the store was opened")
    }
}

#[async_trait]
impl Subject for PostgresSubject {
    async fn open(&mut self, clock: &Arc<ManualClock>) -> Arc<dyn Provider> {
        let options = PostgresOptions { clock: Some(clock.clone()), ..support::options(&self.schema) };
        let store = Arc::new(support::open(options).await);
        self.store = Some(store.clone());
        store
    }

    async fn damage(&self, damage: Damage<'_>) -> usize {
        let damaged = match damage {
            Damage::LastEvent(instance) => {
                let sql = "UPDATE {s}.history SET event = '{' WHERE (instance_key, execution_id, event_id) = \
                     (SELECT h.instance_key, h.execution_id, max(h.event_id) FROM {s}.history h \
                      JOIN {s}.instances i ON i.key = h.instance_key JOIN {s}.queues q ON q.key = i.key \
                      AND q.current_execution_id = h.execution_id WHERE i.instance_id = $1 \
                      GROUP BY h.instance_key, h.execution_id)";
                support::corrupt(&self.schema, sql, &[&instance]).await
            }
            Damage::Messages(instance, kind) => {
                let sql = "UPDATE {s}.inbox SET item = '{' WHERE kind = $2 AND instance_key = \
                     (SELECT key FROM {s}.instances WHERE instance_id = $1)";
                support::corrupt(&self.schema, sql, &[&instance, &kind.code()]).await
            }
            Damage::Work(instance) => {
                let sql = "UPDATE {s}.work_items SET item = '{' WHERE instance_id = $1";
                support::corrupt(&self.schema, sql, &[&instance]).await
            }
        };
        usize::try_from(damaged).expect("few rows")
    }

    async fn max_attempt_count(&self, instance: &str) -> u32 {
        self.store().max_attempt_count(instance).await.expect("the store can be read")
    }

    fn dropped_messages(&self) -> u64 {
        self.store().statistics().dropped_messages
    }
}

#[test]
fn both_stores_give_the_same_answers() {
    compare(CASES, || Box::new(PostgresSubject { schema: support::new_schema(), store: None }));
}

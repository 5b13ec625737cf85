//! Every text that a caller hands to a store, made up: no panic, a clear error, and nothing changed.
//!
//! `DUROXIDE_FUZZ_CASES` sets the number of cases; `cargo xtask fuzz` runs many.
#![cfg(feature = "sqlite")]

use std::time::Duration;

use duroxide::InstanceQuery;
use duroxide::providers::memory::MemoryProvider;
use duroxide::providers::sqlite::SqliteProvider;
use duroxide::providers::{Cursor, Provider, ProviderAdmin, ProviderErrorKind};
use proptest::prelude::*;

fn config() -> ProptestConfig {
    let cases = std::env::var("DUROXIDE_FUZZ_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig { cases: cases.unwrap_or(300), failure_persistence: None, ..ProptestConfig::default() }
}

/// Texts that look like tokens and cursors, and texts that do not.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[0-9a-f.:;|/_-]{0,40}",
        (any::<i64>(), any::<u64>()).prop_map(|(key, nonce)| format!("{key}.{nonce:x}")),
        (any::<u64>(), any::<u64>(), any::<u64>()).prop_map(|(a, b, c)| format!("{a}.{b}.{c:016x}")),
    ]
}

async fn refuses_tokens(store: &dyn Provider, token: &str) {
    let second = Duration::from_secs(1);
    let refused = [
        store.ack_work_item(token, None).await,
        store.abandon_work_item(token, Some(second), true).await,
        store.renew_work_item_lock(token, second).await,
        store.abandon_orchestration_item(token, None, false).await,
        store.renew_orchestration_item_lock(token, second).await,
        store.ack_orchestration_item(token, 1, vec![], vec![], vec![], Default::default(), vec![]).await,
    ];
    for refused in refused {
        let error = refused.expect_err("nobody holds such a lock");
        assert_eq!(error.kind(), ProviderErrorKind::LockLost, "{error}");
    }
}

async fn answers_cursors(store: &dyn ProviderAdmin, cursor: &str) {
    let query = InstanceQuery { after: Some(Cursor::new(cursor)), ..InstanceQuery::default() };
    match store.list_instances_page(&query).await {
        Ok(page) => assert_eq!(page.instances, []),
        Err(error) => assert_eq!(error.kind(), ProviderErrorKind::Invalid, "{error}"),
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn made_up_tokens_and_cursors_are_refused(texts in proptest::collection::vec(text(), 1..10)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async {
            let memory = MemoryProvider::new();
            let sqlite = SqliteProvider::new_in_memory().await.expect("a store");
            for text in &texts {
                refuses_tokens(&memory, text).await;
                refuses_tokens(&sqlite, text).await;
                answers_cursors(&memory, text).await;
                answers_cursors(&sqlite, text).await;
            }
        });
    }

    #[test]
    fn made_up_locations_open_or_are_refused(scheme in "[a-z:/?]{0,8}", query in "[a-z=&?%./]{0,20}") {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let directory = tempfile::tempdir().expect("a directory");
        runtime.block_on(async {
            let file = directory.path().join("f").display().to_string();
            for location in [format!("{scheme}{file}"), format!("sqlite:{file}?{query}")] {
                if let Err(error) = SqliteProvider::new(&location, None).await {
                    assert!(!error.is_retryable(), "{location}: {error}");
                }
            }
        });
    }
}

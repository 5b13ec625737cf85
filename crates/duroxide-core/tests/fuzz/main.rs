//! Every decoder against damaged text, and replay against what decodes of it: no panic, no hang, bounded work.
//!
//! The texts are the golden files with bytes changed, removed, doubled, spliced and replaced. `DUROXIDE_FUZZ_CASES` sets
//! the number of cases of each test; `cargo xtask fuzz` runs many.

mod mutate;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use duroxide_core::health::{QueuedFor, diagnose};
use duroxide_core::redrive::{RedriveOf, kept_after_failure, plan_redrive, start_anew};
use duroxide_core::{
    Before, ErrorDetails, Event, OrchestrationContext, OrchestrationHandler, TurnInput, WorkItem, columns_of,
    decode, kv_from_json, open_work, run_turn, state_changes,
};
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::mutate::{corpus, damaged, damaged_history};

/// Far more than any case takes, even on a busy machine.
const HANG: Duration = Duration::from_secs(20);

#[expect(clippy::disallowed_methods, reason = "a test may look how long something took")]
fn clock() -> Instant {
    Instant::now()
}

fn config() -> ProptestConfig {
    let cases = std::env::var("DUROXIDE_FUZZ_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig { cases: cases.unwrap_or(2_000), failure_persistence: None, ..ProptestConfig::default() }
}

/// What decodes can be encoded, and decodes to the same again.
fn round_trip<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(text: &[u8]) -> Option<T> {
    let value: T = serde_json::from_slice(text).ok()?;
    let encoded = serde_json::to_string(&value).expect("what decoded can be encoded");
    let again: T = serde_json::from_str(&encoded).expect("what was encoded decodes");
    assert_eq!(value, again);
    Some(value)
}

/// Does a little of everything that a history may hold.
struct Busy;

#[async_trait]
impl OrchestrationHandler for Busy {
    async fn invoke(&self, ctx: OrchestrationContext, input: String) -> Result<String, String> {
        ctx.set_custom_status("half done");
        ctx.set_kv_value("total", input);
        let activity = ctx.schedule_activity("Charge", "42").with_schedule_to_start(Duration::from_secs(60));
        let child = ctx.schedule_sub_orchestration("Ship", "42");
        let timer = ctx.schedule_timer(Duration::from_secs(60));
        let event = ctx.schedule_wait("Approval");
        let queued = ctx.dequeue_event("orders");
        drop(ctx.select2(activity, timer).await);
        let (event, queued) = ctx.join2(event, queued).await;
        child.await?;
        ctx.continue_as_new(event + &queued).await
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn damaged_text_decodes_to_itself_or_not_at_all(text in damaged(corpus())) {
        round_trip::<Event>(&text);
        round_trip::<ErrorDetails>(&text);
        if let Some(item) = round_trip::<WorkItem>(&text) {
            let columns = columns_of(&item);
            prop_assert_eq!(columns.instance, item.instance());
        }
        if let Ok(text) = std::str::from_utf8(&text) {
            prop_assert!(decode::<String>(text).is_ok(), "every text is a string");
            drop((decode::<Vec<u64>>(text), kv_from_json::<BTreeMap<String, u64>>(text)));
            drop(duroxide_core::check_version(text));
            drop(duroxide_core::check_root_instance_id(text));
        }
    }

    #[test]
    fn a_history_of_damaged_events_makes_nothing_panic_or_hang(
        history in damaged_history(),
        messages in proptest::collection::vec(damaged(corpus()), 0..8),
        numbered in any::<bool>(),
    ) {
        let began = clock();
        let mut events: Vec<Event> =
            history.iter().filter_map(|text| serde_json::from_slice(text).ok()).collect();
        if numbered {
            // Otherwise most histories are refused at once for their numbers.
            for (id, event) in (1..).zip(&mut events) {
                event.event_id = id;
            }
        }
        let messages: Vec<WorkItem> =
            messages.iter().filter_map(|text| serde_json::from_slice(text).ok()).collect();
        let input = TurnInput {
            instance: "order-42".to_string(),
            execution_id: 2,
            now_ms: 1_700_000_000_123,
            entropy: 7,
            messages: messages.clone(),
            kv: BTreeMap::new(),
        };
        let before = Before::Stored { handler: Arc::new(Busy), version: "1.0.0".to_string(), history: &events };
        let result = run_turn(before, input);
        prop_assert!(result.turn.events.len() <= 100, "a turn of a few messages records little");
        drop(state_changes(&events));
        drop(kept_after_failure(&events));
        drop(plan_redrive(&events, RedriveOf::Asked));
        drop(plan_redrive(&events, RedriveOf::CancelledChild));
        drop(start_anew(&events, &messages));
        drop(diagnose(&events, &QueuedFor::default()));
        let open = open_work(&events);
        prop_assert!(open.activities.len() + open.timers.len() + open.children.len() <= events.len());
        prop_assert!(began.elapsed() < HANG, "it took {:?}", began.elapsed());
    }
}

//! A cancel that lets an order undo what it did, after the worker has let go of what it ran.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions, UnregisteredBackoffConfig};
use duroxide::{
    ActivityContext, CancelPolicy, Client, OrchestrationContext, OrchestrationHandler, OrchestrationRegistry,
    OrchestrationStatus,
};
use semver::Version;
use tokio::sync::Semaphore;

const LONG: Duration = Duration::from_secs(20);

struct Order;

#[async_trait]
impl OrchestrationHandler for Order {
    async fn invoke(&self, ctx: OrchestrationContext, input: String) -> Result<String, String> {
        ctx.schedule_activity("Note", "reserved").await?;
        match ctx.cancellable(ctx.schedule_activity("Charge", input)).await {
            Ok(charged) => charged,
            Err(cancelled) => {
                ctx.schedule_activity("Note", format!("released: {}", cancelled.reason)).await?;
                Ok("nobody sees this".to_string())
            }
        }
    }

    fn cancel_policy(&self) -> Option<CancelPolicy> {
        Some(CancelPolicy { compensate_within: Duration::from_secs(600) })
    }
}

/// Notes its end when it is dropped.
struct NotesEnd(Arc<Mutex<Vec<String>>>);

impl Drop for NotesEnd {
    fn drop(&mut self) {
        self.0.lock().expect("not poisoned").push("charge stopped".to_string());
    }
}

/// Runs an order, cancels it while it is charged, and gives what happened in its order.
async fn cancelled_while_charging(how_charge_ends: &str) -> Vec<String> {
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let charging = Arc::new(Semaphore::new(0));
    let (of_note, of_charge, begun) = (log.clone(), log.clone(), charging.clone());
    let activities = ActivityRegistry::builder()
        .register("Note", move |_ctx: ActivityContext, input: String| {
            let log = of_note.clone();
            async move {
                log.lock().expect("not poisoned").push(input);
                Ok(String::new())
            }
        })
        .register("Charge", move |ctx: ActivityContext, input: String| {
            let (log, begun) = (of_charge.clone(), begun.clone());
            async move {
                let _ends = NotesEnd(log);
                begun.add_permits(1);
                if input == "listens" {
                    ctx.cancelled().await;
                    return Err("cancelled".to_string());
                }
                std::future::pending().await
            }
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register_handler("Order", Version::new(1, 0, 0), Arc::new(Order))
        .build();
    let store = Arc::new(SqliteProvider::new_in_memory().await.expect("a store in memory"));
    let options = RuntimeOptions {
        activity_cancellation_grace_period: Duration::from_millis(50),
        worker_lock_timeout: Duration::from_secs(2),
        worker_lock_renewal_buffer: Duration::from_millis(1_900),
        ..RuntimeOptions::default()
    };
    let runtime = Runtime::start_with_options(store.clone(), activities, orchestrations, options).await;
    let client = Client::new(store);
    client.start_orchestration("o", "Order", how_charge_ends).await.expect("a start");
    charging.acquire().await.expect("open").forget();
    client.cancel_instance("o", "changed my mind").await.expect("a cancel");
    let status = client.wait_for_orchestration("o", LONG).await.expect("an end");
    let OrchestrationStatus::Failed { details, .. } = &status else { panic!("not failed: {status:?}") };
    assert_eq!(details.display_message(), "canceled: changed my mind");
    runtime.shutdown(None).await;
    std::mem::take(&mut *log.lock().expect("not poisoned"))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_undoes_an_order_does_not_overtake_the_activity_that_was_given_up() {
    for how_charge_ends in ["listens", "never ends by itself"] {
        let log = cancelled_while_charging(how_charge_ends).await;
        assert_eq!(log, ["reserved", "charge stopped", "released: changed my mind"], "{how_charge_ends}");
    }
}

/// A node with or without the order's code. Its activities are elsewhere.
async fn node(store: &Arc<SqliteProvider>, orchestrations: OrchestrationRegistry) -> Arc<Runtime> {
    let delay = Duration::from_millis(5);
    let options = RuntimeOptions {
        max_attempts: 1_000,
        worker_concurrency: 0,
        unregistered_backoff: UnregisteredBackoffConfig { base_delay: delay, max_delay: delay },
        ..RuntimeOptions::default()
    };
    Runtime::start_with_options(store.clone(), ActivityRegistry::builder().build(), orchestrations, options)
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_the_code_leaves_a_cancel_to_one_that_can_undo_the_order() {
    let store = Arc::new(SqliteProvider::new_in_memory().await.expect("a store in memory"));
    let client = Client::new(store.clone());
    let with_order = || {
        OrchestrationRegistry::builder()
            .register_handler("Order", Version::new(1, 0, 0), Arc::new(Waits))
            .build()
    };
    let runtime = node(&store, with_order()).await;
    client.start_orchestration("o", "Order", "").await.expect("a start");
    client.wait_for_kv_value("o", "waits", LONG).await.expect("it waits");
    runtime.shutdown(None).await;
    client.cancel_instance("o", "changed my mind").await.expect("a cancel");
    let runtime = node(&store, OrchestrationRegistry::builder().build()).await;
    let bounced = async {
        while client.get_bounces("o").await.expect("readable").turn.is_none() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, bounced).await.expect("it is given back");
    runtime.shutdown(None).await;
    let runtime = node(&store, with_order()).await;
    client.wait_for_orchestration("o", LONG).await.expect("an end");
    let undone = client.get_kv_value("o", "undone").await.expect("readable");
    assert_eq!(undone.as_deref(), Some("changed my mind"));
    runtime.shutdown(None).await;
}

struct Waits;

#[async_trait]
impl OrchestrationHandler for Waits {
    async fn invoke(&self, ctx: OrchestrationContext, _input: String) -> Result<String, String> {
        ctx.set_kv_value("waits", "");
        if let Err(cancelled) = ctx.cancellable(ctx.schedule_wait("go")).await {
            ctx.set_kv_value("undone", cancelled.reason);
        }
        Ok(String::new())
    }

    fn cancel_policy(&self) -> Option<CancelPolicy> {
        Some(CancelPolicy { compensate_within: Duration::from_secs(600) })
    }
}

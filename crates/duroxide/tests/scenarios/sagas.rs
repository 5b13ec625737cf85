//! The two programs of the chapter on sagas: one whose compensation overtakes the step that it dropped, and one that
//! waits for the end of the step.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, Client, Either2, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
};
use tokio::sync::Notify;

const LONG: Duration = Duration::from_secs(20);

async fn wrong(ctx: OrchestrationContext, order: String) -> Result<String, String> {
    let reserved = ctx.schedule_activity("Reserve", order.as_str());
    let stop = ctx.schedule_wait("stop");
    match ctx.select2(reserved, stop).await {
        Either2::First(reservation) => reservation,
        Either2::Second(_) => ctx.schedule_activity("Release", order).await,
    }
}

async fn right(ctx: OrchestrationContext, order: String) -> Result<String, String> {
    let mut reserved = ctx.schedule_activity("Reserve", order.as_str());
    let stop = ctx.schedule_wait("stop");
    match ctx.select2(&mut reserved, stop).await {
        Either2::First(reservation) => reservation,
        Either2::Second(_) => match reserved.await {
            Ok(_reservation) => ctx.schedule_activity("Release", order).await,
            Err(_cause) => Ok("nothing was reserved".to_string()),
        },
    }
}

/// A warehouse that writes down what was done, and takes its time with a reservation.
#[derive(Default)]
struct Warehouse {
    done: Mutex<Vec<&'static str>>,
    reserving: Notify,
    may_reserve: Notify,
    reserved: Notify,
}

impl Warehouse {
    fn activities(self: &Arc<Self>) -> ActivityRegistry {
        let (of_reserve, of_release) = (self.clone(), self.clone());
        ActivityRegistry::builder()
            .register("Reserve", move |_ctx: ActivityContext, order: String| {
                let warehouse = of_reserve.clone();
                // As a call of a service that cannot be taken back once it is sent.
                async move {
                    warehouse.reserving.notify_one();
                    warehouse.may_reserve.notified().await;
                    warehouse.done.lock().expect("not poisoned").push("reserve");
                    warehouse.reserved.notify_one();
                    Ok(order)
                }
            })
            .register("Release", move |_ctx: ActivityContext, order: String| {
                let warehouse = of_release.clone();
                async move {
                    warehouse.done.lock().expect("not poisoned").push("release");
                    warehouse.may_reserve.notify_one();
                    Ok(order)
                }
            })
            .build()
    }

    fn done(&self) -> Vec<&'static str> {
        self.done.lock().expect("not poisoned").clone()
    }
}

/// Starts the program, stops it while it reserves, and gives what was done once all of it is.
async fn stopped(program: &str, release_waits: bool) -> Vec<&'static str> {
    let warehouse = Arc::new(Warehouse::default());
    let orchestrations =
        OrchestrationRegistry::builder().register("wrong", wrong).register("right", right).build();
    let store = Arc::new(SqliteProvider::new_in_memory().await.expect("a store in memory"));
    let runtime = Runtime::start_with_store(store.clone(), warehouse.activities(), orchestrations).await;
    let client = Client::new(store);
    client.start_orchestration("order", program, "1").await.expect("a start");
    warehouse.reserving.notified().await;
    client.raise_event("order", "stop", "").await.expect("an event");
    if release_waits {
        warehouse.may_reserve.notify_one();
    }
    let status = client.wait_for_orchestration("order", LONG).await.expect("an end");
    assert!(matches!(status, OrchestrationStatus::Completed { .. }), "{status:?}");
    tokio::time::timeout(LONG, warehouse.reserved.notified()).await.expect("the step ends");
    runtime.shutdown(None).await;
    warehouse.done()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compensation_can_overtake_a_step_that_was_dropped() {
    assert_eq!(stopped("wrong", false).await, ["release", "reserve"], "the goods stay reserved");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_was_lent_is_waited_for_before_it_is_undone() {
    assert_eq!(stopped("right", true).await, ["reserve", "release"]);
}

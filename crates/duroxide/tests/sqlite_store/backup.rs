//! A copy that is made while the store is in use is a whole store.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, RuntimeOptions};

use crate::fixture::{LONG, Place};

async fn run(store: &Arc<SqliteProvider>) -> Arc<Runtime> {
    let activities = ActivityRegistry::builder()
        .register("Step", |_: ActivityContext, input: String| async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok(format!("{input}."))
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("Steps", |ctx: OrchestrationContext, input: String| async move {
            let mut value = input;
            for _ in 0..10 {
                value = ctx.schedule_activity("Step", value).await?;
            }
            Ok(value)
        })
        .build();
    // What was locked when the copy was made is free again soon.
    let lock = Duration::from_secs(1);
    let options = RuntimeOptions {
        orchestrator_lock_timeout: lock,
        orchestrator_lock_renewal_buffer: lock / 2,
        worker_lock_timeout: lock,
        worker_lock_renewal_buffer: lock / 2,
        ..RuntimeOptions::default()
    };
    Runtime::start_with_options(store.clone(), activities, orchestrations, options).await
}

#[tokio::test]
async fn a_copy_made_in_the_middle_of_the_work_goes_on_from_there() {
    const COUNT: usize = 50;
    let (place, copy) = (Place::new(), Place::new());
    let store = Arc::new(place.open().await);
    let client = Client::new(store.clone());
    let runtime = run(&store).await;
    for n in 0..COUNT {
        client.start_orchestration(format!("i{n}"), "Steps", "x").await.unwrap();
    }
    while client.get_system_metrics().await.unwrap().total_events < 200 {
        tokio::task::yield_now().await;
    }
    let into = copy.path().display().to_string();
    let raw = place.raw();
    tokio::task::spawn_blocking(move || raw.execute("VACUUM INTO ?1", [into]).unwrap()).await.unwrap();
    runtime.shutdown(None).await;
    drop((client, store));

    let store = Arc::new(copy.open().await);
    let client = Client::new(store.clone());
    assert!(client.get_system_metrics().await.unwrap().running_instances > 0, "copied in the middle");
    let runtime = run(&store).await;
    for n in 0..COUNT {
        let ended = client.wait_for_orchestration_typed::<String>(&format!("i{n}"), LONG).await;
        assert_eq!(ended.unwrap().unwrap(), "x..........");
    }
    runtime.shutdown(None).await;
}

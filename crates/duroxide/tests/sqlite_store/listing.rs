//! Long listings, and a file that stops growing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use duroxide::providers::ProviderAdmin;
use duroxide::providers::management::InstanceQuery;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{RetentionPolicy, Runtime};
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry, RuntimeOptions};

use crate::fixture::{LONG, Place};

/// Instances of the long listing, a hundred in each millisecond.
const INSTANCES: i64 = 20_000;

fn fill(place: &Place) {
    let sql = "INSERT INTO instances (instance_id, incarnation, name, version, created_at, updated_at, status, \
         current_execution_id, pinned_key, inbox_count, next_position) \
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1) \
         SELECT printf('i%08d', i), i, 'Flow', '1.0.0', 1000 + i / 100, 1000, 1 + i % 2, 1, -1, 0, 1 FROM n";
    place.raw().execute(sql, [INSTANCES]).unwrap();
}

#[tokio::test]
async fn page_500_costs_at_most_three_times_page_1() {
    let place = Place::new();
    let store = place.open().await;
    fill(&place);
    let text = |text: &str| Some(text.to_string());
    for query in [
        InstanceQuery { limit: Some(39), ..Default::default() },
        InstanceQuery { status: text("Completed"), limit: Some(19), ..Default::default() },
        InstanceQuery { name: text("Flow"), limit: Some(39), ..Default::default() },
        InstanceQuery { id_prefix: text("i"), limit: Some(39), ..Default::default() },
    ] {
        let mut late = query.clone();
        for _ in 1..500 {
            late.after = Some(store.list_instances_page(&late).await.unwrap().next.expect("500 pages"));
        }
        // The shortest of several tries is what the page costs; the rest is what else the machine does.
        let mut shortest = [Duration::MAX; 2];
        for _ in 0..15 {
            for (query, shortest) in [&query, &late].into_iter().zip(&mut shortest) {
                let started = Instant::now();
                let page = store.list_instances_page(query).await.unwrap();
                *shortest = started.elapsed().min(*shortest);
                assert_eq!(page.instances.len(), usize::try_from(query.limit.unwrap()).unwrap());
            }
        }
        let [first, late] = shortest;
        assert!(late <= first * 3, "page 500 took {late:?}, page 1 {first:?}: {query:?}");
    }
}

#[tokio::test]
async fn a_page_looks_at_a_bounded_number_of_instances() {
    let place = Place::new();
    let store = place.open().await;
    fill(&place);
    // Nothing matches, and no index tells that.
    let mut query = InstanceQuery { version: Some("9.9.9".to_string()), ..Default::default() };
    let mut pages = 0;
    loop {
        let page = store.list_instances_page(&query).await.unwrap();
        assert_eq!(page.instances, vec![]);
        pages += 1;
        match page.next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    assert_eq!(pages, 3, "two of 10,000 instances each, and the empty end");
}

/// The pages of the file, those in its log included.
fn file_pages(place: &Place) -> u32 {
    place.raw().query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn with_retention_the_file_of_an_eternal_orchestration_stops_growing() {
    const EXECUTIONS: u64 = 400;
    let place = Place::new();
    let store = Arc::new(place.open().await);
    let policy = RetentionPolicy {
        keep_executions: Some(3),
        interval: Duration::from_millis(5),
        ..Default::default()
    };
    let options = RuntimeOptions { retention: Some(policy), ..Default::default() };
    let early = Arc::new(AtomicU32::new(0));
    let place = Arc::new(place);
    let seen = (early.clone(), place.clone());
    let activities = ActivityRegistry::builder()
        .register_typed("Step", move |_ctx: ActivityContext, (n, _load): (u64, String)| {
            let (early, place) = seen.clone();
            async move {
                if n == EXECUTIONS / 4 {
                    early.store(file_pages(&place), Ordering::SeqCst);
                }
                Ok(())
            }
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register_typed("Eternal", |ctx: OrchestrationContext, n: u64| async move {
            ctx.schedule_activity_typed::<_, ()>("Step", &(n, "x".repeat(20_000))).await?;
            if n < EXECUTIONS {
                ctx.continue_as_new_typed(&(n + 1)).await?;
            }
            Ok(n)
        })
        .build();
    let runtime = Runtime::start_with_options(store, activities, orchestrations, options).await;
    let client = runtime.client();
    client.start_orchestration_typed("eternal", "Eternal", 1_u64).await.unwrap();
    let ended = client.wait_for_orchestration_typed::<u64>("eternal", LONG).await.unwrap();
    assert_eq!(ended, Ok(EXECUTIONS));
    runtime.shutdown(None).await;
    let (early, late) = (early.load(Ordering::SeqCst), file_pages(&place));
    // Without retention each execution leaves twelve pages or more, 3,600 in all after the first look.
    assert!(late <= early + early / 5 + 100, "{early} pages after a quarter, {late} at the end");
}

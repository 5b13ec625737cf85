//! A first program on every store: start, activity, timer, event, child, continue-as-new, done.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::Faulty;
use duroxide::providers::Provider;
use duroxide::providers::memory::MemoryProvider;
use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, Client, Either2, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
};

fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Greet", |_ctx: ActivityContext, name: String| async move { Ok(format!("hello {name}")) })
        .build()
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Child", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_activity("Greet", input).await
        })
        .register("Everything", |ctx: OrchestrationContext, input: String| async move {
            if input == "again" {
                let left = ctx.dequeue_event("q").await;
                return Ok(format!("second execution read {left}"));
            }
            let greeting = ctx.schedule_activity("Greet", input).await?;
            ctx.schedule_timer(Duration::from_millis(5)).await;
            let child = ctx.schedule_sub_orchestration("Child", "child").await?;
            let event =
                match ctx.select2(ctx.schedule_wait("go"), ctx.schedule_timer(Duration::from_secs(60))).await
                {
                    Either2::First(data) => data,
                    Either2::Second(()) => return Err("no event".to_string()),
                };
            assert_eq!(
                (greeting.as_str(), child.as_str(), event.as_str()),
                ("hello you", "hello child", "now")
            );
            ctx.continue_as_new("again").await
        })
        .build()
}

/// Runs the program on a store and insists on its result.
async fn run_on(provider: Arc<dyn Provider>) {
    let runtime = Runtime::start_with_store(provider.clone(), activities(), orchestrations()).await;
    let client = Client::new(provider);
    client.enqueue_event("one", "q", "early").await.expect("an early message is kept");
    client.start_orchestration("one", "Everything", "you").await.expect("start");
    client.raise_event("one", "go", "now").await.expect("raise");
    let status = client.wait_for_orchestration("one", Duration::from_secs(20)).await.expect("wait");
    let OrchestrationStatus::Completed { output, .. } = status else { panic!("{status:?}") };
    assert_eq!(output, "second execution read early");
    let tree = client.get_instance_tree("one").await.expect("tree");
    assert_eq!(tree.size(), 2);
    assert!(tree.all_ids[1].starts_with("one::sub::"), "{tree:?}");
    let deleted = client.delete_instance("one", false).await.expect("delete");
    assert_eq!((deleted.instances_deleted, deleted.executions_deleted), (2, 3));
    let status = client.get_orchestration_status("one").await.expect("status");
    assert_eq!(status, OrchestrationStatus::NotFound);
    runtime.shutdown(None).await;
}

#[tokio::test]
async fn a_program_that_uses_everything_finishes_in_memory() {
    run_on(Arc::new(MemoryProvider::new())).await;
}

#[tokio::test]
async fn a_program_that_uses_everything_finishes_on_a_file() {
    let directory = tempfile::tempdir().expect("a directory for the file");
    let url = format!("sqlite:{}", directory.path().join("store.db").display());
    run_on(Arc::new(SqliteProvider::new(&url, None).await.expect("the file opens"))).await;
}

#[tokio::test]
async fn a_program_that_uses_everything_finishes_behind_a_wrapper_that_knows_no_extension() {
    run_on(Arc::new(Faulty::new(Arc::new(MemoryProvider::new())).plain())).await;
    let sqlite = SqliteProvider::new_in_memory().await.expect("a store in memory opens");
    run_on(Arc::new(Faulty::new(Arc::new(sqlite)).plain())).await;
}

#[tokio::test]
async fn on_a_file_too_an_activity_learns_of_its_cancellation_within_a_second() {
    let directory = tempfile::tempdir().expect("a directory for the file");
    let url = format!("sqlite:{}", directory.path().join("store.db").display());
    let provider = Arc::new(SqliteProvider::new(&url, None).await.expect("the file opens"));
    let (running, mut runs) = tokio::sync::mpsc::channel(1);
    let (told, mut learns) = tokio::sync::mpsc::channel(1);
    let activities =
        ActivityRegistry::builder().register("Wait", move |ctx: ActivityContext, _input: String| {
            let (running, told) = (running.clone(), told.clone());
            async move {
                running.send(()).await.map_err(|error| error.to_string())?;
                ctx.cancelled().await;
                told.send(Instant::now()).await.map_err(|error| error.to_string())?;
                Ok(String::new())
            }
        });
    let orchestrations = OrchestrationRegistry::builder()
        .register("Wait", |ctx: OrchestrationContext, _input: String| async move {
            ctx.schedule_activity("Wait", "").await
        })
        .build();
    let runtime = Runtime::start_with_store(provider, activities.build(), orchestrations).await;
    let client = runtime.client();
    client.start_orchestration("c", "Wait", "").await.expect("start");
    runs.recv().await.expect("the activity runs");
    let cancelled = Instant::now();
    client.cancel_instance("c", "enough").await.expect("cancel");
    let learned = learns.recv().await.expect("the activity is told");
    assert!(learned - cancelled < Duration::from_secs(1), "told after {:?}", learned - cancelled);
    runtime.shutdown(None).await;
}

/// More messages than one fetch takes: the next fetch is served in the transaction that commits the turn.
#[tokio::test]
async fn a_turn_that_follows_in_the_same_commit_does_not_read_the_history_either() {
    let count = duroxide::runtime::limits::MAX_MESSAGES_PER_FETCH + 100;
    let sqlite = SqliteProvider::new_in_memory().await.expect("a store in memory opens");
    let store = Arc::new(Faulty::new(Arc::new(sqlite)));
    let client = Client::new(store.clone());
    for n in 0..count {
        client.enqueue_event("loop", "q", n.to_string()).await.expect("enqueue");
    }
    let orchestrations = OrchestrationRegistry::builder()
        .register("Loop", |ctx: OrchestrationContext, input: String| async move {
            let count: usize = input.parse().map_err(|_| "a number".to_string())?;
            for n in 0..count {
                assert_eq!(ctx.dequeue_event("q").await, n.to_string());
            }
            Ok("in order".to_string())
        })
        .build();
    client.start_orchestration("loop", "Loop", count.to_string()).await.expect("start");
    let runtime = Runtime::start_with_store(store.clone(), activities(), orchestrations).await;
    let status = client.wait_for_orchestration("loop", Duration::from_secs(60)).await.expect("wait");
    assert!(matches!(status, OrchestrationStatus::Completed { .. }), "{status:?}");
    assert_eq!(store.events_fetched(), 0, "no fetch brought the history");
    assert_eq!(store.calls("read"), 0);
    runtime.shutdown(None).await;
}

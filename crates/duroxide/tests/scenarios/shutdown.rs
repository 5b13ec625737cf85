//! After a shutdown nothing of the runtime is left behind, however it is called and whatever ran.

use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide::providers::Provider;
use duroxide::providers::memory::MemoryProvider;
use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::testing::{Fault, FaultProvider, FaultSource, Method};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use tokio::sync::Notify;

/// An activity that ends at once, and one that runs for ever and does not listen; each tells that it runs.
fn activities(running: &Arc<Notify>) -> ActivityRegistry {
    let running = running.clone();
    ActivityRegistry::builder()
        .register("Quick", |_ctx: ActivityContext, input: String| async move { Ok(input) })
        .register("Deaf", move |ctx: ActivityContext, _input: String| {
            let running = running.clone();
            async move {
                running.notify_one();
                std::future::pending::<()>().await;
                Ok(ctx.instance_id().to_string())
            }
        })
        .register("Blocking", |_ctx: ActivityContext, input: String| async move {
            // Longer than work is given back, shorter than what was killed is waited for.
            std::thread::sleep(Duration::from_millis(750));
            Ok(input)
        })
        .build()
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Call", |ctx: OrchestrationContext, activity: String| async move {
            ctx.schedule_activity("Quick", "").await?;
            ctx.schedule_activity_on_session(activity, "", "session").await?;
            Ok(ctx.schedule_wait("never").await)
        })
        .build()
}

/// Runs something that is in progress, shuts down, and counts who still has the store.
async fn check(store: Arc<dyn Provider>, activity: &str, timeout_ms: Option<u64>) {
    let running = Arc::new(Notify::new());
    let runtime = Runtime::start_with_store(store.clone(), activities(&running), orchestrations()).await;
    let client = Client::new(store.clone());
    client.start_orchestration("i", "Call", activity).await.expect("a start");
    if activity == "Deaf" {
        running.notified().await;
    }
    drop(client);
    let begun = Instant::now();
    runtime.shutdown(timeout_ms).await;
    let took = begun.elapsed();
    assert!(took < Duration::from_millis(timeout_ms.unwrap_or(1_000)) + Duration::from_secs(2), "{took:?}");
    assert_eq!(Arc::strong_count(&store), 1, "{activity} {timeout_ms:?}: the runtime still has the store");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_has_the_store_after_a_shutdown() {
    for timeout_ms in [Some(0), Some(50), None] {
        for activity in ["Quick", "Deaf"] {
            check(Arc::new(MemoryProvider::new()), activity, timeout_ms).await;
            let sqlite = SqliteProvider::new_in_memory().await.expect("a store in memory");
            check(Arc::new(sqlite), activity, timeout_ms).await;
        }
    }
}

/// Acks of activities never return.
struct AcksHang;

impl FaultSource for AcksHang {
    fn faults(&self, method: Method) -> Vec<Fault> {
        if method == Method::AckWork { vec![Fault::Freeze] } else { Vec::new() }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_has_the_store_after_a_shutdown_that_had_to_kill() {
    check(Arc::new(MemoryProvider::new()), "Blocking", Some(0)).await;
    let store = Arc::new(MemoryProvider::new());
    let hanging: Arc<dyn Provider> = Arc::new(FaultProvider::new(store).with_source(Arc::new(AcksHang)));
    check(hanging, "Quick", Some(100)).await;
}

/// Waits for a future on a thread that knows nothing of tokio.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::task::Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
            std::task::Poll::Ready(value) => return value,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn a_shutdown_needs_no_tokio_context_of_its_caller() {
    let tokio = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a tokio runtime");
    for timeout_ms in [Some(0), Some(20)] {
        let store: Arc<dyn Provider> = Arc::new(MemoryProvider::new());
        let running = Arc::new(Notify::new());
        let runtime =
            tokio.block_on(Runtime::start_with_store(store.clone(), activities(&running), orchestrations()));
        block_on(runtime.shutdown(timeout_ms));
        assert_eq!(Arc::strong_count(&store), 1);
    }
}

#[test]
fn a_shutdown_after_its_tokio_runtime_has_ended_returns() {
    let tokio = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a tokio runtime");
    let store: Arc<dyn Provider> = Arc::new(MemoryProvider::new());
    let running = Arc::new(Notify::new());
    let runtime =
        tokio.block_on(Runtime::start_with_store(store.clone(), activities(&running), orchestrations()));
    drop(tokio);
    block_on(runtime.shutdown(None));
    assert_eq!(Arc::strong_count(&store), 1);
}

//! Runs small programs, for the texts that only a running instance gives.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::memory::MemoryProvider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::{ActivityRegistry, OrchestrationRegistry};
use duroxide::{ActivityContext, Client, ErrorDetails, Event, OrchestrationContext, OrchestrationStatus};

use crate::notation::RS;

/// Far longer than any of these programs takes.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime starts").block_on(future)
}

/// A store of its own, a node on it, and a client.
pub(crate) struct Started {
    pub(crate) store: Arc<MemoryProvider>,
    pub(crate) client: Client,
    runtime: Arc<Runtime>,
}

impl Started {
    /// A node that runs `program` as `Program`, a child `Child` that returns its input, and an activity `Echo`.
    pub(crate) async fn with<F, Fut>(program: F) -> Self
    where
        F: Fn(OrchestrationContext, String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = RS> + Send + 'static,
    {
        let store = Arc::new(MemoryProvider::new());
        let runtime = start_on(store.clone(), program).await;
        Self { client: Client::new(store.clone()), store, runtime }
    }

    /// The same store with another program, once the one before has ended.
    pub(crate) async fn deploy<F, Fut>(&mut self, program: F)
    where
        F: Fn(OrchestrationContext, String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = RS> + Send + 'static,
    {
        self.runtime.clone().shutdown(None).await;
        self.runtime = start_on(self.store.clone(), program).await;
    }

    pub(crate) async fn start(&self, instance: &str) {
        self.client.start_orchestration(instance, "Program", "").await.expect("it starts");
    }

    pub(crate) async fn ended(&self, instance: &str) -> OrchestrationStatus {
        self.client.wait_for_orchestration(instance, PATIENCE).await.expect("it ends")
    }

    pub(crate) async fn output(&self, instance: &str) -> String {
        let status = self.ended(instance).await;
        let OrchestrationStatus::Completed { output, .. } = status else {
            panic!("expected a completion, got {status:?}")
        };
        output
    }

    pub(crate) async fn failure(&self, instance: &str) -> ErrorDetails {
        let status = self.ended(instance).await;
        let OrchestrationStatus::Failed { details, .. } = status else {
            panic!("expected a failure, got {status:?}")
        };
        details
    }

    pub(crate) async fn history(&self, instance: &str) -> Vec<Event> {
        self.client.read_execution_history(instance, 1).await.expect("a history")
    }

    /// Waits until the instance has written its custom status `ready`.
    pub(crate) async fn until_ready(&self, instance: &str) {
        let status = self.client.wait_for_status_change(instance, 0, PATIENCE, PATIENCE).await;
        assert!(matches!(status, Ok(OrchestrationStatus::Running { .. })), "{status:?}");
    }

    pub(crate) async fn stop(self) {
        self.runtime.shutdown(None).await;
    }
}

async fn start_on<F, Fut>(store: Arc<MemoryProvider>, program: F) -> Arc<Runtime>
where
    F: Fn(OrchestrationContext, String) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = RS> + Send + 'static,
{
    async fn child(_ctx: OrchestrationContext, input: String) -> RS {
        Ok(input)
    }
    async fn echo(_ctx: ActivityContext, input: String) -> RS {
        Ok(input)
    }
    async fn hang(ctx: ActivityContext, _input: String) -> RS {
        ctx.cancelled().await;
        Err("cancelled".to_string())
    }
    let activities = ActivityRegistry::builder().register("Echo", echo).register("Hang", hang).build();
    let orchestrations =
        OrchestrationRegistry::builder().register("Program", program).register("Child", child).build();
    Runtime::start_with_store(store, activities, orchestrations).await
}

/// Runs a program to its end.
pub(crate) fn output_of<F, Fut>(program: F) -> String
where
    F: Fn(OrchestrationContext, String) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = RS> + Send + 'static,
{
    block_on(async {
        let started = Started::with(program).await;
        started.start("i").await;
        let output = started.output("i").await;
        started.stop().await;
        output
    })
}

/// Runs a program that must fail.
pub(crate) fn failure_of<F, Fut>(program: F) -> ErrorDetails
where
    F: Fn(OrchestrationContext, String) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = RS> + Send + 'static,
{
    block_on(async {
        let started = Started::with(program).await;
        started.start("i").await;
        let details = started.failure("i").await;
        started.stop().await;
        details
    })
}

//! The names and signatures that programs rely on. Nothing here runs: it is enough that it compiles.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use duroxide::providers::sqlite::{SqliteOptions, SqliteProvider};
use duroxide::providers::{ExecutionMetadata, KvEntry, OrchestrationItem, Provider, ProviderError, WorkItem};
use duroxide::runtime::registry::{
    ActivityRegistry, ActivityRegistryBuilder, OrchestrationRegistryBuilder, VersionPolicy,
};
use duroxide::runtime::{
    LogFormat, MetricsSnapshot, ObservabilityConfig, OrchestrationDescriptor, Runtime,
    UnregisteredBackoffConfig,
};
use duroxide::{
    ActivityContext, AppErrorKind, BackoffStrategy, Client, ClientError, ConfigErrorKind,
    DispatcherCapabilityFilter, DurableFuture, Either2, Either3, ErrorDetails, Event, EventKind,
    OrchestrationContext, OrchestrationHandler, OrchestrationRegistry, OrchestrationStatus,
    PoisonMessageType, ProviderRef, RetryPolicy, RuntimeOptions, SemverRange, SystemStats, TagFilter,
};
use semver::Version;

type Text = Result<String, String>;

#[expect(dead_code, clippy::let_underscore_must_use, reason = "checked by the compiler alone")]
async fn retries_and_state(ctx: OrchestrationContext) {
    let future: DurableFuture<Text> = ctx.schedule_activity_on_session("A", "", "s").with_tag("t");
    let _: Text = future.await;
    let future: DurableFuture<Result<u8, String>> = ctx.schedule_activity_on_session_typed("A", &1, "s");
    let _: Result<u8, String> = future.await;
    let policy = RetryPolicy { max_attempts: 3, backoff: BackoffStrategy::default(), timeout: None };
    let _: Text =
        ctx.schedule_activity_with_retry("A", "", policy.clone().with_timeout(Duration::ZERO)).await;
    let _: Result<u8, String> = ctx.schedule_activity_with_retry_typed("A", &1, policy.clone()).await;
    let _: Text = ctx.schedule_activity_with_retry_on_session("A", "", policy.clone(), "s").await;
    let _: Result<u8, String> = ctx
        .schedule_activity_with_retry_on_session_typed(
            "A",
            &1,
            policy.with_total_timeout(Duration::ZERO),
            "s",
        )
        .await;
    ctx.set_custom_status("x");
    ctx.reset_custom_status();
    let _: Option<String> = ctx.get_custom_status();
    ctx.set_kv_value("k", "v");
    ctx.set_kv_value_typed("k", &1u8);
    let _: Option<String> = ctx.get_kv_value("k");
    let _: Result<Option<u8>, String> = ctx.get_kv_value_typed("k");
    let _: HashMap<String, String> = ctx.get_kv_all_values();
    let _: Vec<String> = ctx.get_kv_all_keys();
    let _: usize = ctx.get_kv_length();
    ctx.clear_kv_value("k");
    ctx.clear_all_kv_values();
    let _: usize = ctx.prune_kv_values_updated_before(1);
    let future: DurableFuture<Result<Option<String>, String>> = ctx.get_kv_value_from_instance("i", "k");
    let _: Result<Option<String>, String> = future.await;
    let future: DurableFuture<Result<Option<u8>, String>> = ctx.get_kv_value_from_instance_typed("i", "k");
    let _: Result<Option<u8>, String> = future.await;
    let _: Option<SystemStats> = ctx.get_system_stats();
}

#[expect(dead_code, deprecated, clippy::let_underscore_must_use, reason = "checked by the compiler alone")]
async fn a_context(ctx: OrchestrationContext) -> Text {
    let a: DurableFuture<Text> = ctx.schedule_activity("A", String::new());
    let b: DurableFuture<Result<u32, String>> = ctx.schedule_activity_typed("A", &1u8);
    let c: DurableFuture<()> = ctx.schedule_timer(Duration::ZERO);
    let d: DurableFuture<String> = ctx.schedule_wait("e");
    let e: DurableFuture<u64> = ctx.schedule_wait_typed("e");
    let f: DurableFuture<String> = ctx.dequeue_event("q");
    let g: DurableFuture<Vec<u8>> = ctx.dequeue_event_typed("q");
    let h: DurableFuture<String> = ctx.schedule_wait_persistent("q");
    let i: DurableFuture<Text> = ctx.schedule_sub_orchestration("O", "");
    let j: DurableFuture<Text> = ctx.schedule_sub_orchestration_with_id("O", "i", "");
    let k: DurableFuture<Text> = ctx.schedule_sub_orchestration_versioned("O", Some("1.0.0".to_string()), "");
    let l: DurableFuture<Text> = ctx.schedule_sub_orchestration_versioned_with_id("O", None, "i", "");
    let m: DurableFuture<Result<String, String>> = ctx.schedule_sub_orchestration_typed("O", &"in");
    let n: DurableFuture<Result<bool, String>> = ctx.schedule_sub_orchestration_with_id_typed("O", "i", &());
    ctx.schedule_orchestration("O", "i", "");
    ctx.schedule_orchestration_typed("O", "i", &1);
    ctx.schedule_orchestration_versioned("O", None, "i", "");
    ctx.schedule_orchestration_versioned_typed("O", Some("1.0.0".to_string()), "i", &1);
    let (_, _): (Text, ()) = ctx.join2(a.with_tag("t"), c).await;
    let _: (Result<u32, String>, String, u64) = ctx.join3(b, d, e).await;
    let either: Either2<String, Vec<u8>> = ctx.select2(f, g).await;
    let _: (bool, bool, usize) = (either.is_first(), either.is_second(), either.index());
    let either: Either3<String, Text, Text> = ctx.select3(h, i, j).await;
    let _: usize = either.index();
    let _: (usize, Text) = ctx.select2(k, l).await.into_tuple();
    let _: Vec<Text> = ctx.join(vec![m.into_activity()]).await;
    let _: Result<bool, String> = n.map(|result| result).into_sub_orchestration().await;
    let _: Text = ctx.new_guid().await;
    let _: Result<SystemTime, String> = ctx.utc_now().await;
    ctx.trace("info", "x");
    ctx.trace_info("x");
    ctx.trace_warn("x");
    ctx.trace_error("x");
    ctx.trace_debug("x");
    let _: bool = ctx.is_replaying();
    let _: (String, u64) = (ctx.instance_id(), ctx.execution_id());
    let _: (String, String) = (ctx.orchestration_name(), ctx.orchestration_version());
    ctx.continue_as_new_typed(&1);
    ctx.continue_as_new("without await");
    ctx.continue_as_new_versioned("2.0.0", "in").await
}

#[expect(dead_code, reason = "checked by the compiler alone")]
async fn an_activity(ctx: ActivityContext) {
    let _: (&str, u64, &str, &str) =
        (ctx.instance_id(), ctx.execution_id(), ctx.orchestration_name(), ctx.orchestration_version());
    let _: (&str, &str, Option<&str>, Option<&str>) =
        (ctx.activity_name(), ctx.worker_id(), ctx.session_id(), ctx.tag());
    let _: (u64, u32, String) = (ctx.activity_id(), ctx.attempt(), ctx.idempotency_key());
    let _: (bool, Client) = (ctx.is_cancelled(), ctx.get_client());
    ctx.cancellation_token().cancelled().await;
    ctx.cancelled().await;
}

struct Handler;

#[async_trait::async_trait]
impl OrchestrationHandler for Handler {
    async fn invoke(&self, _ctx: OrchestrationContext, input: String) -> Text {
        Ok(input)
    }
}

#[expect(dead_code, clippy::let_underscore_must_use, reason = "checked by the compiler alone")]
async fn registries_and_runtime() -> Result<(), ProviderError> {
    async fn program(_ctx: OrchestrationContext, input: String) -> Text {
        Ok(input)
    }
    async fn work(_ctx: ActivityContext, input: String) -> Text {
        Ok(input)
    }
    let builder: OrchestrationRegistryBuilder = OrchestrationRegistry::builder()
        .register("A", program)
        .register_typed::<u32, String, _, _>("B", |_ctx, n: u32| async move { Ok(n.to_string()) })
        .register_versioned("A", "2.0.0", program)
        .register_versioned_typed::<u32, u32, _, _>("B", "2.0.0", |_ctx, n: u32| async move { Ok(n) })
        .register_all(vec![("C", program), ("D", program)])
        .merge(OrchestrationRegistry::default())
        .set_policy("A", VersionPolicy::Exact(Version::new(1, 0, 0)));
    let orchestrations: OrchestrationRegistry = builder.build();
    let _: Option<(Version, Arc<dyn OrchestrationHandler>)> = orchestrations.resolve_handler("A");
    let _: Option<Arc<dyn OrchestrationHandler>> =
        orchestrations.resolve_handler_exact("A", &Version::new(1, 0, 0));
    let _: (Option<Version>, Vec<String>, Vec<Version>) =
        (orchestrations.resolve_version("A"), orchestrations.list_names(), orchestrations.list_versions("A"));
    let _: (bool, usize) = (orchestrations.has("A"), orchestrations.count());
    orchestrations.set_version_policy("A", VersionPolicy::Latest);
    let _: Result<OrchestrationRegistry, String> =
        OrchestrationRegistry::builder_from(&orchestrations).build_result();
    let activities: ActivityRegistry = ActivityRegistry::builder()
        .register("A", work)
        .register_typed::<u32, u32, _, _>("B", |_ctx, n: u32| async move { Ok(n) })
        .register_all(vec![("C", work)])
        .build();
    let _: ActivityRegistryBuilder = ActivityRegistryBuilder::from_registry(&activities);
    let provider =
        Arc::new(SqliteProvider::new("sqlite:x.db?mode=rwc", Some(SqliteOptions::default())).await?);
    let _: SqliteProvider = SqliteProvider::new_in_memory().await?;
    let _: SqliteProvider = SqliteProvider::new_in_memory_with_options(None).await?;
    let _: ProviderRef = provider.clone();
    let options = RuntimeOptions {
        observability: ObservabilityConfig { log_format: LogFormat::Json, ..Default::default() },
        unregistered_backoff: UnregisteredBackoffConfig {
            base_delay: Duration::ZERO,
            max_delay: Duration::ZERO,
        },
        supported_replay_versions: Some(SemverRange::below(Version::new(1, 0, 0), Version::new(2, 0, 0))),
        worker_tag_filter: TagFilter::default_and(["gpu"]),
        ..Default::default()
    };
    let runtime: Arc<Runtime> = Runtime::start_with_options(
        provider.clone(),
        Arc::new(activities.clone()),
        orchestrations.clone(),
        options,
    )
    .await;
    let _: Arc<Runtime> = Runtime::start(activities.clone(), orchestrations.clone()).await;
    let _: Option<OrchestrationDescriptor> = runtime.get_orchestration_descriptor("i").await;
    let _: Option<MetricsSnapshot> = runtime.metrics_snapshot();
    runtime.shutdown(Some(10)).await;
    Runtime::start_with_store(provider, activities, orchestrations).await.shutdown(None).await;
    Ok(())
}

#[expect(dead_code, clippy::let_underscore_must_use, reason = "checked by the compiler alone")]
async fn a_client(provider: Arc<SqliteProvider>) -> Result<(), ClientError> {
    let client = Client::new(provider);
    client.start_orchestration("i", "O", "in").await?;
    client.start_orchestration_typed("i", "O", 5).await?;
    client.start_orchestration_versioned("i", "O", "1.0.0", "in").await?;
    client.start_orchestration_versioned_typed("i", "O", "1.0.0", vec![1]).await?;
    client.raise_event("i", "e", "d").await?;
    client.raise_event_typed("i", "e", &1).await?;
    client.enqueue_event("i", "q", "d").await?;
    client.enqueue_event_typed("i", "q", &1).await?;
    client.cancel_instance("i", "reason").await?;
    let _: OrchestrationStatus = client.get_orchestration_status("i").await?;
    let _: OrchestrationStatus = client.wait_for_orchestration("i", Duration::ZERO).await?;
    let _: Result<u32, String> = client.wait_for_orchestration_typed("i", Duration::ZERO).await?;
    let _: OrchestrationStatus =
        client.wait_for_status_change("i", 1, Duration::ZERO, Duration::ZERO).await?;
    let _: Option<String> = client.get_kv_value("i", "k").await?;
    let _: Option<u8> = client.get_kv_value_typed("i", "k").await?;
    let _: HashMap<String, String> = client.get_kv_all_values("i").await?;
    let _: String = client.wait_for_kv_value("i", "k", Duration::ZERO).await?;
    let _: u8 = client.wait_for_kv_value_typed("i", "k", Duration::ZERO).await?;
    let _: Option<SystemStats> = client.get_orchestration_stats("i").await?;
    let _: bool = client.has_management_capability();
    let _: Vec<String> = client.list_all_instances().await?;
    let _: Vec<u64> = client.list_executions("i").await?;
    let _: Vec<Event> = client.read_execution_history("i", 1).await?;
    let _: u64 = client.delete_instance("i", true).await?.instances_deleted;
    Ok(())
}

#[test]
fn stored_types_are_built_from_exactly_their_fields() {
    let event = Event {
        event_id: 1,
        source_event_id: None,
        instance_id: "i".to_string(),
        execution_id: 1,
        timestamp_ms: 0,
        duroxide_version: "1.0.0".to_string(),
        kind: EventKind::SubOrchestrationScheduled {
            name: "n".to_string(),
            instance: "c".to_string(),
            input: String::new(),
        },
    };
    assert!(!event.is_terminal());
    let item = OrchestrationItem {
        instance: "i".to_string(),
        orchestration_name: "n".to_string(),
        execution_id: 1,
        version: String::new(),
        history: vec![event],
        messages: vec![WorkItem::CancelInstance { instance: "i".to_string(), reason: String::new() }],
        history_error: None,
        kv_snapshot: [("k".to_string(), KvEntry { value: "v".to_string(), last_updated_at_ms: 1 })].into(),
    };
    assert_eq!(item.messages.len(), 1);
    assert_eq!(ExecutionMetadata::default().status, None);
    let details = ErrorDetails::Configuration {
        kind: ConfigErrorKind::Nondeterminism,
        resource: "O".to_string(),
        message: None,
    };
    assert_eq!(details.display_message(), "nondeterministic in O");
    let cancelled = AppErrorKind::Cancelled { reason: "r".to_string() };
    assert_ne!(cancelled, AppErrorKind::Panicked);
    let poison = PoisonMessageType::Orchestration { instance: "i".to_string(), execution_id: 1 };
    assert!(matches!(poison, PoisonMessageType::Orchestration { .. }));
    let filter = DispatcherCapabilityFilter::default_for_current_build();
    assert!(filter.is_compatible(&duroxide::current_build_version()));
    let defaults = RuntimeOptions::default();
    assert_eq!((defaults.max_attempts, defaults.max_sessions_per_runtime), (10, 10));
    assert_eq!(defaults.dispatcher_long_poll_timeout, Duration::from_secs(30));
    assert_eq!(defaults.orchestrator_lock_timeout, Duration::from_secs(5));
    assert_eq!(defaults.worker_lock_timeout, Duration::from_secs(30));
    assert_eq!(defaults.activity_cancellation_grace_period, Duration::from_secs(10));
    let error = ProviderError::retryable("op", "msg");
    assert!(
        error.is_retryable() && (&error.operation, &error.message) == (&"op".to_string(), &"msg".to_string())
    );
    let _: &dyn Provider = &duroxide::providers::memory::MemoryProvider::new();
    drop(Box::new(Handler) as Box<dyn OrchestrationHandler>);
}

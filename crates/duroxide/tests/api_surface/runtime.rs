//! Runtimes, their options, and what they tell.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::Provider;
use duroxide::providers::memory::MemoryProvider;
use duroxide::runtime::observability::MetricsSnapshot;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{
    LogFormat, ObservabilityConfig, ObservabilityHandle, OrchestrationDescriptor, Runtime,
    UnregisteredBackoffConfig, limits, observability,
};
use duroxide::{
    DispatcherCapabilityFilter, OrchestrationRegistry, RuntimeOptions, SemverRange, TagFilter,
    current_build_version,
};
use semver::Version;

use crate::notation::{Activities, D, S, constants, defaults, fields, methods, panic_of, says, variants};
use crate::programs::block_on;

pub(crate) fn checked() -> Vec<&'static str> {
    [runtimes(), options(), option_values(), tags(), versions(), observed(), all_limits()].concat()
}

fn runtimes() -> Vec<&'static str> {
    const _: fn(Arc<ActivityRegistry>, OrchestrationRegistry) = |shared, orchestrations| {
        drop(Runtime::start(shared, orchestrations));
    };
    let too_short = RuntimeOptions {
        session_idle_timeout: Duration::from_secs(25),
        worker_lock_timeout: Duration::from_secs(30),
        worker_lock_renewal_buffer: Duration::from_secs(5),
        ..Default::default()
    };
    let refused = panic_of(|| {
        let store = Arc::new(MemoryProvider::new());
        block_on(Runtime::start_with_options(
            store,
            ActivityRegistry::default(),
            OrchestrationRegistry::default(),
            too_short,
        ));
    });
    let methods = methods!(Runtime {
        async fn start_with_store(Arc<dyn Provider>, Activities, OrchestrationRegistry) -> Arc<Runtime>;
        async fn start_with_options(Arc<dyn Provider>, Activities, OrchestrationRegistry, RuntimeOptions)
            -> Arc<Runtime>;
        async fn start(Activities, OrchestrationRegistry) -> Arc<Runtime>;
        async fn shutdown(self: Arc<Self>, Option<u64>);
        async fn get_orchestration_descriptor(&self, &str) -> Option<OrchestrationDescriptor>;
        fn metrics_snapshot(&self) -> Option<MetricsSnapshot>;
        fn observability_handle(&self) -> Option<ObservabilityHandle>;
    });
    let descriptor = fields!(OrchestrationDescriptor {
        name: String,
        version: String,
        parent_instance: Option<String>,
        parent_id: Option<u64>,
    });
    let panics = vec![says("start panics, naming session_idle_timeout", &refused, "session_idle_timeout")];
    [methods, descriptor, panics].concat()
}

fn options() -> Vec<&'static str> {
    fields!(RuntimeOptions {
        dispatcher_min_poll_interval: Duration,
        dispatcher_long_poll_timeout: Duration,
        orchestration_concurrency: usize,
        worker_concurrency: usize,
        orchestrator_lock_timeout: Duration,
        orchestrator_lock_renewal_buffer: Duration,
        worker_lock_timeout: Duration,
        worker_lock_renewal_buffer: Duration,
        observability: ObservabilityConfig,
        max_attempts: u32,
        unregistered_backoff: UnregisteredBackoffConfig,
        activity_cancellation_grace_period: Duration,
        supported_replay_versions: Option<SemverRange>,
        session_lock_timeout: Duration,
        session_lock_renewal_buffer: Duration,
        session_idle_timeout: Duration,
        session_cleanup_interval: Duration,
        max_sessions_per_runtime: usize,
        worker_node_id: Option<String>,
        worker_tag_filter: TagFilter,
        ..
    })
}

fn option_values() -> Vec<&'static str> {
    let ms = Duration::from_millis;
    let s = Duration::from_secs;
    let sized = RuntimeOptions::default();
    assert!(sized.orchestration_concurrency > 2 && sized.worker_concurrency > 2, "sized for throughput");
    let runtime = defaults!(RuntimeOptions {
        dispatcher_min_poll_interval: ms(100),
        dispatcher_long_poll_timeout: s(30),
        orchestrator_lock_timeout: s(5),
        orchestrator_lock_renewal_buffer: s(2),
        worker_lock_timeout: s(30),
        worker_lock_renewal_buffer: s(5),
        observability: ObservabilityConfig::default(),
        max_attempts: 10,
        unregistered_backoff: UnregisteredBackoffConfig::default(),
        activity_cancellation_grace_period: s(10),
        supported_replay_versions: None,
        session_lock_timeout: s(30),
        session_lock_renewal_buffer: s(5),
        session_idle_timeout: s(300),
        session_cleanup_interval: s(300),
        max_sessions_per_runtime: 10,
        worker_node_id: None,
        worker_tag_filter: TagFilter::DefaultOnly,
    });
    let backoff = [
        fields!(UnregisteredBackoffConfig { base_delay: Duration, max_delay: Duration }),
        defaults!(UnregisteredBackoffConfig { base_delay: s(1), max_delay: s(60) }),
        methods!(UnregisteredBackoffConfig {
            fn delay(&self, u32) -> D;
        }),
    ];
    let observability = [
        fields!(ObservabilityConfig {
            log_format: LogFormat,
            log_level: String,
            service_name: String,
            service_version: Option<String>,
            gauge_poll_interval: Duration,
        }),
        defaults!(ObservabilityConfig {
            log_format: LogFormat::Pretty,
            log_level: "info",
            service_name: "duroxide",
            service_version: None,
            gauge_poll_interval: s(60),
        }),
    ];
    let concurrency = vec![
        "RuntimeOptions::default().orchestration_concurrency is more than 2",
        "RuntimeOptions::default().worker_concurrency is more than 2",
    ];
    [runtime, concurrency, backoff.concat(), observability.concat()].concat()
}

fn tags() -> Vec<&'static str> {
    const NO_TAGS: [&str; 0] = [];
    panic_of(|| TagFilter::tags(NO_TAGS));
    panic_of(|| TagFilter::default_and(NO_TAGS));
    panic_of(|| TagFilter::tags(["1", "2", "3", "4", "5", "6"]));
    panic_of(|| TagFilter::default_and(["1", "2", "3", "4", "5", "6"]));
    let accepts =
        |filter: TagFilter| [filter.matches(None), filter.matches(Some("a")), filter.matches(Some("b"))];
    assert_eq!(accepts(TagFilter::default()), [true, false, false]);
    assert_eq!(accepts(TagFilter::default_only()), [true, false, false]);
    assert_eq!(accepts(TagFilter::tags(["a"])), [false, true, false]);
    assert_eq!(accepts(TagFilter::default_and(["a", "2", "3", "4", "5"])), [true, true, false]);
    assert_eq!(accepts(TagFilter::any()), [true, true, true]);
    assert_eq!(accepts(TagFilter::none()), [false, false, false]);
    [
        variants!(closed TagFilter {
            DefaultOnly,
            Tags(HashSet<String>),
            DefaultAnd(HashSet<String>),
            Any,
            None,
        }),
        methods!(TagFilter {
            fn tags([S; 1]) -> TagFilter;
            fn default_and([S; 1]) -> TagFilter;
            fn default_only() -> TagFilter;
            fn any() -> TagFilter;
            fn none() -> TagFilter;
            fn matches(&self, Option<&str>) -> bool;
        }),
        vec![
            "TagFilter::default() is DefaultOnly",
            "TagFilter::tags and default_and panic when empty or over 5",
        ],
    ]
    .concat()
}

fn versions() -> Vec<&'static str> {
    let range = SemverRange::new(Version::new(1, 0, 0), Version::new(1, 2, 0));
    let contained = |text: &str| range.contains(&Version::parse(text).expect("a version"));
    assert_eq!(
        ["1.0.0", "1.2.0", "1.2.0-rc.1", "1.2.1", "0.9.9"].map(contained),
        [true, true, true, false, false]
    );
    let filter = DispatcherCapabilityFilter::default_for_current_build();
    assert!(filter.is_compatible(&current_build_version()) && filter.is_compatible(&Version::new(0, 0, 0)));
    [
        fields!(SemverRange { min: Version, max: Version }),
        methods!(SemverRange {
            fn new(Version, Version) -> SemverRange;
            fn contains(&self, &Version) -> bool;
            fn default_for_current_build() -> SemverRange;
            fn below(Version, Version) -> SemverRange;
        }),
        fields!(DispatcherCapabilityFilter { supported_duroxide_versions: Vec<SemverRange> }),
        methods!(DispatcherCapabilityFilter {
            fn is_compatible(&self, &Version) -> bool;
            fn default_for_current_build() -> DispatcherCapabilityFilter;
        }),
        vec!["a SemverRange is inclusive and compares major, minor, patch"],
    ]
    .concat()
}

fn observed() -> Vec<&'static str> {
    const _: fn(&ObservabilityConfig) -> Result<(), String> = observability::init_logging;
    [
        vec!["observability::init_logging(&ObservabilityConfig) -> Result<(), String>"],
        variants!(closed LogFormat { Json, Pretty, Compact }),
        fields!(MetricsSnapshot has {
            orch_starts: u64,
            orch_completions: u64,
            orch_failures: u64,
            orch_application_errors: u64,
            orch_infrastructure_errors: u64,
            orch_configuration_errors: u64,
            orch_poison: u64,
            activity_success: u64,
            activity_app_errors: u64,
            activity_infra_errors: u64,
            activity_config_errors: u64,
            activity_poison: u64,
            orch_dispatcher_items_fetched: u64,
            worker_dispatcher_items_fetched: u64,
            orch_continue_as_new: u64,
            suborchestration_calls: u64,
            provider_errors: u64,
            unregistered_orch_backoff: u64,
            unregistered_activity_backoff: u64,
        }),
    ]
    .concat()
}

fn all_limits() -> Vec<&'static str> {
    constants! {
        limits::MAX_KV_KEYS: usize = 10_000;
        limits::MAX_KV_VALUE_BYTES: usize = 1024 * 1024;
        limits::MAX_CUSTOM_STATUS_BYTES: usize = 256 * 1024;
        limits::MAX_TAG_NAME_BYTES: usize = 256;
        limits::MAX_WORKER_TAGS: usize = 5;
        limits::MAX_CARRY_FORWARD_EVENTS: usize = 100;
    }
}

//! What clients and programs see: statuses, errors, policies, and what management calls take and give.

use std::time::Duration;

use duroxide::providers::sqlite::{SqliteOptions, SqliteProvider};
use duroxide::providers::{Provider as _, ProviderError};
use duroxide::{
    AppErrorKind, BackoffStrategy, ConfigErrorKind, DeleteInstanceResult, ErrorDetails, ExecutionInfo,
    InstanceFilter, InstanceInfo, InstanceTree, OrchestrationContext, OrchestrationStatus, PoisonMessageType,
    PruneOptions, PruneResult, QueueDepths, RetryPolicy, SystemMetrics, SystemStats,
};

use crate::notation::{D, defaults, fields, methods, panic_of, says, traits, variants};
use crate::programs::{Started, block_on};

pub(crate) fn checked() -> Vec<&'static str> {
    [statuses(), errors(), categories(), texts(), policies(), delays(), managed(), results(), sqlite()]
        .concat()
}

fn statuses() -> Vec<&'static str> {
    variants!(closed OrchestrationStatus {
        NotFound,
        Running { custom_status: Option<String>, custom_status_version: u64 },
        Completed { output: String, custom_status: Option<String>, custom_status_version: u64 },
        Failed { details: ErrorDetails, custom_status: Option<String>, custom_status_version: u64 },
    })
}

fn errors() -> Vec<&'static str> {
    [
        variants!(closed ErrorDetails {
            Infrastructure { operation: String, message: String, retryable: bool },
            Configuration { kind: ConfigErrorKind, resource: String, message: Option<String> },
            Application { kind: AppErrorKind, message: String, retryable: bool },
            Poison { attempt_count: u32, max_attempts: u32, message_type: PoisonMessageType, message: String },
        }),
        methods!(ErrorDetails {
            fn category(&self) -> &'static str;
            fn is_retryable(&self) -> bool;
            fn display_message(&self) -> String;
        }),
        variants!(closed ConfigErrorKind { Nondeterminism, UnsupportedReplayVersion }),
        variants!(closed AppErrorKind { ActivityFailed, OrchestrationFailed, Panicked, Cancelled { reason: String } }),
        variants!(closed PoisonMessageType {
            Orchestration { instance: String, execution_id: u64 },
            Activity { instance: String, execution_id: u64, activity_name: String, activity_id: u64 },
            FailedDeserialization { instance: String, execution_id: u64, error: String },
        }),
        traits! {
            ErrorDetails: Clone, PartialEq;
            OrchestrationStatus: Clone, PartialEq;
        },
    ]
    .concat()
}

fn infrastructure() -> ErrorDetails {
    ErrorDetails::Infrastructure { operation: "op".to_string(), message: "away".to_string(), retryable: true }
}

fn configuration(kind: ConfigErrorKind, message: Option<&str>) -> ErrorDetails {
    ErrorDetails::Configuration { kind, resource: "O".to_string(), message: message.map(ToString::to_string) }
}

fn application(kind: AppErrorKind) -> ErrorDetails {
    ErrorDetails::Application { kind, message: "the message".to_string(), retryable: false }
}

fn poison(message_type: PoisonMessageType) -> ErrorDetails {
    ErrorDetails::Poison { attempt_count: 11, max_attempts: 10, message_type, message: String::new() }
}

fn categories() -> Vec<&'static str> {
    let inbox = PoisonMessageType::Orchestration { instance: "i".to_string(), execution_id: 1 };
    let all = [
        (infrastructure(), "infrastructure", true),
        (configuration(ConfigErrorKind::Nondeterminism, None), "configuration", false),
        (application(AppErrorKind::Panicked), "application", false),
        (poison(inbox), "poison", false),
    ];
    for (details, category, retryable) in all {
        assert_eq!((details.category(), details.is_retryable()), (category, retryable));
    }
    vec!["categories: infrastructure, configuration, application, poison"]
}

/// What `display_message` says.
fn texts() -> Vec<&'static str> {
    let instance = || "i".to_string();
    let nondeterminism = |message| configuration(ConfigErrorKind::Nondeterminism, message);
    let unsupported = configuration(ConfigErrorKind::UnsupportedReplayVersion, Some("m"));
    let cancelled = application(AppErrorKind::Cancelled { reason: "r".to_string() });
    let activity = PoisonMessageType::Activity {
        instance: instance(),
        execution_id: 1,
        activity_name: "A".to_string(),
        activity_id: 2,
    };
    let inbox = PoisonMessageType::Orchestration { instance: instance(), execution_id: 1 };
    let undecodable = PoisonMessageType::FailedDeserialization {
        instance: instance(),
        execution_id: 1,
        error: "bad".to_string(),
    };
    let display = |item, details: ErrorDetails, expected: &str| {
        assert_eq!(details.display_message(), expected, "{item}");
        item
    };
    vec![
        display("text: infrastructure:{operation}: {message}", infrastructure(), "infrastructure:op: away"),
        display("text: nondeterministic: {message}", nondeterminism(Some("m")), "nondeterministic: m"),
        display("text: nondeterministic in {resource}", nondeterminism(None), "nondeterministic in O"),
        display("text: unsupported replay version: {message}", unsupported, "unsupported replay version: m"),
        display("text: canceled: {reason}", cancelled, "canceled: r"),
        display(
            "text: orchestration panicked: {message}",
            application(AppErrorKind::Panicked),
            "orchestration panicked: the message",
        ),
        display(
            "text: other application errors are the message itself",
            application(AppErrorKind::OrchestrationFailed),
            "the message",
        ),
        display(
            "text: poison: orchestration {instance} exceeded {n} attempts (max {m})",
            poison(inbox),
            "poison: orchestration i exceeded 11 attempts (max 10)",
        ),
        display(
            "text: poison: activity {name}#{id} exceeded {n} attempts (max {m})",
            poison(activity),
            "poison: activity A#2 exceeded 11 attempts (max 10)",
        ),
        display(
            "text: poison: orchestration {instance} history deserialization failed after {n} attempts (max {m}): {error}",
            poison(undecodable),
            "poison: orchestration i history deserialization failed after 11 attempts (max 10): bad",
        ),
    ]
}

fn policies() -> Vec<&'static str> {
    let refused = panic_of(|| RetryPolicy::new(0));
    [
        fields!(RetryPolicy { max_attempts: u32, backoff: BackoffStrategy, timeout: Option<Duration> }),
        defaults!(RetryPolicy { max_attempts: 3, backoff: BackoffStrategy::default(), timeout: None }),
        methods!(RetryPolicy {
            fn new(u32) -> RetryPolicy;
            fn with_timeout(self, D) -> RetryPolicy;
            fn with_total_timeout(self, D) -> RetryPolicy;
            fn with_backoff(self, BackoffStrategy) -> RetryPolicy;
            fn delay_for_attempt(&self, u32) -> D;
        }),
        vec![says("text: max_attempts must be at least 1", &refused, "max_attempts must be at least 1")],
        variants!(closed BackoffStrategy {
            None,
            Fixed { delay: Duration },
            Linear { base: Duration, max: Duration },
            Exponential { base: Duration, multiplier: f64, max: Duration },
        }),
        traits! {
            RetryPolicy: Clone, Default;
            BackoffStrategy: Clone, Default;
        },
    ]
    .concat()
}

fn delays() -> Vec<&'static str> {
    let ms = Duration::from_millis;
    let exponential =
        BackoffStrategy::Exponential { base: ms(100), multiplier: 2.0, max: Duration::from_secs(30) };
    assert_eq!(BackoffStrategy::default(), exponential);
    let policy = RetryPolicy::new(5);
    assert_eq!(
        [1, 2, 3, 20].map(|attempt| policy.delay_for_attempt(attempt)),
        [ms(100), ms(200), ms(400), ms(30_000)]
    );
    let linear = policy.with_backoff(BackoffStrategy::Linear { base: ms(10), max: ms(25) });
    assert_eq!([1, 2, 3].map(|attempt| linear.delay_for_attempt(attempt)), [ms(10), ms(20), ms(25)]);
    vec!["BackoffStrategy::default() is Exponential{100 ms, 2.0, 30 s}", "attempts of a backoff count from 1"]
}

fn managed() -> Vec<&'static str> {
    [
        fields!(InstanceInfo {
            instance_id: String,
            orchestration_name: String,
            orchestration_version: String,
            current_execution_id: u64,
            status: String,
            output: Option<String>,
            created_at: u64,
            updated_at: u64,
            parent_instance_id: Option<String>,
        }),
        fields!(ExecutionInfo {
            execution_id: u64,
            status: String,
            output: Option<String>,
            started_at: u64,
            completed_at: Option<u64>,
            event_count: usize,
        }),
        fields!(SystemMetrics {
            total_instances: u64,
            total_executions: u64,
            running_instances: u64,
            completed_instances: u64,
            failed_instances: u64,
            total_events: u64,
        }),
        fields!(QueueDepths { orchestrator_queue: usize, worker_queue: usize, timer_queue: usize }),
        fields!(SystemStats {
            history_event_count: u64,
            history_size_bytes: u64,
            queue_pending_count: u64,
            kv_user_key_count: u64,
            kv_total_value_bytes: u64,
        }),
        fields!(InstanceFilter {
            instance_ids: Option<Vec<String>>,
            completed_before: Option<u64>,
            limit: Option<u32>,
        }),
        defaults!(InstanceFilter { instance_ids: None, completed_before: None, limit: None }),
        fields!(PruneOptions { keep_last: Option<u32>, completed_before: Option<u64> }),
        defaults!(PruneOptions { keep_last: None, completed_before: None }),
        vec![bulk_limit()],
    ]
    .concat()
}

/// A bulk call without a limit takes 1,000 instances of those that there are.
fn bulk_limit() -> &'static str {
    let deleted = block_on(async {
        let started = Started::with(async |_ctx: OrchestrationContext, input: String| Ok(input)).await;
        let ids: Vec<String> = (0..=1000).map(|number| number.to_string()).collect();
        for id in &ids {
            started.start(id).await;
        }
        for id in &ids {
            started.output(id).await;
        }
        let deleted = started.client.delete_instance_bulk(InstanceFilter::default()).await;
        started.stop().await;
        deleted.expect("finished instances can be deleted").instances_deleted
    });
    assert_eq!(deleted, 1000);
    "InstanceFilter takes 1000 instances without a limit"
}

fn results() -> Vec<&'static str> {
    let alone = InstanceTree { root_id: "r".to_string(), all_ids: vec!["r".to_string()] };
    assert_eq!((alone.is_root_only(), alone.size()), (true, 1));
    [
        fields!(DeleteInstanceResult {
            instances_deleted: u64,
            executions_deleted: u64,
            events_deleted: u64,
            queue_messages_deleted: u64,
        }),
        fields!(PruneResult { instances_processed: u64, executions_deleted: u64, events_deleted: u64 }),
        fields!(InstanceTree { root_id: String, all_ids: Vec<String> }),
        methods!(InstanceTree {
            fn is_root_only(&self) -> bool;
            fn size(&self) -> usize;
        }),
    ]
    .concat()
}

fn sqlite() -> Vec<&'static str> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = |name: &str| directory.path().join(name).display().to_string();
    block_on(async {
        let urls = ["sqlite::memory:".to_string(), format!("sqlite:{}?mode=rwc", file("a.db"))];
        for url in urls.into_iter().chain([format!("sqlite:{}", file("b.db"))]) {
            let store = SqliteProvider::new(&url, Some(SqliteOptions::default())).await;
            let history = store.unwrap_or_else(|error| panic!("{url}: {error}")).read("nothing").await;
            assert_eq!(history.expect("an empty store can be read"), []);
        }
    });
    let methods = methods!(SqliteProvider {
        async fn new(&str, Option<SqliteOptions>) -> Result<SqliteProvider, ProviderError>;
        async fn new_in_memory() -> Result<SqliteProvider, ProviderError>;
        async fn new_in_memory_with_options(Option<SqliteOptions>) -> Result<SqliteProvider, ProviderError>;
    });
    let traits = traits! {
        SqliteOptions: Default;
    };
    let urls = vec!["urls: sqlite:path, sqlite:path?mode=rwc, sqlite::memory:"];
    [methods, traits, urls].concat()
}

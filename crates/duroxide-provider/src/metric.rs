//! Every metric: its name, kind, labels and meaning. Nothing is recorded past this file, and `docs/metrics.md` has the
//! same list.
//!
//! The functions give the metric of the recorder that the program has installed, with exactly its labels. Stores of
//! this repository use them too.

#[doc(hidden)]
pub use metrics::{Gauge, SharedString};

/// How a metric behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows.
    Counter,
    /// It has the value that was set last.
    Gauge,
    /// Each value is recorded.
    Histogram,
}

impl MetricKind {
    /// `counter`, `gauge` or `histogram`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// What is recorded under one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// The name that a recorder gets.
    pub name: &'static str,
    /// How it behaves.
    pub kind: MetricKind,
    /// The names of its labels, in their order.
    pub labels: &'static [&'static str],
    /// What it tells.
    pub meaning: &'static str,
}

/// Gives the recorder that the program has installed the description of every metric. Exporters show it as help.
pub fn describe() {
    for metric in METRICS {
        match metric.kind {
            MetricKind::Counter => metrics::describe_counter!(metric.name, metric.meaning),
            MetricKind::Gauge => metrics::describe_gauge!(metric.name, metric.meaning),
            MetricKind::Histogram => metrics::describe_histogram!(metric.name, metric.meaning),
        }
    }
}

/// The list, and one function for each of its lines.
macro_rules! metrics_list {
    ($($kind:ident $function:ident = $name:literal [$($label:literal: $value:ident),*] $meaning:literal;)+) => {
        /// All of them.
        pub const METRICS: &[Metric] = &[$(Metric {
            name: $name,
            kind: metrics_list!(@kind $kind),
            labels: &[$($label),*],
            meaning: $meaning,
        }),+];

        $(
            #[doc = $meaning]
            #[doc(hidden)]
            pub fn $function($($value: impl Into<SharedString>),*) -> metrics_list!(@type $kind) {
                metrics::$kind!($name $(, $label => $value.into())*)
            }
        )+
    };
    (@kind counter) => { MetricKind::Counter };
    (@kind gauge) => { MetricKind::Gauge };
    (@kind histogram) => { MetricKind::Histogram };
    (@type counter) => { metrics::Counter };
    (@type gauge) => { metrics::Gauge };
    (@type histogram) => { metrics::Histogram };
}

metrics_list! {
    counter orchestration_starts = "duroxide_orchestration_starts_total" ["orchestration_name": name]
        "Instances whose first turn was committed.";
    counter orchestration_completions = "duroxide_orchestration_completions_total" ["orchestration_name": name]
        "Instances that returned `Ok`.";
    counter orchestration_failures = "duroxide_orchestration_failures_total"
        ["category": category, "orchestration_name": name]
        "Instances that failed. `category`: `application`, `configuration`, `infrastructure` or `poison`.";
    counter orchestration_continued_as_new = "duroxide_orchestration_continued_as_new_total"
        ["orchestration_name": name]
        "Executions that continued as new.";
    histogram orchestration_duration = "duroxide_orchestration_duration_seconds"
        ["outcome": outcome, "orchestration_name": name]
        "From the start of an instance to its end, over all executions. `outcome`: `completed` or `failed`.";
    histogram turn_duration = "duroxide_turn_duration_seconds" ["orchestration_name": name]
        "From the fetch of a turn to its commit.";
    counter activity_starts = "duroxide_activity_starts_total" ["activity_name": name]
        "Calls of a handler, every attempt counted.";
    counter activity_retries = "duroxide_activity_retries_total" ["activity_name": name]
        "Calls of a handler that are not the first attempt: of a retry policy, or after a worker that died.";
    counter activity_completions = "duroxide_activity_completions_total" ["activity_name": name]
        "Activities that returned `Ok`, and whose result is in the store.";
    counter activity_failures = "duroxide_activity_failures_total" ["category": category, "activity_name": name]
        "Attempts that failed, and whose failure is in the store. `category` as for orchestrations.";
    histogram activity_duration = "duroxide_activity_duration_seconds" ["outcome": outcome, "activity_name": name]
        "How long one call of a handler took. `outcome`: `completed`, `failed`, `panicked`, `timed_out`, `cancelled` \
         (cancelled, or its lock passed to another worker) or `given_back` (the runtime shut down).";
    histogram activity_attempts = "duroxide_activity_attempts" ["activity_name": name]
        "How many attempts an activity took that returned `Ok`.";
    counter poison_detected = "duroxide_poison_detected_total" ["type": of]
        "Work that was attempted too often and ended as poison. `type`: `orchestration` or `activity`.";
    counter unregistered_orch_backoff = "duroxide_unregistered_orch_backoff_total" ["orchestration_name": name]
        "Turns given back because this node does not have the orchestration or its version.";
    counter unregistered_activity_backoff = "duroxide_unregistered_activity_backoff_total" ["activity_name": name]
        "Activities given back because this node does not have their handler.";
    counter incompatible_version_abandoned = "duroxide.orchestration.incompatible_version_abandoned" []
        "Turns given back because the execution is pinned to a version that this node does not replay.";
    counter nondeterminism_handed_back = "duroxide_nondeterminism_handed_back_total" ["orchestration_name": name]
        "Turns given back because the code here does not fit the history (`OnNondeterminism::HandBack`).";
    counter messages_dropped = "duroxide_messages_dropped_total" ["reason": reason]
        "Messages without effect. `reason`: in the store `unknown_instance`, `finished_instance` or `expired`; in a \
         turn `stale_execution`, `duplicate`, `cancelled`, `already_started`, `after_end` or `wrong_queue`.";
    counter messages_set_aside = "duroxide_messages_set_aside_total" []
        "Stored messages that do not decode and were set aside.";
    counter client_calls_without_effect = "duroxide_client_calls_without_effect_total" ["call": call, "reason": reason]
        "Calls of a client that were `Ok` and changed nothing. `call`: `start_orchestration`, `raise_event`, \
         `enqueue_event` or `cancel_instance`; `reason`: `other_orchestration`, `other_input`, `not_found` or `ended`.";
    counter redriven = "duroxide_redriven_total" []
        "Instances that a client redrove, children included.";
    counter repaired = "duroxide_repaired_total" []
        "Activities, timers and results that a repair put back.";
    counter retention_instances_deleted = "duroxide_retention_instances_deleted_total" []
        "Instances that retention deleted.";
    counter retention_executions_pruned = "duroxide_retention_executions_pruned_total" []
        "Executions that retention pruned.";
    gauge queue_depth = "duroxide_queue_depth" ["queue": queue]
        "What waits. `queue`: `orchestrator` (messages), `worker` (activities) or `timer`.";
    gauge oldest_ready_age = "duroxide_oldest_ready_age_seconds" ["queue": queue]
        "How long the oldest ready item waits. `queue`: `orchestrator` or `worker`.";
    gauge filtered_out_instances = "duroxide_filtered_out_instances" ["pinned_version": version]
        "Ready instances that this node does not get because of the version they are pinned to.";
    gauge unprocessable_work = "duroxide_unprocessable_work"
        ["kind": kind, "name": name, "version": version, "pinned_version": pinned, "tag": tag]
        "Waiting work that no live node can process. `kind`: `orchestration` or `activity`; labels that do not apply \
         are empty.";
    gauge health_findings = "duroxide_health_findings" ["kind": kind]
        "Findings of the last health check, by the word of their `FindingKind`.";
    gauge store_latency = "duroxide_store_latency_seconds" []
        "How long the store took to answer a small question of the last health check.";
    counter store_calls = "duroxide_store_calls_total" []
        "Calls that SQLite or PostgreSQL carried out in group commits.";
    counter store_commits = "duroxide_store_commits_total" []
        "Transactions of those calls that wrote. Calls divided by commits is the size of a group.";
    counter store_conflicts = "duroxide_store_conflicts_total" []
        "Transactions of PostgreSQL that were carried out again because another was in their way.";
}

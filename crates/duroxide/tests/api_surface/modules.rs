//! Modules, re-exports and features.

use duroxide::{providers, runtime};

use crate::notation::{constants, exactly, methods, paths, same};

pub(crate) fn checked() -> Vec<&'static str> {
    [modules(), root(), one_type_each(), functions(), features()].concat()
}

fn modules() -> Vec<&'static str> {
    paths! {
        duroxide::providers::Provider;
        duroxide::providers::ProviderAdmin;
        duroxide::providers::ProviderError;
        duroxide::providers::WorkItem;
        duroxide::providers::OrchestrationItem;
        duroxide::providers::ExecutionMetadata;
        duroxide::providers::KvEntry;
        duroxide::providers::TagFilter;
        duroxide::providers::SessionFetchConfig;
        duroxide::providers::ScheduledActivityIdentifier;
        duroxide::providers::DispatcherCapabilityFilter;
        duroxide::providers::SemverRange;
        duroxide::providers::error::ProviderError;
        duroxide::providers::management::InstanceInfo;
        duroxide::providers::management::ExecutionInfo;
        duroxide::providers::management::SystemMetrics;
        duroxide::providers::management::QueueDepths;
        duroxide::providers::management::SystemStats;
        duroxide::providers::management::InstanceFilter;
        duroxide::providers::management::PruneOptions;
        duroxide::providers::management::PruneResult;
        duroxide::providers::management::DeleteInstanceResult;
        duroxide::providers::management::InstanceTree;
        duroxide::providers::sqlite::SqliteProvider;
        duroxide::providers::sqlite::SqliteOptions;
        duroxide::runtime::Runtime;
        duroxide::runtime::RuntimeOptions;
        duroxide::runtime::UnregisteredBackoffConfig;
        duroxide::runtime::ObservabilityConfig;
        duroxide::runtime::LogFormat;
        duroxide::runtime::OrchestrationStatus;
        duroxide::runtime::OrchestrationDescriptor;
        duroxide::runtime::VersionPolicy;
        duroxide::runtime::limits;
        duroxide::runtime::observability::MetricsSnapshot;
        duroxide::runtime::observability::init_logging;
        duroxide::runtime::registry::OrchestrationRegistry;
        duroxide::runtime::registry::ActivityRegistry;
        duroxide::runtime::registry::OrchestrationRegistryBuilder;
        duroxide::runtime::registry::ActivityRegistryBuilder;
        duroxide::runtime::registry::VersionPolicy;
        duroxide::runtime::registry::Registry;
        duroxide::runtime::registry::ActivityHandler;
        duroxide::provider_validation::ProviderFactory;
    }
}

fn root() -> Vec<&'static str> {
    paths! {
        duroxide::Client;
        duroxide::ClientError;
        duroxide::OrchestrationContext;
        duroxide::ActivityContext;
        duroxide::DurableFuture;
        duroxide::Either2;
        duroxide::Either3;
        duroxide::OrchestrationRegistry;
        duroxide::OrchestrationStatus;
        duroxide::RuntimeOptions;
        duroxide::ErrorDetails;
        duroxide::AppErrorKind;
        duroxide::ConfigErrorKind;
        duroxide::PoisonMessageType;
        duroxide::Event;
        duroxide::EventKind;
        duroxide::RetryPolicy;
        duroxide::BackoffStrategy;
        duroxide::TagFilter;
        duroxide::SemverRange;
        duroxide::DispatcherCapabilityFilter;
        duroxide::current_build_version;
        duroxide::InstanceInfo;
        duroxide::ExecutionInfo;
        duroxide::SystemMetrics;
        duroxide::QueueDepths;
        duroxide::SystemStats;
        duroxide::InstanceFilter;
        duroxide::PruneOptions;
        duroxide::PruneResult;
        duroxide::DeleteInstanceResult;
        duroxide::InstanceTree;
        duroxide::OrchestrationHandler;
        duroxide::OrchestrationDescriptor;
        duroxide::OrchestrationRegistryBuilder;
        duroxide::ProviderAdmin;
        duroxide::ScheduledActivityIdentifier;
        duroxide::SessionFetchConfig;
        duroxide::ProviderRef;
    }
}

/// A program that takes a type from one path may hand it to one that takes it from another.
fn one_type_each() -> Vec<&'static str> {
    same! {
        runtime::OrchestrationStatus = duroxide::OrchestrationStatus;
        runtime::OrchestrationDescriptor = duroxide::OrchestrationDescriptor;
        runtime::RuntimeOptions = duroxide::RuntimeOptions;
        runtime::VersionPolicy = runtime::registry::VersionPolicy;
        runtime::registry::OrchestrationRegistry = duroxide::OrchestrationRegistry;
        runtime::registry::OrchestrationRegistryBuilder = duroxide::OrchestrationRegistryBuilder;
        runtime::registry::Registry<dyn duroxide::OrchestrationHandler> = duroxide::OrchestrationRegistry;
        runtime::registry::Registry<dyn runtime::registry::ActivityHandler> = runtime::registry::ActivityRegistry;
        providers::TagFilter = duroxide::TagFilter;
        providers::SemverRange = duroxide::SemverRange;
        providers::DispatcherCapabilityFilter = duroxide::DispatcherCapabilityFilter;
        providers::ScheduledActivityIdentifier = duroxide::ScheduledActivityIdentifier;
        providers::SessionFetchConfig = duroxide::SessionFetchConfig;
        providers::ProviderError = providers::error::ProviderError;
        providers::management::InstanceInfo = duroxide::InstanceInfo;
        providers::management::ExecutionInfo = duroxide::ExecutionInfo;
        providers::management::SystemMetrics = duroxide::SystemMetrics;
        providers::management::QueueDepths = duroxide::QueueDepths;
        providers::management::SystemStats = duroxide::SystemStats;
        providers::management::InstanceFilter = duroxide::InstanceFilter;
        providers::management::PruneOptions = duroxide::PruneOptions;
        providers::management::PruneResult = duroxide::PruneResult;
        providers::management::DeleteInstanceResult = duroxide::DeleteInstanceResult;
        providers::management::InstanceTree = duroxide::InstanceTree;
        std::sync::Arc<dyn providers::Provider> = duroxide::ProviderRef;
    }
}

fn functions() -> Vec<&'static str> {
    const _: fn() -> semver::Version = duroxide::current_build_version;
    const _: fn(&str) -> bool = duroxide::is_auto_generated_sub_orch_id;
    const _: fn(&str, &str) -> String = duroxide::build_child_instance_id;
    assert!(duroxide::is_auto_generated_sub_orch_id("sub::2"));
    assert!(duroxide::is_auto_generated_sub_orch_id("parent::sub::2"));
    assert!(!duroxide::is_auto_generated_sub_orch_id("order-2"));
    assert_eq!(duroxide::build_child_instance_id("parent", "sub::2"), "parent::sub::2");
    assert_eq!(duroxide::build_child_instance_id("parent", "own"), "own");
    exactly::<semver::Version>(duroxide::current_build_version());
    let constants = constants! {
        duroxide::INITIAL_EXECUTION_ID: u64 = 1;
        duroxide::INITIAL_EVENT_ID: u64 = 1;
        duroxide::SUB_ORCH_AUTO_PREFIX: &str = "sub::";
    };
    let handler = methods!(dyn duroxide::OrchestrationHandler {
        async fn invoke(&self, duroxide::OrchestrationContext, String) -> Result<String, String>;
    });
    let functions = vec![
        "duroxide::current_build_version() -> semver::Version",
        "duroxide::is_auto_generated_sub_orch_id(&str) -> bool",
        "duroxide::build_child_instance_id(&str, &str) -> String",
    ];
    [constants, handler, functions].concat()
}

/// The features, as the package declares them.
fn features() -> Vec<&'static str> {
    let manifest = include_str!("../../Cargo.toml");
    let declared: Vec<&str> = manifest
        .lines()
        .skip_while(|line| *line != "[features]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter(|line| line.contains(" = "))
        .collect();
    for feature in ["sqlite", "provider-test", "test-hooks", "test", "replay-version-test"] {
        assert!(declared.iter().any(|line| line.starts_with(&format!("{feature} = "))), "{feature}");
    }
    let default = declared.iter().find(|line| line.starts_with("default = ")).expect("default features");
    assert!(default.contains(r#""sqlite""#), "{default}");
    // `init_logging` is part of the API.
    assert!(default.contains(r#""logging""#), "{default}");
    assert!(declared.contains(&r#"test = ["provider-test", "test-hooks"]"#), "{declared:?}");
    vec![
        "feature sqlite, default",
        "feature provider-test",
        "feature test-hooks",
        "feature test = provider-test, test-hooks",
        "feature replay-version-test",
    ]
}

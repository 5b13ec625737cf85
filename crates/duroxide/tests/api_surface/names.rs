//! Every name that the root, the prelude and the test kit export: what is added there without a line in the list fails, and
//! what is taken away does not compile.

use std::collections::BTreeSet;

use crate::list::items;
use crate::notation::paths;

pub(crate) fn checked() -> Vec<&'static str> {
    [root(), prelude(), kit()].concat()
}

/// What is at the root besides the names of the section `Modules`.
fn root() -> Vec<&'static str> {
    paths! {
        duroxide::AcceptedTags;
        duroxide::AppError;
        duroxide::BounceCause;
        duroxide::Builder;
        duroxide::Call;
        duroxide::CallError;
        duroxide::CancelPolicy;
        duroxide::Cancellable;
        duroxide::Cancelled;
        duroxide::CapabilityRouting;
        duroxide::Child;
        duroxide::CompensationFailed;
        duroxide::ContinueAs;
        duroxide::ContinuedAsNew;
        duroxide::Cursor;
        duroxide::Duroxide;
        duroxide::Elapsed;
        duroxide::EventName;
        duroxide::Failure;
        duroxide::FailureKind;
        duroxide::Finding;
        duroxide::FindingKind;
        duroxide::FunctionName;
        duroxide::FunctionNames;
        duroxide::HandlerError;
        duroxide::Handlers;
        duroxide::HealthOptions;
        duroxide::HealthReport;
        duroxide::HeartbeatError;
        duroxide::InstancePage;
        duroxide::InstanceQuery;
        duroxide::JoinAll;
        duroxide::Logger;
        duroxide::MalformedPayload;
        duroxide::MissingCapability;
        duroxide::Need;
        duroxide::NodeInfo;
        duroxide::NodeRecord;
        duroxide::OpenError;
        duroxide::QueueName;
        duroxide::RecordedFailure;
        duroxide::RecordedHistory;
        duroxide::RedriveBulkResult;
        duroxide::RedriveResult;
        duroxide::ReplayError;
        duroxide::RetriedActivity;
        duroxide::Run;
        duroxide::RunError;
        duroxide::Saga;
        duroxide::SagaStep;
        duroxide::SendOutcome;
        duroxide::StartError;
        duroxide::StartOutcome;
        duroxide::TryJoinAll;
        duroxide::UnprocessableWork;
        duroxide::WaitingByTag;
        duroxide::activity;
        duroxide::backup_store;
        duroxide::clock;
        duroxide::inspect_store;
        duroxide::metric;
        duroxide::open_store;
        duroxide::open_store_with;
        duroxide::orchestration;
        duroxide::provider_validation_tests;
        duroxide::test;
        duroxide::Result;
    }
}

/// The prelude.
fn prelude() -> Vec<&'static str> {
    paths! {
        duroxide::prelude::ActivityContext;
        duroxide::prelude::BackoffStrategy;
        duroxide::prelude::Call;
        duroxide::prelude::CallError;
        duroxide::prelude::Cancelled;
        duroxide::prelude::Child;
        duroxide::prelude::DurableFuture;
        duroxide::prelude::Duration;
        duroxide::prelude::Duroxide;
        duroxide::prelude::Elapsed;
        duroxide::prelude::EventName;
        duroxide::prelude::Failure;
        duroxide::prelude::MalformedPayload;
        duroxide::prelude::OpenError;
        duroxide::prelude::OrchestrationContext;
        duroxide::prelude::QueueName;
        duroxide::prelude::Result;
        duroxide::prelude::RetryPolicy;
        duroxide::prelude::Run;
        duroxide::prelude::RunError;
        duroxide::prelude::RuntimeOptions;
        duroxide::prelude::Saga;
        duroxide::prelude::SendOutcome;
        duroxide::prelude::StartError;
        duroxide::prelude::TestEnv;
        duroxide::prelude::TestRun;
    }
}

/// The test kit, and the store that fails as told.
fn kit() -> Vec<&'static str> {
    paths! {
        duroxide::testing::Called;
        duroxide::testing::Fault;
        duroxide::testing::FaultProvider;
        duroxide::testing::FaultRates;
        duroxide::testing::FaultSource;
        duroxide::testing::FrozeWhen;
        duroxide::testing::GivenBack;
        duroxide::testing::Line;
        duroxide::testing::Method;
        duroxide::testing::Mockable;
        duroxide::testing::Observer;
        duroxide::testing::ReplayError;
        duroxide::testing::SeededFaults;
        duroxide::testing::SteppedClock;
        duroxide::testing::TestEnv;
        duroxide::testing::TestOutcome;
        duroxide::testing::TestRun;
        duroxide::testing::replay;
        duroxide::testing::replay_dir;
        duroxide::testing::run_test;
        duroxide::testing::run_test_with;
    }
}

/// The names that a module exports, from its source. What no program names is hidden.
fn exported(source: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut rest = source.split("#[cfg(doctest)]").next().unwrap_or_default();
    while let Some(at) = rest.find("\npub use ") {
        let hidden = rest[..at].ends_with("#[doc(hidden)]");
        let after = &rest[at + "\npub use ".len()..];
        let end = after.find(';').expect("a use ends");
        let path = &after[..end];
        let last = match path.split_once('{') {
            Some((_, several)) => several.trim_end_matches('}').to_string(),
            None => path.rsplit("::").next().unwrap_or_default().to_string(),
        };
        if !hidden {
            names.extend(last.split(',').map(|name| name.trim().to_string()).filter(|name| !name.is_empty()));
        }
        rest = &after[end..];
    }
    assert!(names.len() > 10, "the source is read: {names:?}");
    names
}

/// These have an example where they are defined.
const DOCUMENTED_AT_HOME: [&str; 2] = ["Duroxide", "TestEnv"];

#[test]
fn every_name_of_the_prelude_has_an_example() {
    let source = include_str!("../../src/prelude.rs");
    for part in source.split_inclusive("pub use ").zip(source.split("pub use ").skip(1)) {
        let (before, after) = part;
        let name = after.split(';').next().and_then(|path| path.rsplit("::").next()).unwrap_or_default();
        let has_example = before.contains("/// ```\n/// use duroxide::prelude::*;\n");
        assert!(has_example || DOCUMENTED_AT_HOME.contains(&name), "prelude::{name} has no example");
    }
}

#[test]
fn the_root_describes_every_feature() {
    let manifest = include_str!("../../Cargo.toml");
    let declared = manifest.lines().skip_while(|line| *line != "[features]").skip(1);
    let declared =
        declared.take_while(|line| !line.starts_with('[')).filter_map(|line| line.split_once(" = "));
    let root = include_str!("../../src/lib.rs");
    for (feature, _) in declared.filter(|(feature, _)| *feature != "default") {
        let row = root.lines().find(|line| line.starts_with(&format!("//! | `{feature}`")));
        let row = row.unwrap_or_else(|| panic!("feature {feature} is not in the table of the crate root"));
        let is_default = manifest
            .lines()
            .any(|line| line.starts_with("default = ") && line.contains(&format!("\"{feature}\"")));
        assert_eq!(row.contains(", default |"), is_default, "{row}");
    }
}

#[test]
fn every_exported_name_is_in_the_list() {
    let listed: BTreeSet<&str> = items("Modules").chain(items("Names")).collect();
    let modules = [
        ("duroxide", include_str!("../../src/lib.rs")),
        ("duroxide::prelude", include_str!("../../src/prelude.rs")),
        ("duroxide::testing", include_str!("../../src/testing/mod.rs")),
    ];
    let mut missing = Vec::new();
    for (module, source) in modules {
        let of_module = exported(source).into_iter().map(|name| format!("{module}::{name}"));
        missing.extend(of_module.filter(|path| {
            let is_here = |item: &&str| {
                item.strip_prefix(path.as_str()).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
            };
            !listed.iter().any(is_here)
        }));
    }
    assert!(missing.is_empty(), "not in list.txt:\n{}", missing.join("\n"));
}

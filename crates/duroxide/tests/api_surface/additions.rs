//! What 1.2.0 adds to the text style.

use std::sync::Arc;

use duroxide::runtime::registry::{ActivityHandler, ActivityRegistryBuilder};
use duroxide::runtime::{ForeignWakes, OnNondeterminism, VerifyReplay};
use duroxide::{
    CancelPolicy, CapabilityRouting, Client, ClientError, ErrorDetails, FailureKind, HandlerError,
    OrchestrationHandler, OrchestrationRegistryBuilder, RecordedFailure, RetriedActivity, RuntimeOptions,
};

use crate::notation::{D, S, defaults, fields, methods, variants};

pub(crate) fn checked() -> Vec<&'static str> {
    [handlers(), options(), failures(), features()].concat()
}

fn handlers() -> Vec<&'static str> {
    [
        methods!(RetriedActivity<u8> {
            fn with_tag(self, S) -> RetriedActivity<u8>;
            fn with_schedule_to_start(self, D) -> RetriedActivity<u8>;
            fn with_start_to_close(self, D) -> RetriedActivity<u8>;
            fn retry_timeouts(self) -> RetriedActivity<u8>;
        }),
        methods!(ActivityRegistryBuilder {
            fn register_handler(self, S, Arc<dyn ActivityHandler>) -> ActivityRegistryBuilder;
        }),
        methods!(OrchestrationRegistryBuilder {
            fn register_handler(self, S, semver::Version, Arc<dyn OrchestrationHandler>) -> OrchestrationRegistryBuilder;
        }),
        methods!(dyn OrchestrationHandler {
            async fn run(&self, duroxide::OrchestrationContext, String) -> Result<String, HandlerError>;
            fn cancel_policy(&self) -> Option<CancelPolicy>;
        }),
        fields!(CancelPolicy { compensate_within: D }),
        fields!(HandlerError { message: String, error: Option<String> }),
    ]
    .concat()
}

fn options() -> Vec<&'static str> {
    [
        fields!(RuntimeOptions {
            foreign_wakes: ForeignWakes,
            verify_replay: VerifyReplay,
            on_nondeterminism: OnNondeterminism,
            capability_routing: CapabilityRouting,
            ..
        }),
        defaults!(RuntimeOptions {
            foreign_wakes: ForeignWakes::Ignore,
            verify_replay: VerifyReplay::Never,
            on_nondeterminism: OnNondeterminism::Fail,
        }),
        variants!(open ForeignWakes { Ignore, Fail }),
        variants!(open VerifyReplay { Never, Debug, Always }),
        variants!(open OnNondeterminism { Fail, HandBack }),
    ]
    .concat()
}

fn failures() -> Vec<&'static str> {
    [
        methods!(Client {
            async fn get_failure(&self, &str) -> Result<Option<RecordedFailure>, ClientError>;
        }),
        fields!(RecordedFailure { details: ErrorDetails, error: Option<String> }),
        variants!(open FailureKind { App, TimedOut, Cancelled, Panicked, Poisoned, Other }),
    ]
    .concat()
}

/// The features, as the package declares them.
fn features() -> Vec<&'static str> {
    let manifest = include_str!("../../Cargo.toml");
    for declared in [
        "default = [\"sqlite\", \"macros\", \"logging\"]",
        "postgres = [\"dep:duroxide-postgres\"]",
        "macros = [\"dep:duroxide-macros\", \"dep:inventory\"]",
        "logging = [\"dep:tracing-subscriber\"]",
        "testing = [\"test-hooks\", \"tokio/test-util\"]",
    ] {
        assert!(manifest.lines().any(|line| line == declared), "{declared}");
    }
    vec!["feature macros, default", "feature logging, default", "feature postgres", "feature testing"]
}

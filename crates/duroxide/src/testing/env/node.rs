//! The node of an environment: its options, its start, its end.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::CapabilityRouting;

use super::watched::Watched;
use super::watched_handlers::watched_registries;
use crate::app::Handlers;
use crate::providers::TagFilter;
use crate::runtime::process::ProcessScope;
use crate::runtime::{ObservabilityConfig, OnNondeterminism, Runtime, RuntimeOptions};
use crate::testing::FaultProvider;

/// Longer than any test lasts, in virtual time as well: what has this interval does not happen.
const NEVER: Duration = Duration::from_secs(10 * 365 * 86_400);

/// A node that dies when it is dropped.
pub(super) struct Node {
    runtime: Arc<Runtime>,
}

impl Node {
    pub(super) async fn start(
        handlers: &Arc<Handlers>,
        watched: &Arc<Watched>,
        store: Arc<FaultProvider>,
        options: RuntimeOptions,
    ) -> Self {
        let (activities, orchestrations) = watched_registries(handlers, watched);
        Self { runtime: Runtime::start_with_options(store, activities, orchestrations, options).await }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.runtime.kill();
    }
}

/// The program's options without anything that ticks. The node fetches whatever there is, so that a handler that is missing is
/// noticed, and a program that does not fit its history fails at once.
pub(super) fn quiet(options: RuntimeOptions, seed: u64) -> RuntimeOptions {
    RuntimeOptions {
        dispatcher_long_poll_timeout: NEVER,
        node_heartbeat_interval: NEVER,
        session_cleanup_interval: NEVER,
        observability: ObservabilityConfig { gauge_poll_interval: Duration::ZERO, ..options.observability },
        capability_routing: CapabilityRouting::ReplayVersion,
        worker_tag_filter: TagFilter::Any,
        on_nondeterminism: OnNondeterminism::Fail,
        health: None,
        sweeper: None,
        retention: None,
        process: ProcessScope::simulated(seed),
        ..options
    }
}

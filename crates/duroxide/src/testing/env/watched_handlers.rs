//! Handlers that are recorded and can be replaced while the test runs.

use std::sync::Arc;

use async_trait::async_trait;
use duroxide_core::{CancelPolicy, FunctionNames, HandlerError, OrchestrationContext, OrchestrationHandler};

use super::mocks::AnyMock;
use super::watched::{HandlerId, Place, Recorded, Watched, execution_of};
use crate::app::Handlers;
use crate::runtime::ActivityContext;
use crate::runtime::registry::{ActivityHandler, ActivityRegistry, OrchestrationRegistry};
use duroxide_provider::drop_after::drop_after;

/// The registries of an environment: every handler of the program, and every function that is only declared.
pub(super) fn watched_registries(
    handlers: &Arc<Handlers>,
    watched: &Arc<Watched>,
) -> (ActivityRegistry, OrchestrationRegistry) {
    let mut activities = ActivityRegistry::builder();
    let declared = handlers.names.activities().map(|named| named.name.to_string());
    let mut names: Vec<String> = handlers.activities.list_names().into_iter().chain(declared).collect();
    names.sort();
    names.dedup();
    for name in names {
        let inner = handlers.activities.resolve_handler(&name).map(|(_, handler)| handler);
        let handler = WatchedActivity {
            id: HandlerId::activity(&name),
            inner,
            watched: watched.clone(),
            handlers: handlers.clone(),
        };
        activities = activities.register_handler(name, Arc::new(handler));
    }
    let mut orchestrations = OrchestrationRegistry::builder();
    let declared = handlers.names.orchestrations().filter_map(|named| {
        let version = named.version.as_ref()?.parse().ok()?;
        Some((named.name.to_string(), version))
    });
    let registered = handlers.orchestrations.list_names().into_iter().flat_map(|name| {
        let versions = handlers.orchestrations.list_versions(&name);
        versions.into_iter().map(move |version| (name.clone(), version))
    });
    let mut all: Vec<(String, semver::Version)> = registered.chain(declared).collect();
    all.sort();
    all.dedup();
    for (name, version) in all {
        let handler = watched_orchestration(handlers, watched, &name, &version, Recording::On);
        orchestrations = orchestrations.register_handler(name, version, Arc::new(handler));
    }
    (activities.build(), orchestrations.build())
}

/// One orchestration of an environment.
pub(super) fn watched_orchestration(
    handlers: &Arc<Handlers>,
    watched: &Arc<Watched>,
    name: &str,
    version: &semver::Version,
    recording: Recording,
) -> WatchedOrchestration {
    WatchedOrchestration {
        id: HandlerId::orchestration(name, &version.to_string()),
        inner: handlers.orchestrations.resolve_handler_exact(name, version),
        watched: watched.clone(),
        names: handlers.names.clone(),
        recording,
    }
}

/// Whether an orchestration's executions count as calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recording {
    On,
    /// It is replayed to be checked.
    Off,
}

fn only_declared(watched: &Watched, id: &HandlerId) -> String {
    let text = format!("'{}' is only declared here: give it a mock with env.mock(..)", id.name);
    watched.fail(text.clone());
    text
}

struct WatchedActivity {
    id: HandlerId,
    /// `None` if it is only declared.
    inner: Option<Arc<dyn ActivityHandler>>,
    watched: Arc<Watched>,
    handlers: Arc<Handlers>,
}

impl WatchedActivity {
    async fn answer(&self, ctx: ActivityContext, input: String) -> Result<String, HandlerError> {
        let place = Place {
            instance: ctx.instance_id().to_string(),
            execution_id: ctx.execution_id(),
            activity_id: ctx.activity_id(),
        };
        match (self.watched.mock(&self.id), &self.inner) {
            (Some(AnyMock::Activity(mock)), _) => {
                let answer = mock.run(self.handlers.with_states(ctx), input).await;
                answer.map_err(|failure| self.watched.failed(place, failure))
            }
            (Some(AnyMock::Orchestration(_)) | None, Some(inner)) => inner.run(ctx, input).await,
            (Some(AnyMock::Orchestration(_)) | None, None) => {
                Err(only_declared(&self.watched, &self.id).into())
            }
        }
    }
}

#[async_trait]
impl ActivityHandler for WatchedActivity {
    async fn invoke(&self, ctx: ActivityContext, input: String) -> Result<String, String> {
        self.run(ctx, input).await.map_err(|error| error.message)
    }

    async fn run(&self, ctx: ActivityContext, input: String) -> Result<String, HandlerError> {
        let _running = self.watched.begin();
        self.watched.record(Recorded {
            handler: self.id.clone(),
            input: input.clone(),
            instance: ctx.instance_id().to_string(),
            attempt: ctx.attempt(),
            idempotency_key: ctx.idempotency_key(),
        });
        let answer = self.answer(ctx, input);
        let Some(polls) = self.watched.deck.as_ref().and_then(|deck| deck.dies_in_handler()) else {
            return answer.await;
        };
        // Whatever the handler has done by then, nothing of it is reported.
        drop(drop_after(polls, answer).await);
        self.watched.kill_node();
        std::future::pending().await
    }

    fn records_panics(&self) -> bool {
        self.inner.as_ref().is_none_or(|inner| inner.records_panics())
    }
}

pub(super) struct WatchedOrchestration {
    id: HandlerId,
    inner: Option<Arc<dyn OrchestrationHandler>>,
    watched: Arc<Watched>,
    names: Arc<FunctionNames>,
    recording: Recording,
}

#[async_trait]
impl OrchestrationHandler for WatchedOrchestration {
    async fn invoke(&self, ctx: OrchestrationContext, input: String) -> Result<String, String> {
        self.run(ctx, input).await.map_err(|error| error.message)
    }

    async fn run(&self, ctx: OrchestrationContext, input: String) -> Result<String, HandlerError> {
        let place = execution_of(&ctx.instance_id(), ctx.execution_id());
        if self.recording == Recording::On {
            let call = Recorded {
                handler: self.id.clone(),
                input: input.clone(),
                instance: place.instance.clone(),
                attempt: 1,
                idempotency_key: format!("{}:{}", place.instance, place.execution_id),
            };
            self.watched.record_once(place.clone(), call);
        }
        let instance = place.instance.clone();
        let output = match (self.watched.mock(&self.id), &self.inner) {
            (Some(AnyMock::Orchestration(mock)), _) => {
                mock.run(ctx, input).await.map_err(|failure| self.watched.failed(place, failure))
            }
            (Some(AnyMock::Activity(_)) | None, Some(inner)) => inner.run(ctx, input).await,
            (Some(AnyMock::Activity(_)) | None, None) => Err(only_declared(&self.watched, &self.id).into()),
        };
        if self.recording == Recording::On {
            self.watched.returned(&instance);
        }
        output
    }

    fn cancel_policy(&self) -> Option<CancelPolicy> {
        self.inner.as_ref().and_then(|inner| inner.cancel_policy())
    }

    fn function_names(&self) -> Option<Arc<FunctionNames>> {
        Some(self.names.clone())
    }
}

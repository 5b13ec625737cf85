//! Hello world and a chain of activities, written in both styles. They do the same, with the same values.

use std::sync::Arc;

use duroxide::prelude::*;
use duroxide::providers::Provider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{Builder, Client, OrchestrationRegistry, OrchestrationStatus};

use crate::floor::Failure;
use crate::floor::store::PATIENCE;

/// What the steps of the chain hand on.
const STEP: &str = "step";

/// How a program is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Handlers by name, with text in and out.
    Text,
    /// Functions with attributes, called by themselves.
    Typed,
}

/// What a program does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// Many instances with one activity each, one after the other.
    Hello,
    /// One instance with many activities, one after the other.
    Chain,
}

impl Style {
    pub(crate) const ALL: [Self; 2] = [Self::Text, Self::Typed];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Typed => "typed",
        }
    }
}

impl Program {
    pub(crate) const ALL: [Self; 2] = [Self::Hello, Self::Chain];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hello => "hello",
            Self::Chain => "chain",
        }
    }
}

#[duroxide::activity]
async fn greet(_ctx: ActivityContext, name: String) -> Result<String> {
    Ok(format!("Hello, {name}!"))
}

#[duroxide::activity]
async fn echo(_ctx: ActivityContext, text: String) -> Result<String> {
    Ok(text)
}

#[duroxide::orchestration]
async fn hello(ctx: OrchestrationContext, name: String) -> Result<String> {
    Ok(ctx.call(greet, name).await?)
}

#[duroxide::orchestration]
async fn chain(ctx: OrchestrationContext, steps: usize) -> Result<usize> {
    for _ in 0..steps {
        ctx.call(echo, STEP.to_string()).await?;
    }
    Ok(steps)
}

fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("greet", |_ctx: ActivityContext, name: String| async move { Ok(format!("Hello, {name}!")) })
        .register("echo", |_ctx: ActivityContext, text: String| async move { Ok(text) })
        .build()
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("hello", |ctx: OrchestrationContext, name: String| async move {
            ctx.schedule_activity("greet", name).await
        })
        .register("chain", |ctx: OrchestrationContext, steps: String| async move {
            for _ in 0..steps.parse::<usize>().map_err(|cause| cause.to_string())? {
                ctx.schedule_activity("echo", STEP).await?;
            }
            Ok(steps)
        })
        .build()
}

/// A node with the handlers of one style, and its client.
pub(crate) enum Node {
    Text { runtime: Arc<Runtime>, client: Client },
    Typed(Duroxide),
}

impl Node {
    pub(crate) async fn start(style: Style, store: Arc<dyn Provider>) -> Result<Self, Failure> {
        Ok(match style {
            Style::Text => {
                let client = Client::new(store.clone());
                let runtime = Runtime::start_with_store(store, activities(), orchestrations()).await;
                Self::Text { runtime, client }
            }
            Style::Typed => Self::Typed(Builder::on_store(store).start().await?),
        })
    }

    /// Starts one hello world and waits for its greeting.
    pub(crate) async fn hello(&self, instance: &str) -> Result<(), Failure> {
        let greeting = match self {
            Self::Text { client, .. } => run_text(client, instance, "hello", "world").await?,
            Self::Typed(app) => app.run(hello, instance, "world".to_string()).await?,
        };
        check(instance, &greeting, "Hello, world!")
    }

    /// Starts a chain and waits for its end.
    pub(crate) async fn chain(&self, instance: &str, steps: usize) -> Result<(), Failure> {
        let done = match self {
            Self::Text { client, .. } => run_text(client, instance, "chain", &steps.to_string()).await?,
            Self::Typed(app) => app.run(chain, instance, steps).await?.to_string(),
        };
        check(instance, &done, &steps.to_string())
    }

    pub(crate) fn client(&self) -> &Client {
        match self {
            Self::Text { client, .. } => client,
            Self::Typed(app) => app.client(),
        }
    }

    pub(crate) async fn shutdown(self) {
        match self {
            Self::Text { runtime, .. } => runtime.shutdown(None).await,
            Self::Typed(app) => {
                if let Some(runtime) = app.runtime() {
                    runtime.clone().shutdown(None).await;
                }
            }
        }
    }
}

async fn run_text(
    client: &Client,
    instance: &str,
    orchestration: &str,
    input: &str,
) -> Result<String, Failure> {
    client.start_orchestration(instance, orchestration, input).await?;
    let status = client.wait_for_orchestration(instance, PATIENCE).await?;
    let OrchestrationStatus::Completed { output, .. } = status else {
        return Err(format!("{instance} ended as {status:?}").into());
    };
    Ok(output)
}

fn check(instance: &str, output: &str, expected: &str) -> Result<(), Failure> {
    if output == expected { Ok(()) } else { Err(format!("{instance} gave {output}").into()) }
}

//! The activities. Their results do not depend on the build; whether they hold still depends on the phase.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use duroxide::ActivityContext;
use duroxide::runtime::registry::{ActivityRegistry, ActivityRegistryBuilder};
use serde_json::Value;

use crate::shared::phase::Phase;

/// What the activities share: the phase, where they tell that they began, and how often each was tried.
#[derive(Clone)]
struct Shared {
    phase: Phase,
    begun: PathBuf,
    attempts: Arc<Mutex<BTreeMap<String, u32>>>,
}

/// The instances whose activity has begun to hold still, one per line.
pub(crate) fn begun_beside(directory: &Path) -> PathBuf {
    directory.join("begun")
}

pub(crate) fn activities(phase: Phase, directory: &Path) -> ActivityRegistry {
    let shared = Shared { phase, begun: begun_beside(directory), attempts: Arc::default() };
    let late = worked(&shared, ActivityRegistry::builder(), "LateWork", "LateWorkTyped");
    if phase == Phase::Queueing {
        return late.build();
    }
    held(&shared, worked(&shared, late, "Work", "WorkTyped"))
        .register("Note", |_ctx: ActivityContext, input: String| async move { Ok(format!("noted {input}")) })
        .register("Fails", |_ctx: ActivityContext, input: String| async move {
            Err::<String, _>(format!("no {input}"))
        })
        .register("Fuse", move |_ctx: ActivityContext, _input: String| async move {
            if phase == Phase::Broken {
                std::process::abort();
            }
            Ok("mended".to_string())
        })
        .register_typed("EchoText", |_ctx: ActivityContext, input: String| async move { Ok(input) })
        .register_typed("EchoOption", |_ctx: ActivityContext, input: Option<String>| async move { Ok(input) })
        .register_typed("EchoValue", |_ctx: ActivityContext, input: Value| async move { Ok(input) })
        .register_typed("Measure", |_ctx: ActivityContext, input: String| async move { Ok(input.len()) })
        .build()
}

/// What is tried again, plain and typed.
fn worked(
    shared: &Shared,
    builder: ActivityRegistryBuilder,
    plain: &str,
    typed: &str,
) -> ActivityRegistryBuilder {
    let (work, work_typed) = (shared.clone(), shared.clone());
    builder
        .register(plain, move |ctx: ActivityContext, input: String| {
            let shared = work.clone();
            async move { shared.work(&ctx, format!("did {input}")).await }
        })
        .register_typed(typed, move |ctx: ActivityContext, input: Option<String>| {
            let shared = work_typed.clone();
            async move { shared.work(&ctx, format!("did {input:?}")).await }
        })
}

/// What holds still, plain and typed.
fn held(shared: &Shared, builder: ActivityRegistryBuilder) -> ActivityRegistryBuilder {
    let (hold, hold_text) = (shared.clone(), shared.clone());
    builder
        .register("Hold", move |ctx: ActivityContext, input: String| {
            let shared = hold.clone();
            async move {
                shared.hold(&ctx).await;
                Ok(format!("held {input}"))
            }
        })
        .register_typed("HoldText", move |ctx: ActivityContext, input: String| {
            let shared = hold_text.clone();
            async move {
                shared.hold(&ctx).await;
                Ok(input.len())
            }
        })
}

impl Shared {
    /// What the end of the instance's id asks for: the position at which the instance shall stand.
    async fn work(&self, ctx: &ActivityContext, result: String) -> Result<String, String> {
        let position = ctx.instance_id().rsplit('-').next().unwrap_or_default();
        let attempt = self.count(ctx.instance_id());
        if self.phase == Phase::Together {
            return if attempt == 1 { Err("failure 1".to_string()) } else { Ok(result) };
        }
        let is_before = self.phase != Phase::Finishing;
        match position {
            "elapses" => std::future::pending().await,
            "exhausted" => Err(format!("failure {attempt}")),
            "first" if is_before => self.stand_still(ctx).await,
            "second" if is_before && attempt > 1 => self.stand_still(ctx).await,
            "second" | "done" | "backoff" | "queued" if is_before && attempt == 1 => {
                Err("failure 1".to_string())
            }
            _ => Ok(result),
        }
    }

    /// Holds still until the process is ended, in the phase that is interrupted.
    async fn hold(&self, ctx: &ActivityContext) {
        if self.phase == Phase::Interrupted {
            self.stand_still(ctx).await
        }
    }

    async fn stand_still<T>(&self, ctx: &ActivityContext) -> T {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&self.begun);
        let file = file.as_mut().expect("the list of begun activities opens");
        writeln!(file, "{}", ctx.instance_id()).expect("it takes a line");
        std::future::pending().await
    }

    /// How often this instance's activity was tried in this process.
    fn count(&self, instance: &str) -> u32 {
        let mut attempts = self.attempts.lock().expect("no panic while locked");
        let attempt = attempts.entry(instance.to_string()).or_default();
        *attempt += 1;
        *attempt
    }
}

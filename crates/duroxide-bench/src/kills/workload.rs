//! What is run, what clients send for it, and what it must give.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, AppErrorKind, ErrorDetails};
use duroxide::{OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};

use super::log::{Line, Log};

/// How long an activity takes: long enough that kills hit many of them.
const STEP_TIME: Duration = Duration::from_millis(10);
/// Different messages that an orchestration with a queue waits for.
const QUEUED: usize = 3;
const QUEUE: &str = "q";
const EVENT: &str = "go";
const REASON: &str = "asked for";

/// What one orchestration is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Five activities, one after the other.
    Chain,
    /// Five at the same time, then one.
    FanOut,
    /// A child with two activities, then one.
    Parent,
    Timer,
    /// An event, then an activity.
    Event,
    /// Messages of a queue, some of them perhaps sent twice.
    Queue,
    /// Three executions.
    Eternal,
    /// One that only a cancel ends.
    Endless,
}

/// A call that follows the start.
pub(crate) enum Call {
    Raise { event: &'static str, data: String },
    Enqueue { queue: &'static str, data: String },
    Cancel { reason: &'static str },
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::Chain,
        Self::FanOut,
        Self::Parent,
        Self::Timer,
        Self::Event,
        Self::Queue,
        Self::Eternal,
        Self::Endless,
    ];

    /// The kind of orchestration `n`.
    pub(crate) fn of(n: usize) -> Self {
        Self::ALL[n % Self::ALL.len()]
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Chain => "Chain",
            Self::FanOut => "FanOut",
            Self::Parent => "Parent",
            Self::Timer => "Timer",
            Self::Event => "Event",
            Self::Queue => "Queue",
            Self::Eternal => "Eternal",
            Self::Endless => "Endless",
        }
    }

    /// What clients send after the start, in this order.
    pub(crate) fn calls(self, n: usize) -> Vec<Call> {
        match self {
            Self::Chain | Self::FanOut | Self::Parent | Self::Timer | Self::Eternal => Vec::new(),
            Self::Event => vec![Call::Raise { event: EVENT, data: format!("data{n}") }],
            Self::Queue => {
                (0..QUEUED).map(|m| Call::Enqueue { queue: QUEUE, data: format!("m{m}") }).collect()
            }
            Self::Endless => vec![Call::Cancel { reason: REASON }],
        }
    }

    /// How orchestration `n` must end, in the words of [`outcome`].
    pub(crate) fn expected(self, n: usize) -> String {
        match self {
            Self::Chain => format!("completed {n}....."),
            Self::FanOut => format!("completed {n}. {n}. {n}. {n}. {n}.."),
            Self::Parent | Self::Eternal => format!("completed {n}..."),
            Self::Timer => format!("completed {n}."),
            Self::Event => format!("completed data{n}."),
            Self::Queue => "completed m0 m1 m2.".to_string(),
            Self::Endless => format!("cancelled {REASON}"),
        }
    }
}

/// The instance of orchestration `n`.
pub(crate) fn instance(n: usize) -> String {
    format!("k{n}")
}

/// The instance that this one is, or is a child of.
pub(crate) fn root_of(instance: &str) -> &str {
    instance.split_once('/').map_or(instance, |(root, _)| root)
}

/// How an instance ended, as one line; `None` while it has not.
pub(crate) fn outcome(status: &OrchestrationStatus) -> Option<String> {
    match status {
        OrchestrationStatus::NotFound | OrchestrationStatus::Running { .. } => None,
        OrchestrationStatus::Completed { output, .. } => Some(format!("completed {output}")),
        OrchestrationStatus::Failed {
            details: ErrorDetails::Application { kind: AppErrorKind::Cancelled { reason }, .. },
            ..
        } => Some(format!("cancelled {reason}")),
        OrchestrationStatus::Failed { details, .. } => {
            Some(format!("failed {}", details.display_message().replace('\n', " ")))
        }
    }
}

/// The activities; each run is written down before it does anything.
pub(crate) fn activities(directory: &Path) -> std::io::Result<ActivityRegistry> {
    let log = Arc::new(Log::open(directory)?);
    let step = move |ctx: ActivityContext, input: String| {
        let log = log.clone();
        async move {
            let (stage, value) = input.split_once(':').ok_or("no stage")?;
            let line = Line::Begun {
                instance: ctx.instance_id().to_string(),
                stage: stage.parse().map_err(|_| "no number of a stage")?,
                key: ctx.idempotency_key(),
            };
            log.write(&line).map_err(|cause| format!("the log: {cause}"))?;
            tokio::time::sleep(STEP_TIME).await;
            Ok(format!("{value}."))
        }
    };
    Ok(ActivityRegistry::builder().register("Step", step).build())
}

/// One activity. The stages of an instance follow each other: when one begins, all of the one before is recorded.
async fn step(ctx: &OrchestrationContext, stage: u32, value: &str) -> Result<String, String> {
    ctx.schedule_activity("Step", format!("{stage}:{value}")).await
}

pub(crate) fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register(Kind::Chain.name(), |ctx: OrchestrationContext, input: String| async move {
            let mut value = input;
            for stage in 1..=5 {
                value = step(&ctx, stage, &value).await?;
            }
            Ok(value)
        })
        .register(Kind::FanOut.name(), |ctx: OrchestrationContext, input: String| async move {
            let all = ctx.join((0..5).map(|_| ctx.schedule_activity("Step", format!("1:{input}"))).collect());
            let all = all.await.into_iter().collect::<Result<Vec<_>, _>>()?;
            step(&ctx, 2, &all.join(" ")).await
        })
        .register(Kind::Parent.name(), |ctx: OrchestrationContext, input: String| async move {
            let child = format!("{}/child", ctx.instance_id());
            let of_child = ctx.schedule_sub_orchestration_with_id("Child", child, input).await?;
            step(&ctx, 1, &of_child).await
        })
        .register("Child", |ctx: OrchestrationContext, input: String| async move {
            let once = step(&ctx, 1, &input).await?;
            step(&ctx, 2, &once).await
        })
        .register(Kind::Timer.name(), |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_timer(Duration::from_millis(50)).await;
            step(&ctx, 1, &input).await
        })
        .register(Kind::Event.name(), |ctx: OrchestrationContext, _input: String| async move {
            let data = ctx.schedule_wait(EVENT).await;
            step(&ctx, 1, &data).await
        })
        .register(Kind::Queue.name(), |ctx: OrchestrationContext, _input: String| async move {
            let mut seen = BTreeSet::new();
            while seen.len() < QUEUED {
                seen.insert(ctx.dequeue_event(QUEUE).await);
            }
            step(&ctx, 1, &seen.into_iter().collect::<Vec<_>>().join(" ")).await
        })
        .register(Kind::Eternal.name(), |ctx: OrchestrationContext, input: String| async move {
            // The execution is the stage: each has one activity.
            let stage = ctx.execution_id();
            let value = step(&ctx, u32::try_from(stage).unwrap_or(u32::MAX), &input).await?;
            if stage == 3 { Ok(value) } else { ctx.continue_as_new(value).await }
        })
        .register(Kind::Endless.name(), |ctx: OrchestrationContext, input: String| async move {
            step(&ctx, 1, &input).await?;
            Ok(ctx.schedule_wait("never").await)
        })
        .build()
}

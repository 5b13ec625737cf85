//! Tags: activities that need a certain worker, and what happens while there is none.
//!
//! Run it with `cargo run -p duroxide --example tags`.

use std::sync::Arc;

use duroxide::prelude::*;
use duroxide::providers::Provider;
use duroxide::{Builder, TagFilter};

#[duroxide::activity]
async fn render(ctx: ActivityContext, scene: String) -> Result<String> {
    Ok(format!("{scene} rendered with tag {}", ctx.tag().unwrap_or("none")))
}

/// Renders on a worker with a GPU, or gives up when none takes it in time.
#[duroxide::orchestration]
async fn film(ctx: OrchestrationContext, patience: Duration) -> Result<String> {
    let rendered = ctx.call(render, "scene".to_string()).tag("gpu").schedule_to_start(patience).await;
    match rendered {
        // It is cancelled: a worker that comes too late finds nothing to do.
        Err(CallError::TimedOut { .. }) => Ok("no worker took it".to_string()),
        other => Ok(other?),
    }
}

async fn worker(store: Arc<dyn Provider>, tags: TagFilter) -> Result<Duroxide, OpenError> {
    let options = RuntimeOptions { worker_tag_filter: tags, ..RuntimeOptions::default() };
    Builder::on_store(store).options(options).start().await
}

#[tokio::main]
async fn main() -> Result<()> {
    let store = duroxide::open_store("sqlite::memory:").await?;
    let plain = worker(store.clone(), TagFilter::default_only()).await?;
    let patient = plain.start(film, "patient", Duration::from_secs(60)).await?;
    let hasty = plain.run(film, "hasty", Duration::from_millis(300)).await?;
    say(&format!("hasty: {hasty}"));
    for waiting in plain.client().get_waiting_by_tag().await? {
        say(&format!(
            "waiting with tag {:?}: {}, the oldest for {} ms",
            waiting.tag,
            waiting.waiting,
            waiting.oldest_age.as_millis()
        ));
    }

    let gpu = worker(store, TagFilter::tags(["gpu"])).await?;
    let rendered = patient.result().await?;
    say(&format!("patient: {rendered}"));
    plain.shutdown().await?;
    gpu.shutdown().await?;
    let as_expected = hasty == "no worker took it" && rendered == "scene rendered with tag gpu";
    if as_expected { Ok(()) } else { Err("it ran on the wrong worker".into()) }
}

#[expect(clippy::print_stdout, reason = "an example shows what happens")]
fn say(line: &str) {
    println!("{line}");
}

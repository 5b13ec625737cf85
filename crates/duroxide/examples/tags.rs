//! Tags: activities that need a certain worker, and what happens while there is none.
//!
//! Run it with `cargo run -p duroxide --example tags`.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, Client, Either2, OrchestrationContext, OrchestrationRegistry, RuntimeOptions, TagFilter,
};

/// Renders on a worker with a GPU, or gives up when none takes it in time.
async fn render(ctx: OrchestrationContext, millis: String) -> Result<String, String> {
    let patience = Duration::from_millis(millis.parse().map_err(|_| "not a number".to_string())?);
    let rendered = ctx.schedule_activity("Render", "scene").with_tag("gpu");
    // The loser is cancelled: a worker that comes too late finds nothing to do.
    match ctx.select2(rendered, ctx.schedule_timer(patience)).await {
        Either2::First(rendered) => rendered,
        Either2::Second(()) => Ok("no worker took it".to_string()),
    }
}

async fn worker(store: Arc<SqliteProvider>, tags: TagFilter) -> Arc<Runtime> {
    let activities = ActivityRegistry::builder()
        .register("Render", |ctx: ActivityContext, scene: String| async move {
            Ok(format!("{scene} rendered with tag {}", ctx.tag().unwrap_or("none")))
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder().register("Render", render).build();
    let options = RuntimeOptions { worker_tag_filter: tags, ..RuntimeOptions::default() };
    Runtime::start_with_options(store, activities, orchestrations, options).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = Arc::new(SqliteProvider::new_in_memory().await?);
    let plain = worker(store.clone(), TagFilter::default_only()).await;
    let client = Client::new(store.clone());

    client.start_orchestration("hasty", "Render", "300").await?;
    client.start_orchestration("patient", "Render", "60000").await?;
    let hasty: String = client.wait_for_orchestration_typed("hasty", Duration::from_secs(30)).await??;
    say(&format!("hasty: {hasty}"));
    for waiting in client.get_waiting_by_tag().await? {
        say(&format!(
            "waiting with tag {:?}: {}, the oldest for {} ms",
            waiting.tag,
            waiting.waiting,
            waiting.oldest_age.as_millis()
        ));
    }

    let gpu = worker(store, TagFilter::tags(["gpu"])).await;
    let patient: String = client.wait_for_orchestration_typed("patient", Duration::from_secs(30)).await??;
    say(&format!("patient: {patient}"));
    plain.shutdown(None).await;
    gpu.shutdown(None).await;
    if patient == "scene rendered with tag gpu" { Ok(()) } else { Err("it ran on the wrong worker".into()) }
}

#[expect(clippy::print_stdout, reason = "an example shows what happens")]
fn say(line: &str) {
    println!("{line}");
}

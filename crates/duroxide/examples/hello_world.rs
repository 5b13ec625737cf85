//! The smallest program: one orchestration, one activity.
//!
//! Run it with `cargo run -p duroxide --example hello_world`.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Activities do the work with side effects. They run at least once.
    let activities = ActivityRegistry::builder()
        .register("Greet", |_ctx: ActivityContext, name: String| async move { Ok(format!("Hello, {name}!")) })
        .build();

    // Orchestrations say what happens in which order. They are replayed, so they only decide.
    let orchestrations = OrchestrationRegistry::builder()
        .register("HelloWorld", |ctx: OrchestrationContext, name: String| async move {
            ctx.schedule_activity("Greet", name).await
        })
        .build();

    // A file ("sqlite:hello.db") would survive the process; this one is gone with it.
    let store = Arc::new(SqliteProvider::new_in_memory().await?);
    let runtime = Runtime::start_with_store(store.clone(), activities, orchestrations).await;

    let client = Client::new(store);
    client.start_orchestration("hello-1", "HelloWorld", "world").await?;
    let greeting: String = client.wait_for_orchestration_typed("hello-1", Duration::from_secs(30)).await??;
    say(&greeting);

    runtime.shutdown(None).await;
    if greeting == "Hello, world!" { Ok(()) } else { Err("an unexpected greeting".into()) }
}

#[expect(clippy::print_stdout, reason = "an example shows what happens")]
fn say(line: &str) {
    println!("{line}");
}

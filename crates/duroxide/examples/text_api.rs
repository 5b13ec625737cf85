//! The text API: handlers by name, with text in and out. For programs whose steps are only known when they run; where the
//! functions are known, the typed style of the other examples is shorter and checked by the compiler.
//!
//! Run it with `cargo run -p duroxide --example text_api`.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};

/// Runs the steps that the input names, one after the other: `text: Step, Step`. Each gets what the one before returned.
async fn recipe(ctx: OrchestrationContext, recipe: String) -> Result<String, String> {
    let (text, steps) = recipe.split_once(": ").ok_or("a recipe is 'text: Step, Step'")?;
    let mut text = text.to_string();
    for step in steps.split(", ") {
        text = ctx.schedule_activity(step, text).await?;
    }
    Ok(text)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let activities = ActivityRegistry::builder()
        .register(
            "Reverse",
            |_ctx: ActivityContext, text: String| async move { Ok(text.chars().rev().collect()) },
        )
        .register("Shout", |_ctx: ActivityContext, text: String| async move {
            Ok(format!("{}!", text.to_uppercase()))
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder().register("Recipe", recipe).build();
    let store = Arc::new(SqliteProvider::new_in_memory().await?);
    let runtime = Runtime::start_with_store(store.clone(), activities, orchestrations).await;
    let client = Client::new(store);

    client.start_orchestration("recipe-1", "Recipe", "stop: Reverse, Shout").await?;
    let pots: String = client.wait_for_orchestration_typed("recipe-1", Duration::from_secs(30)).await??;
    say(&format!("recipe-1: {pots}"));
    runtime.shutdown(None).await;
    if pots == "POTS!" { Ok(()) } else { Err("the recipe went wrong".into()) }
}

#[expect(clippy::print_stdout, reason = "an example shows what happens")]
fn say(line: &str) {
    println!("{line}");
}

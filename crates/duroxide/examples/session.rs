//! A session: activities that belong together run on one worker, so that it can keep something in memory for them.
//!
//! Run it with `cargo run -p duroxide --example session`.

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, RuntimeOptions};

/// Loads a model on one worker and asks it three questions there.
async fn ask(ctx: OrchestrationContext, model: String) -> Result<String, String> {
    let session = format!("{}/{model}", ctx.instance_id());
    let mut workers = vec![ctx.schedule_activity_on_session("Load", model, session.as_str()).await?];
    for question in ["first", "second", "third"] {
        workers.push(ctx.schedule_activity_on_session("Ask", question, session.as_str()).await?);
    }
    workers.dedup();
    Ok(workers.join(", "))
}

/// One worker: what it has loaded is its own, and gone with it.
async fn worker(store: Arc<SqliteProvider>, name: &str) -> Arc<Runtime> {
    let loaded: Arc<Mutex<HashMap<String, String>>> = Arc::default();
    let models = loaded.clone();
    let load = move |ctx: ActivityContext, model: String| {
        let session = ctx.session_id().unwrap_or_default().to_string();
        models.lock().unwrap_or_else(PoisonError::into_inner).insert(session, model);
        async move { Ok(ctx.worker_id().to_string()) }
    };
    let ask_here = move |ctx: ActivityContext, _question: String| {
        let session = ctx.session_id().unwrap_or_default();
        let here = loaded.lock().unwrap_or_else(PoisonError::into_inner).contains_key(session);
        async move {
            // After a crash the session has a new owner, which must load the model again.
            if here {
                Ok(ctx.worker_id().to_string())
            } else {
                Err("the model is not loaded here".to_string())
            }
        }
    };
    let activities = ActivityRegistry::builder().register("Load", load).register("Ask", ask_here).build();
    let orchestrations = OrchestrationRegistry::builder().register("Ask", ask).build();
    let options = RuntimeOptions { worker_node_id: Some(name.to_string()), ..RuntimeOptions::default() };
    Runtime::start_with_options(store, activities, orchestrations, options).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = Arc::new(SqliteProvider::new_in_memory().await?);
    let workers = [worker(store.clone(), "worker-a").await, worker(store.clone(), "worker-b").await];
    let client = Client::new(store);
    for n in 1..=5 {
        client.start_orchestration(format!("talk-{n}"), "Ask", "model").await?;
    }
    for n in 1..=5 {
        let instance = format!("talk-{n}");
        let worker: String =
            client.wait_for_orchestration_typed(&instance, Duration::from_secs(30)).await??;
        say(&format!("{instance} ran on {worker}"));
        if worker.contains(',') {
            return Err("a session ran on two workers".into());
        }
    }
    for worker in workers {
        worker.shutdown(None).await;
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what happens")]
fn say(line: &str) {
    println!("{line}");
}

//! A session: activities that belong together run on one worker, so that it can keep something in memory for them.
//!
//! Run it with `cargo run -p duroxide --example session`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use duroxide::Builder;
use duroxide::prelude::*;
use duroxide::providers::Provider;

/// What one worker has loaded, by session. It is the worker's own, and gone with it.
#[derive(Default)]
struct Loaded(Mutex<HashMap<String, String>>);

#[duroxide::activity]
async fn load(ctx: ActivityContext, model: String) -> Result<String> {
    let session = ctx.session_id().unwrap_or_default().to_string();
    let loaded = &ctx.state::<Loaded>().0;
    loaded.lock().unwrap_or_else(PoisonError::into_inner).insert(session, model);
    Ok(ctx.worker_id().to_string())
}

#[duroxide::activity]
async fn ask(ctx: ActivityContext, _question: String) -> Result<String> {
    let session = ctx.session_id().unwrap_or_default();
    let loaded = &ctx.state::<Loaded>().0;
    let here = loaded.lock().unwrap_or_else(PoisonError::into_inner).contains_key(session);
    // After a crash the session has a new owner, which must load the model again.
    if here { Ok(ctx.worker_id().to_string()) } else { Err("the model is not loaded here".into()) }
}

/// Loads a model on one worker and asks it three questions there. Returns the workers that ran it.
#[duroxide::orchestration]
async fn talk(ctx: OrchestrationContext, model: String) -> Result<Vec<String>> {
    let session = format!("{}/{model}", ctx.instance_id());
    let mut workers = vec![ctx.call(load, model).session(&session).await?];
    for question in ["first", "second", "third"] {
        workers.push(ctx.call(ask, question.to_string()).session(&session).await?);
    }
    workers.dedup();
    Ok(workers)
}

async fn worker(store: Arc<dyn Provider>, name: &str) -> Result<Duroxide, OpenError> {
    let options = RuntimeOptions { worker_node_id: Some(name.to_string()), ..RuntimeOptions::default() };
    Builder::on_store(store).state(Loaded::default()).options(options).start().await
}

#[tokio::main]
async fn main() -> Result<()> {
    let store = duroxide::open_store("sqlite::memory:").await?;
    let workers = [worker(store.clone(), "worker-a").await?, worker(store, "worker-b").await?];
    let mut runs = Vec::new();
    for n in 1..=5 {
        runs.push(workers[0].start(talk, format!("talk-{n}"), "model".to_string()).await?);
    }
    for run in runs {
        let ran_on = run.result().await?;
        say(&format!("{} ran on {}", run.id(), ran_on.join(", ")));
        if ran_on.len() != 1 {
            return Err("a session ran on two workers".into());
        }
    }
    for worker in workers {
        worker.shutdown().await?;
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what happens")]
fn say(line: &str) {
    println!("{line}");
}

//! A program with more sessions than a worker runs at a time, for any store.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use duroxide::providers::Provider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus, RuntimeOptions,
};

/// Three times as many as a worker runs at a time by default.
const SESSIONS: usize = 30;

/// Far below `session_idle_timeout`, and far above what a busy machine needs.
const AT_ONCE: Duration = Duration::from_secs(30);

/// How many activities of each session run now, and the most sessions that ran at once.
#[derive(Default)]
struct Running {
    by_session: BTreeMap<String, usize>,
    most_sessions: usize,
    most_of_one: usize,
}

fn activities(running: &Arc<Mutex<Running>>) -> ActivityRegistry {
    let running = running.clone();
    let work = move |ctx: ActivityContext, input: String| {
        let running = running.clone();
        async move {
            let session = ctx.session_id().expect("of a session").to_string();
            {
                let mut running = running.lock().expect("no panic while locked");
                let of_one = running.by_session.entry(session.clone()).or_default();
                *of_one += 1;
                let (of_one, sessions) = (*of_one, running.by_session.len());
                running.most_of_one = running.most_of_one.max(of_one);
                running.most_sessions = running.most_sessions.max(sessions);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            let mut running = running.lock().expect("no panic while locked");
            let left = running.by_session.get_mut(&session).expect("it began");
            *left -= 1;
            if *left == 0 {
                running.by_session.remove(&session);
            }
            Ok(input)
        }
    };
    ActivityRegistry::builder().register("Work", work).build()
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("OneActivity", |ctx: OrchestrationContext, session: String| async move {
            ctx.schedule_activity_on_session("Work", "", session).await
        })
        .build()
}

async fn round(client: &Client, name: &str) {
    for n in 0..SESSIONS {
        let (instance, session) = (format!("{name}{n}"), format!("session {n}"));
        client.start_orchestration(instance, "OneActivity", session).await.expect("started");
    }
    for n in 0..SESSIONS {
        let ended = client.wait_for_orchestration(&format!("{name}{n}"), AT_ONCE).await;
        assert!(matches!(ended, Ok(OrchestrationStatus::Completed { .. })), "{name}{n}: {ended:?}");
    }
}

/// Runs quick activities of many sessions with default options, and then again of the same sessions: no session
/// waits for another to idle.
pub(crate) async fn run_on(store: Arc<dyn Provider>) {
    let running = Arc::new(Mutex::new(Running::default()));
    let runtime = Runtime::start_with_store(store.clone(), activities(&running), orchestrations()).await;
    let client = Client::new(store);
    let begun = Instant::now();
    round(&client, "first ").await;
    round(&client, "again ").await;
    assert!(begun.elapsed() < AT_ONCE, "took {:?}", begun.elapsed());
    {
        let running = running.lock().expect("no panic while locked");
        let most = RuntimeOptions::default().max_sessions_per_runtime;
        assert!(running.most_sessions <= most, "{} sessions at once", running.most_sessions);
        assert_eq!(running.most_of_one, 1, "without a node id the activities of a session run one at a time");
    }
    runtime.shutdown(None).await;
}

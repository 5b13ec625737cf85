//! Rules that were settled later: stored values, keys, ids of children, and what the log says.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use duroxide::providers::memory::MemoryProvider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::{ActivityRegistry, OrchestrationRegistry};
use duroxide::{ActivityContext, BackoffStrategy, Client, EventKind, OrchestrationContext, RetryPolicy};

use crate::notation::RS;
use crate::programs::{Started, block_on};

pub(crate) fn checked() -> Vec<&'static str> {
    [codec(), generated_ids(), keys_and_log()].concat()
}

/// What is stored for a typed input.
fn stored(input: &'static str) -> String {
    block_on(async {
        let started = Started::with(async |_ctx: OrchestrationContext, input: String| Ok(input)).await;
        started.client.start_orchestration_typed("i", "Program", input).await.expect("it starts");
        started.output("i").await;
        let history = started.history("i").await;
        started.stop().await;
        let EventKind::OrchestrationStarted { input, .. } = history[0].kind.clone() else {
            panic!("a history begins with its start")
        };
        input
    })
}

fn codec() -> Vec<&'static str> {
    assert_eq!(
        ["plain", "", "123", "null", "\"quoted\""].map(stored),
        ["plain", "", "\"123\"", "\"null\"", r#""\"quoted\"""#]
    );
    vec!["codec: a text that would parse as JSON is stored JSON-encoded, any other bare"]
}

fn generated_ids() -> Vec<&'static str> {
    let recorded = block_on(async {
        let started = Started::with(async |ctx: OrchestrationContext, _| {
            ctx.schedule_sub_orchestration("Child", "").await
        })
        .await;
        started.start("i").await;
        started.output("i").await;
        let history = started.history("i").await;
        started.stop().await;
        history.into_iter().find_map(|event| {
            let EventKind::SubOrchestrationScheduled { instance, .. } = event.kind else { return None };
            Some(instance)
        })
    });
    assert_eq!(recorded.as_deref(), Some("sub::2"));
    vec!["SubOrchestrationScheduled.instance holds sub::{event_id} for a generated id"]
}

/// Everything that was logged while it was installed.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Fails twice, and says which attempt it is under which key.
async fn flaky(ctx: ActivityContext, _input: String) -> RS {
    ctx.trace_info("activity line");
    if ctx.attempt() < 3 {
        Err("again".to_string())
    } else {
        Ok(format!("{} {}", ctx.attempt(), ctx.idempotency_key()))
    }
}

async fn retrying(ctx: OrchestrationContext, _input: String) -> RS {
    ctx.trace_info("orchestration line");
    let policy = RetryPolicy::new(5).with_backoff(BackoffStrategy::None);
    ctx.schedule_activity_with_retry("Flaky", "", policy).await
}

fn keys_and_log() -> Vec<&'static str> {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let output = tracing::subscriber::with_default(subscriber, || {
        block_on(async {
            let store = Arc::new(MemoryProvider::new());
            let activities = ActivityRegistry::builder().register("Flaky", flaky).build();
            let orchestrations = OrchestrationRegistry::builder().register("Retrying", retrying).build();
            let runtime = Runtime::start_with_store(store.clone(), activities, orchestrations).await;
            let client = Client::new(store);
            client.start_orchestration("i", "Retrying", "").await.expect("it starts");
            let output = client.wait_for_orchestration_typed::<String>("i", Duration::from_secs(60)).await;
            runtime.shutdown(None).await;
            output.expect("it ends").expect("it completes")
        })
    });
    assert_eq!(output, "3 i:1:2", "the third attempt has the key of the first");
    let text = String::from_utf8(log.0.lock().unwrap_or_else(PoisonError::into_inner).clone()).expect("text");
    let line =
        |of: &str| text.lines().find(|line| line.contains(of)).unwrap_or_else(|| panic!("{of}:\n{text}"));
    let all = [
        "instance_id=i",
        "execution_id=1",
        "orchestration_name=Retrying",
        "orchestration_version=1.0.0",
        "worker_id=",
    ];
    for field in all.iter().chain(&["duroxide::orchestration"]) {
        assert!(line("orchestration line").contains(field), "{field}: {}", line("orchestration line"));
    }
    for field in all.iter().chain(&["duroxide::activity", "activity_name=Flaky"]) {
        assert!(line("activity line").contains(field), "{field}: {}", line("activity line"));
    }
    assert!(line("supported_range=").contains("INFO duroxide::runtime"), "{text}");
    vec![
        "one idempotency_key() for all attempts of one call; attempt() counts them",
        "targets: duroxide::orchestration, duroxide::activity, duroxide::runtime",
        "trace fields: instance_id, execution_id, orchestration_name, orchestration_version, activity_name, worker_id",
        "INFO with supported_range at start",
    ]
}

//! Orchestrations that write with the macros of `tracing` themselves, heard by a subscriber of the user's own.
#![cfg(feature = "testing")]

use std::io::Write;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use duroxide::Builder;
use duroxide::prelude::*;
use duroxide::providers::Provider;
use duroxide::providers::memory::MemoryProvider;
use duroxide::runtime::VerifyReplay;
use duroxide::testing::run_test_with;

const GO: EventName<()> = EventName::new("go");
/// Longer than any test takes; one that hangs fails with it.
const LONG: Duration = Duration::from_secs(30);

/// All that the process has logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no writer panics").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

static LOG: LazyLock<Log> = LazyLock::new(|| {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).init();
    log
});

/// The lines of programs about something, each with its fields.
fn lines(about: &str) -> Vec<String> {
    let text = String::from_utf8(LOG.0.lock().expect("no writer panics").clone()).expect("text");
    text.lines().filter(|line| line.contains(about)).map(str::to_string).collect()
}

/// Insists that each of these lines was written once, with the fields of its execution, and no other about this.
#[track_caller]
fn check_once(instance: &str, expected: &[&str]) {
    let lines = lines(&format!("of {instance}."));
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
    let fields = format!("orchestration{{instance_id={instance} execution_id=1 ");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.ends_with(&format!("{expected} of {instance}.")), "'{expected}' in {lines:#?}");
        assert!(line.contains(&fields), "'{fields}' in {line}");
    }
}

/// Writes a line when it is dropped.
struct Leaves(String);

impl Drop for Leaves {
    fn drop(&mut self) {
        tracing::info!("left of {}.", self.0);
    }
}

async fn steps(ctx: OrchestrationContext, instance: String) -> Result<()> {
    let _leaves = Leaves(instance.clone());
    for step in 1..=3 {
        tracing::info!("step {step} of {instance}.");
        ctx.wait(GO).await;
    }
    tracing::info!("done of {instance}.");
    Ok(())
}

/// The same after a deployment: other places that write, none of which the process has reached before.
async fn steps_deployed(ctx: OrchestrationContext, instance: String) -> Result<()> {
    let _leaves = Leaves(instance.clone());
    for step in 1..=3 {
        tracing::info!("deployed step {step} of {instance}.");
        ctx.wait(GO).await;
    }
    tracing::info!("deployed done of {instance}.");
    Ok(())
}

async fn app(store: &Arc<dyn Provider>, verify: VerifyReplay) -> Duroxide {
    let builder = Builder::on_store(store.clone()).discover(false).verify_replay(verify);
    builder.orchestration("Steps", steps).start().await.expect("it starts")
}

fn store() -> Arc<dyn Provider> {
    LazyLock::force(&LOG);
    Arc::new(MemoryProvider::new())
}

/// Waits until so many events of the instance are stored.
async fn stored(app: &Duroxide, instance: &str, events: usize) {
    let client = app.client();
    let there = async {
        while client.read_execution_history(instance, 1).await.map_or(0, |history| history.len()) < events {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(LONG, there).await.expect("the turn is committed");
}

async fn go(run: &Run<(), Failure>) {
    let outcome = run.raise(GO, &()).await.expect("the store answers");
    assert_eq!(outcome, SendOutcome::Delivered);
}

async fn run_all_steps(instance: &str, verify: VerifyReplay) {
    let store = store();
    let app = app(&store, verify).await;
    let run = app.start(steps, instance, instance.to_string()).await.expect("it starts");
    for step in 1..=3 {
        stored(&app, instance, 2 * step).await;
        go(&run).await;
    }
    tokio::time::timeout(LONG, run.result()).await.expect("in time").expect("it completes");
    app.shutdown().await.expect("it stops");
    check_once(instance, &["step 1", "step 2", "step 3", "done", "left"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_is_written_once_with_the_fields_of_its_execution() {
    run_all_steps("plain", VerifyReplay::Never).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_is_not_repeated_where_every_turn_is_replayed_after_it_ran() {
    run_all_steps("verified", VerifyReplay::Always).await;
}

/// As in a program that sets nothing.
#[cfg(debug_assertions)]
#[tokio::test(flavor = "multi_thread")]
async fn a_line_is_not_repeated_by_the_replays_of_a_debug_build() {
    run_all_steps("debug", VerifyReplay::Debug).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_after_a_restart_is_silent_and_what_comes_after_it_is_not() {
    let store = store();
    let before = app(&store, VerifyReplay::Never).await;
    let run = before.start(steps, "restarted", "restarted".to_string()).await.expect("it starts");
    stored(&before, "restarted", 2).await;
    go(&run).await;
    stored(&before, "restarted", 4).await;
    before.shutdown().await.expect("it stops");
    drop((run, before));
    check_once("restarted", &["step 1", "step 2"]);

    let builder = Builder::on_store(store).discover(false).verify_replay(VerifyReplay::Never);
    let after = builder.orchestration("Steps", steps_deployed).start().await.expect("it starts");
    let run = after.handle(steps_deployed, "restarted");
    for step in 2..=3 {
        stored(&after, "restarted", 2 * step).await;
        go(&run).await;
    }
    tokio::time::timeout(LONG, run.result()).await.expect("in time").expect("it completes");
    after.shutdown().await.expect("it stops");
    let expected = ["step 1", "step 2", "deployed step 3", "deployed done", "left"];
    check_once("restarted", &expected);
}

#[test]
fn the_replays_of_the_test_kit_are_silent() {
    LazyLock::force(&LOG);
    run_test_with(TestEnv::builder().discover(false).orchestration("Steps", steps), |env| async move {
        let run = env.start(steps, "kit", "kit".to_string()).await.expect("it starts");
        for _ in 1..=3 {
            go(&run).await;
        }
        run.result().await.expect("it completes");
        let expected = ["step 1", "step 2", "step 3", "done", "left"];
        check_once("kit", &expected);
        run.assert_replays();
        check_once("kit", &expected);
    });
}

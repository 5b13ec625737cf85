//! Programs that wait for what is not durable, that a replay contradicts, or that call what has no name here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{
    ForeignWakes, OnNondeterminism, Runtime, RuntimeOptions, UnregisteredBackoffConfig, VerifyReplay,
};
use duroxide::{
    ActivityContext, Client, ErrorDetails, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
};

const LONG: Duration = Duration::from_secs(20);

/// Runs the orchestration `Program` of instance `i` to its end.
async fn end_of(orchestrations: OrchestrationRegistry, options: RuntimeOptions) -> OrchestrationStatus {
    let store = Arc::new(SqliteProvider::new_in_memory().await.expect("a store in memory"));
    let activities = ActivityRegistry::builder()
        .register("Echo", |_ctx: ActivityContext, input: String| async move { Ok(input) })
        .build();
    let runtime = Runtime::start_with_options(store.clone(), activities, orchestrations, options).await;
    let client = Client::new(store);
    client.start_orchestration("i", "Program", "").await.expect("a start");
    let status = client.wait_for_orchestration("i", LONG).await.expect("an end");
    runtime.shutdown(None).await;
    status
}

fn guarded() -> RuntimeOptions {
    RuntimeOptions { foreign_wakes: ForeignWakes::Fail, ..RuntimeOptions::default() }
}

fn verified() -> RuntimeOptions {
    RuntimeOptions { verify_replay: VerifyReplay::Always, ..RuntimeOptions::default() }
}

#[track_caller]
fn failure(status: &OrchestrationStatus) -> String {
    let OrchestrationStatus::Failed { details, .. } = status else { panic!("not failed: {status:?}") };
    details.display_message()
}

/// A program that does something foreign behind an activity.
async fn foreign<Fut>(does: fn() -> Fut) -> String
where
    Fut: Future<Output = ()> + Send + 'static,
{
    let orchestrations = OrchestrationRegistry::builder()
        .register("Program", move |ctx: OrchestrationContext, _input: String| async move {
            ctx.schedule_activity("Echo", "").await?;
            does().await;
            Ok(String::new())
        })
        .build();
    let text = failure(&end_of(orchestrations, guarded()).await);
    assert!(text.starts_with("nondeterministic: orchestration 'Program' of instance 'i' "), "{text}");
    assert!(text.contains("its last command is at crates/duroxide/tests/scenarios/guards.rs:"), "{text}");
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn timers_tasks_and_sockets_of_tokio_are_refused_where_they_are_used() {
    let text = foreign(|| tokio::time::sleep(Duration::from_millis(1))).await;
    assert!(text.contains("used a timer of tokio"), "{text}");
    let text = foreign(|| async { tokio::spawn(async {}).await.expect("it ends") }).await;
    assert!(text.contains("spawned a task of tokio"), "{text}");
    // Connecting resolves no name and reaches no server: it fails where the socket would be registered.
    let text = foreign(|| async {
        let connected = tokio::net::TcpStream::connect(("127.0.0.1", 9)).await;
        drop(connected);
    })
    .await;
    assert!(text.contains("used a socket or other I/O of tokio"), "{text}");
    assert!(text.contains("await only what the context schedules: an activity for I/O"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_that_a_program_waits_for_is_refused() {
    let text = foreign(|| async {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || sender.send(()));
        // The thread may be done before the program waits: then it is ready at once, as nothing can tell.
        receiver.await.expect("it is sent");
        std::future::pending::<()>().await;
    })
    .await;
    assert!(text.contains("not durable"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_that_await_the_context_alone_run_guarded_and_verified() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Program", |ctx: OrchestrationContext, _input: String| async move {
            let (one, two) =
                ctx.join2(ctx.schedule_activity("Echo", "1"), ctx.schedule_activity("Echo", "2")).await;
            ctx.schedule_timer(Duration::from_millis(5)).await;
            let guid = ctx.new_guid().await?;
            ctx.set_kv_value("guid", guid);
            let child = ctx.schedule_sub_orchestration("Child", "3").await?;
            Ok(format!("{}{}{child}", one?, two?))
        })
        .register("Child", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_activity("Echo", input).await
        })
        .build();
    let options = RuntimeOptions { foreign_wakes: ForeignWakes::Fail, ..verified() };
    let status = end_of(orchestrations, options).await;
    assert!(
        matches!(&status, OrchestrationStatus::Completed { output, .. } if output == "123"),
        "{status:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_a_replay_contradicts_fails_with_the_line() {
    for behind_an_activity in [false, true] {
        let calls = Arc::new(AtomicU32::new(0));
        let orchestrations = OrchestrationRegistry::builder()
            .register("Program", move |ctx: OrchestrationContext, _input: String| {
                let calls = calls.clone();
                async move {
                    if behind_an_activity {
                        ctx.schedule_activity("Echo", "").await?;
                    }
                    let number = calls.fetch_add(1, Ordering::Relaxed);
                    ctx.schedule_activity("Echo", number.to_string()).await
                }
            })
            .build();
        let text = failure(&end_of(orchestrations, verified()).await);
        assert!(text.contains("a replay of the turn that just ran did something else"), "{text}");
        assert!(text.contains("crates/duroxide/tests/scenarios/guards.rs:"), "{text}");
    }
}

async fn ship(_ctx: ActivityContext, _order: ()) -> Result<String, String> {
    Ok(String::new())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_without_a_name_ends_as_poison_with_its_text() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Program", |ctx: OrchestrationContext, _input: String| async move {
            ctx.call(ship, ()).await.map_err(|error| error.to_string())
        })
        .build();
    let delay = Duration::from_millis(5);
    let options = RuntimeOptions {
        max_attempts: 2,
        unregistered_backoff: UnregisteredBackoffConfig { base_delay: delay, max_delay: delay },
        on_nondeterminism: OnNondeterminism::HandBack,
        ..guarded()
    };
    let status = end_of(orchestrations, options).await;
    let OrchestrationStatus::Failed { details: ErrorDetails::Poison { message, .. }, .. } = &status else {
        panic!("not poisoned: {status:?}")
    };
    let expected = "cause: scenarios::guards::ship has no name on this node: put #[duroxide::activity] on it";
    assert!(message.starts_with(expected) && message.contains("; messages: "), "{message}");
}

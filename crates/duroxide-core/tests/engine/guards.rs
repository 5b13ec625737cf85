//! Programs that wait for what no history holds, and mismatches that name their line.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use duroxide_core::{
    BackoffStrategy, Before, EventKind, Execution, Guards, OrchestrationContext, OrchestrationHandler,
    Outcome, PollGuard, RetryPolicy, Step, Turn, TurnInput, TurnResult, WorkItem, begin_guarded_turn,
    run_turn, unnamed_orchestration, verify_turn,
};
use futures::channel::oneshot;
use futures::future::{join, poll_fn};

use crate::build::{INSTANCE, VERSION, activity, app_error, completed, handler, history, raised, start};
use crate::driver::{output, run, run_once};

/// Knows of nothing that a program must not do.
struct Watches;

impl PollGuard for Watches {
    fn poll(&self, poll: &mut dyn FnMut()) -> Option<String> {
        poll();
        None
    }

    fn fault_of_panic(&self, text: &str) -> Option<String> {
        (text == "no driver").then(|| "used a driver".to_string())
    }
}

/// Finds something at every poll.
struct Finds;

impl PollGuard for Finds {
    fn poll(&self, poll: &mut dyn FnMut()) -> Option<String> {
        poll();
        Some("spawned a task".to_string())
    }

    fn fault_of_panic(&self, _text: &str) -> Option<String> {
        None
    }
}

fn input(messages: Vec<WorkItem>) -> TurnInput {
    TurnInput {
        instance: INSTANCE.to_string(),
        execution_id: 1,
        now_ms: 1,
        entropy: 1,
        messages,
        kv: BTreeMap::new(),
    }
}

fn done(step: Step<'_>) -> TurnResult {
    let Step::Done(result) = step else { panic!("nothing is asked") };
    *result
}

fn first_turn(program: Arc<dyn OrchestrationHandler>, guard: Arc<dyn PollGuard>) -> TurnResult {
    let before = Before::Stored { handler: program, version: VERSION.to_string(), history: &[] };
    let guards = Guards { polls: Some(guard), keep_events: true, ..Guards::default() };
    done(begin_guarded_turn(before, input(vec![start("")]), guards))
}

fn next_turn(execution: Option<Box<Execution>>, messages: Vec<WorkItem>) -> TurnResult {
    let before = Before::Held(execution.expect("it waits"));
    let guards = Guards { polls: Some(Arc::new(Watches)), keep_events: true, ..Guards::default() };
    done(begin_guarded_turn(before, input(messages), guards))
}

#[track_caller]
fn refused(turn: &Turn) -> &str {
    let Outcome::Nondeterministic { diff } = &turn.outcome else { panic!("{:?}", turn.outcome) };
    diff
}

#[test]
fn a_program_that_waits_for_nothing_durable_is_refused_with_its_last_line() {
    let program = handler(|ctx, _| async move {
        ctx.schedule_activity("A", "").await?;
        std::future::pending().await
    });
    let held = first_turn(program.clone(), Arc::new(Watches));
    assert_eq!(held.turn.outcome, Outcome::Waiting, "the activity is open");
    let turn = next_turn(held.execution, vec![completed(2, "")]).turn;
    let text = refused(&turn);
    assert!(
        text.starts_with("orchestration 'Program' of instance 'i' waits for something that is not durable")
    );
    assert!(
        text.contains("; its last command is at crates/duroxide-core/tests/engine/guards.rs:8"),
        "{text}"
    );
    assert!(text.contains("a timer for time"), "{text}");
    // Without the guard it may wait.
    let waiting = run(program, vec![completed(2, "")]);
    assert_eq!(waiting.last().outcome, Outcome::Waiting);
}

#[test]
fn a_program_may_wake_itself_and_its_branches_each_other() {
    let program = handler(|ctx, _| async move {
        let (sender, receiver) = oneshot::channel();
        let sends = async {
            let result = ctx.schedule_activity("A", "").await;
            sender.send(result).expect("the receiver waits");
            let mut again = true;
            poll_fn(|cx| {
                if std::mem::take(&mut again) {
                    cx.waker().wake_by_ref();
                    return std::task::Poll::Pending;
                }
                std::task::Poll::Ready(())
            })
            .await;
        };
        join(sends, receiver).await.1.expect("it is sent")
    });
    let held = first_turn(program, Arc::new(Watches));
    assert_eq!(output(&next_turn(held.execution, vec![completed(2, "a")]).turn), "a");
}

#[test]
fn a_wake_from_elsewhere_is_refused_on_another_thread_and_between_turns() {
    for during_poll in [true, false] {
        let kept: Arc<Mutex<Option<Waker>>> = Arc::default();
        let of_program = kept.clone();
        let program = handler(move |ctx, _| {
            let kept = of_program.clone();
            async move {
                let wait = ctx.schedule_wait("go");
                poll_fn(|cx| {
                    let waker = cx.waker().clone();
                    if during_poll {
                        std::thread::spawn(move || waker.wake()).join().expect("it wakes");
                    } else {
                        *kept.lock().expect("not poisoned") = Some(waker);
                    }
                    std::task::Poll::Ready(())
                })
                .await;
                Ok(wait.await)
            }
        });
        let first = first_turn(program, Arc::new(Watches));
        let turn = if during_poll {
            first.turn
        } else {
            assert_eq!(first.turn.outcome, Outcome::Waiting);
            kept.lock().expect("not poisoned").take().expect("it was polled").wake();
            next_turn(first.execution, vec![raised("go", "")]).turn
        };
        assert!(refused(&turn).contains("was woken by something that is not durable"));
    }
}

#[test]
fn what_the_guard_finds_is_refused_also_if_it_is_a_panic() {
    let spawns = handler(|ctx, _| async move { ctx.schedule_activity("A", "").await });
    assert!(
        refused(&first_turn(spawns, Arc::new(Finds)).turn).contains("'i' spawned a task; its last command")
    );
    let sleeps = handler(|_, _| async move { panic!("no driver") });
    assert!(refused(&first_turn(sleeps, Arc::new(Watches)).turn).contains("'i' used a driver: await only"));
    let panics = handler(|_, _| async move { panic!("its own") });
    let turn = first_turn(panics, Arc::new(Watches)).turn;
    assert_eq!(turn.outcome, Outcome::Panicked { message: "its own".to_string() });
}

async fn ship(_ctx: OrchestrationContext, _order: ()) -> Result<String, String> {
    Ok(String::new())
}

#[test]
fn a_function_without_a_name_leaves_no_trace_but_its_text() {
    let program = handler(|ctx, _| async move {
        ctx.schedule_activity("A", "").await?;
        ctx.child(ship, ()).await.map_err(|error| error.to_string())
    });
    fn text_of<F>(_function: F) -> String {
        unnamed_orchestration::<F>()
    }
    let text = text_of(ship);
    assert!(text.starts_with("engine::guards::ship has no name on this node"), "{text}");
    let unnamed = Outcome::Unnamed { message: text };
    let held = first_turn(program.clone(), Arc::new(Watches));
    let result = next_turn(held.execution, vec![completed(2, "")]);
    assert_eq!(result.turn.outcome, unnamed);
    assert!(result.execution.is_none());
    assert_eq!((result.turn.events.len(), result.turn.is_end()), (0, false));
    let stored = history(vec![(None, activity("A", ""))]);
    assert_eq!(run_once(program, &stored, vec![completed(2, "")]).turn.outcome, unnamed);
}

#[test]
fn a_mismatch_names_the_line_of_the_command() {
    let line = line!() + 1;
    let program = handler(|ctx, _| async move { ctx.schedule_activity("B", "").await });
    let turn = run_once(program, &history(vec![(None, activity("A", ""))]), vec![]).turn;
    let expected = format!(" at crates/duroxide-core/tests/engine/guards.rs:{line}");
    assert!(refused(&turn).ends_with(&expected), "{}", refused(&turn));
    let line = line!() + 1;
    let program = handler(|ctx, _| async move { Err(format!("{:?}", ctx.set_custom_status("x"))) });
    let turn = run_once(program, &history(vec![(None, activity("A", ""))]), vec![]).turn;
    let expected = format!(" at crates/duroxide-core/tests/engine/guards.rs:{line}");
    assert!(refused(&turn).ends_with(&expected), "{}", refused(&turn));
}

#[test]
fn a_mismatch_of_a_delay_between_attempts_names_the_line_of_the_call() {
    let backoff = BackoffStrategy::Fixed { delay: Duration::from_secs(1) };
    let policy = RetryPolicy::new(3).with_backoff(backoff);
    let line = line!() + 1;
    let program = handler(move |ctx, _| ctx.schedule_activity_with_retry("A", "", policy.clone()));
    let recorded = r#"{"max_attempts":3,"backoff":{"Fixed":{"delay":{"secs":1,"nanos":0}}}}"#.to_string();
    let stored = history(vec![
        (None, activity("A", "")),
        (None, EventKind::RetryPolicyRecorded { policy: recorded }),
        (Some(2), EventKind::ActivityFailed { details: app_error("busy") }),
        (None, activity("Other", "")),
    ]);
    let turn = run_once(program, &stored, vec![]).turn;
    let text = refused(&turn);
    assert!(text.contains("schedule mismatch at event 5"), "{text}");
    assert!(text.ends_with(&format!(" at crates/duroxide-core/tests/engine/guards.rs:{line}")), "{text}");
}

#[test]
fn a_turn_that_does_something_else_when_it_is_replayed_is_refused() {
    let calls = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let counted = handler(move |ctx, _| {
        let calls = calls.clone();
        async move {
            ctx.schedule_activity("Same", "").await?;
            let number = calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            ctx.schedule_activity("A", number.to_string()).await
        }
    });
    let stored = history(vec![(None, activity("Same", ""))]);
    let before = Before::Stored { handler: counted.clone(), version: VERSION.to_string(), history: &stored };
    let live = run_turn(before, input(vec![completed(2, "")])).turn;
    let verified = verify_turn(&live, counted, VERSION, &stored, input(vec![completed(2, "")]), |_| Ok(None));
    let turn = verified.expect("it differs").turn;
    let text = refused(&turn);
    assert!(
        text.starts_with(
            "a replay of the turn that just ran did something else: schedule mismatch at event 4"
        )
    );
    assert!(text.contains("differs in input") && text.contains("guards.rs:"), "{text}");
    assert!(turn.events.last().expect("it ends").is_terminal());
    let steady = handler(|ctx, _| async move { ctx.schedule_activity("Same", "").await });
    let before = Before::Stored { handler: steady.clone(), version: VERSION.to_string(), history: &stored };
    let live = run_turn(before, input(vec![completed(2, "")])).turn;
    assert!(
        verify_turn(&live, steady, VERSION, &stored, input(vec![completed(2, "")]), |_| Ok(None)).is_none()
    );
}

#[test]
fn an_execution_that_keeps_its_events_has_those_of_every_turn() {
    let program = handler(|ctx, _| async move {
        ctx.schedule_activity("A", "").await?;
        Ok(ctx.schedule_wait("go").await)
    });
    let first = first_turn(program, Arc::new(Watches));
    let mut stored = first.turn.events.clone();
    let second = next_turn(first.execution, vec![completed(2, "")]);
    stored.extend(second.turn.events.clone());
    assert_eq!(second.execution.expect("it waits").kept_events(), Some(&stored[..]));
}

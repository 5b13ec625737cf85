//! Many things at once, in time and memory that grow with what happens and not with what has happened.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use duroxide_core::{
    Before, Either2, Event, Execution, OrchestrationHandler, Turn, TurnInput, WorkItem, run_turn,
};
use futures::FutureExt;

use crate::build::{child_completed, completed, handler, queued, raised, start};
use crate::driver::{check_history, output, run_once};

fn input(messages: Vec<WorkItem>) -> TurnInput {
    TurnInput {
        instance: "i".to_string(),
        execution_id: 1,
        now_ms: 1,
        entropy: 1,
        messages,
        kv: BTreeMap::new(),
    }
}

#[expect(clippy::disallowed_methods, reason = "the test measures the engine, which itself reads no clock")]
fn now() -> Instant {
    Instant::now()
}

fn first_turn(
    handler: &Arc<dyn OrchestrationHandler>,
    messages: Vec<WorkItem>,
) -> (Turn, Option<Box<Execution>>) {
    let result = run_once(handler.clone(), &[], messages);
    (result.turn, result.execution)
}

fn replay(handler: &Arc<dyn OrchestrationHandler>, history: &[Event], messages: Vec<WorkItem>) -> Turn {
    run_once(handler.clone(), history, messages).turn
}

/// Waits for `go`, then reads 100,000 messages one by one.
fn reads_100_000() -> Arc<dyn OrchestrationHandler> {
    handler(|ctx, _| async move {
        ctx.schedule_wait("go").await;
        let mut bytes = 0;
        for _ in 0..100_000 {
            bytes += ctx.dequeue_event("q").await.len();
        }
        Ok(bytes.to_string())
    })
}

#[test]
fn a_loop_over_100_000_queued_messages_ends_in_one_turn() {
    let queue = (0..100_000).map(|_| queued("q", "m"));
    let messages = std::iter::once(start("")).chain(queue).chain([raised("go", "")]);
    let (turn, _) = first_turn(&reads_100_000(), messages.collect());
    assert_eq!(output(&turn), "100000");
    check_history(&turn.events);
}

#[test]
fn a_loop_over_100_000_messages_that_arrive_one_by_one_ends_in_one_turn() {
    let queue = (0..100_000).map(|_| queued("q", "m"));
    let messages = [start(""), raised("go", "")].into_iter().chain(queue);
    let (turn, _) = first_turn(&reads_100_000(), messages.collect());
    assert_eq!(output(&turn), "100000");
}

#[test]
fn a_loop_with_a_timeout_per_message_leaves_no_timer_behind() {
    let program = handler(|ctx, _| async move {
        ctx.schedule_wait("go").await;
        let mut read = 0;
        while let Either2::First(_) =
            ctx.select2(ctx.dequeue_event("q"), ctx.schedule_timer(Duration::from_secs(1))).await
        {
            read += 1;
            if read == 20_000 {
                break;
            }
        }
        Ok(read.to_string())
    });
    let queue = (0..20_000).map(|_| queued("q", "m"));
    let messages = std::iter::once(start("")).chain(queue).chain([raised("go", "")]);
    let (turn, _) = first_turn(&program, messages.collect());
    assert_eq!(output(&turn), "20000");
    assert_eq!(turn.orchestrator_items, [], "no timer outlives its turn");
}

#[test]
fn fifty_thousand_things_are_scheduled_and_cancelled_in_one_turn() {
    let program = handler(|ctx, _| async move {
        let activities: Vec<_> = (0..25_000).map(|n| ctx.schedule_activity("A", n.to_string())).collect();
        let children: Vec<_> =
            (0..25_000).map(|n| ctx.schedule_sub_orchestration("C", n.to_string())).collect();
        let go = ctx.schedule_wait("go").await;
        drop((activities, children));
        Ok(go)
    });
    let (turn, execution) = first_turn(&program, vec![start("")]);
    assert_eq!((turn.worker_items.len(), turn.orchestrator_items.len()), (25_000, 25_000));
    let held = execution.expect("it waits");
    let last = run_turn(Before::Held(held), input(vec![raised("go", "")])).turn;
    assert_eq!((last.cancelled_activities.len(), last.orchestrator_items.len()), (25_000, 25_000));
    let replayed = replay(&program, &turn.events, vec![raised("go", "")]);
    assert_eq!(last, replayed);
}

/// Counts how often anything of it is polled.
struct Counted<F>(F, Arc<AtomicUsize>);

impl<F: Future + Unpin> Future for Counted<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.poll_unpin(cx)
    }
}

fn polls_of_a_join(children: u64) -> usize {
    let polls = Arc::new(AtomicUsize::new(0));
    let counted = polls.clone();
    let program = handler(move |ctx, _| {
        let polls = counted.clone();
        let body = async move {
            let all = (0..children)
                .map(|n| Counted(ctx.schedule_sub_orchestration("C", n.to_string()), polls.clone()))
                .collect();
            let results: Result<Vec<String>, String> = ctx.join(all).await.into_iter().collect();
            Ok(results?.len().to_string())
        };
        Counted(body.boxed(), counted.clone())
    });
    let messages = std::iter::once(start("")).chain((0..children).rev().map(|n| child_completed(n + 2, "")));
    let (turn, _) = first_turn(&program, messages.collect());
    assert_eq!(output(&turn), children.to_string());
    polls.load(Ordering::Relaxed)
}

#[test]
fn a_join_of_10_000_children_ends_in_a_number_of_polls_linear_in_the_children() {
    let (thousand, ten_thousand) = (polls_of_a_join(1_024), polls_of_a_join(10_240));
    assert!(ten_thousand <= 11 * thousand, "{thousand} polls, then {ten_thousand}");
    assert!(ten_thousand <= 4 * 10_240, "{ten_thousand} polls");
}

#[test]
fn a_replay_of_a_fan_in_costs_what_it_cost_live() {
    let program = handler(|ctx, _| async move {
        let all = (0..10_000).map(|n| ctx.schedule_activity("A", n.to_string())).collect();
        ctx.join(all).await;
        Ok(ctx.schedule_wait("e").await)
    });
    let messages = std::iter::once(start("")).chain((0..10_000).map(|n| completed(n + 2, "")));
    let (turn, _) = first_turn(&program, messages.collect());
    let started = now();
    assert_eq!(output(&replay(&program, &turn.events, vec![raised("e", "x")])), "x");
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

/// The fastest of many turns, so that a busy machine does not count.
fn time_of_a_held_turn(history_events: usize) -> Duration {
    let program = handler(|ctx, _| async move {
        loop {
            ctx.dequeue_event("q").await;
        }
    });
    let messages = std::iter::once(start("")).chain((0..history_events / 2).map(|_| queued("q", "m")));
    let (_, execution) = first_turn(&program, messages.collect());
    let mut held = execution.expect("it waits");
    let mut fastest = Duration::MAX;
    for _ in 0..200 {
        let started = now();
        let result = run_turn(Before::Held(held), input(vec![queued("q", "m")]));
        fastest = fastest.min(started.elapsed());
        assert_eq!(result.turn.events.len(), 2);
        held = result.execution.expect("it waits");
    }
    fastest
}

#[test]
fn a_turn_of_a_held_execution_costs_the_same_at_any_length_of_history() {
    let short = time_of_a_held_turn(100);
    let long = time_of_a_held_turn(50_000);
    assert!(
        long < 20 * short.max(Duration::from_micros(5)),
        "{short:?} with 100 events, {long:?} with 50,000"
    );
}

#[test]
fn ending_a_long_history_without_its_code_is_linear() {
    let count = 50_000;
    let program = handler(move |ctx, _| async move {
        let all = (0..count).map(|n| ctx.schedule_activity("A", n.to_string())).collect();
        ctx.join(all).await;
        Ok(ctx.schedule_wait("e").await)
    });
    let messages = std::iter::once(start("")).chain((0..count).map(|n| completed(n + 2, "")));
    let (turn, _) = first_turn(&program, messages.collect());
    let other = handler(|ctx, _| async move { ctx.schedule_activity("Other", "").await });
    let started = now();
    let ended = replay(&other, &turn.events, vec![]);
    assert!(ended.is_end() && ended.cancelled_activities.is_empty());
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
}

struct Probe {
    handler: Arc<dyn OrchestrationHandler>,
    /// Dies with the last thing that the program or one of its closures holds.
    alive: Weak<()>,
}

/// A program that holds one thing in its locals, in typed closures, in every combinator.
fn probe() -> Probe {
    let held = Arc::new(());
    let alive = Arc::downgrade(&held);
    let handler = handler(move |ctx, _| {
        let held = held.clone();
        async move {
            let typed = ctx.schedule_activity_typed::<_, u32>("A", &1);
            let captured = held.clone();
            let mapped = ctx.schedule_wait_typed::<u32>("e").map(move |number| (number, captured));
            let (clone, captured) = (ctx.clone(), held.clone());
            let nested = async move {
                let result = clone.schedule_sub_orchestration_typed::<_, u32>("C", &2).await;
                (result, captured)
            };
            let many =
                ctx.join((0..40).map(|n| ctx.schedule_activity("M", n.to_string())).collect::<Vec<_>>());
            let both = ctx.join3(nested, many, mapped);
            ctx.select2(both, typed).await;
            drop(ctx.schedule_activity("B", ""));
            ctx.schedule_wait("end").await;
            Ok(String::new())
        }
    });
    Probe { handler, alive }
}

#[test]
fn an_execution_frees_everything_when_it_is_dropped_or_ends() {
    let messages = [start(""), raised("e", "1"), completed(2, "5"), queued("q", "unread"), raised("end", "")];
    for taken in 1..=messages.len() {
        let Probe { handler, alive } = probe();
        let (turn, execution) = first_turn(&handler, messages[..taken].to_vec());
        assert_eq!(turn.is_end(), taken == messages.len());
        assert!(alive.strong_count() > 1 || turn.is_end());
        drop(execution);
        assert_eq!(alive.strong_count(), 1, "only the handler holds it after {taken} messages");
        drop(handler);
        assert_eq!(alive.strong_count(), 0);
    }
}

#[test]
fn a_deep_nest_of_futures_is_dropped_without_a_stack_overflow() {
    let program = handler(|ctx, _| async move {
        let all: Vec<_> = (0..100_000).map(|_| ctx.schedule_wait("never")).collect();
        ctx.join(all).await;
        Ok(String::new())
    });
    let (turn, execution) = first_turn(&program, vec![start("")]);
    assert_eq!(turn.events.len(), 100_001);
    drop(execution);
}

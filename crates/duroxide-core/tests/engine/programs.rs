//! Random programs with random messages, evictions and crashes. One generic handler interprets them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duroxide_core::{
    BackoffStrategy, EventKind, OrchestrationContext, OrchestrationHandler, Outcome, RetryPolicy, WorkItem,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use proptest::prelude::*;

use crate::build::{
    cancel, child_completed, child_failed, completed, completed_in, failed, fired, handler, queued, raised,
    start, start_by_parent,
};
use crate::driver::{Driver, Keep};

#[derive(Debug, Clone)]
enum Op {
    Activity,
    Retried,
    Timer,
    Wait(u8),
    Dequeue(u8),
    Child,
    Detach,
    Guid,
    Now,
    Trace,
    /// Schedules the first, runs the second, then awaits or drops the first.
    Hold(Box<Op>, Box<Op>, bool),
    Dropped(Box<Op>),
    Seq(Vec<Op>),
    Join(Vec<Op>),
    Select(Box<Op>, Box<Op>),
    Repeat(u8, Box<Op>),
    ContinueAsNew,
    Panic,
}

fn leaf() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => Just(Op::Activity),
        2 => Just(Op::Retried),
        3 => Just(Op::Timer),
        4 => (0..2u8).prop_map(Op::Wait),
        4 => (0..2u8).prop_map(Op::Dequeue),
        2 => Just(Op::Child),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let base = prop_oneof![
        12 => leaf(),
        1 => Just(Op::Detach),
        2 => Just(Op::Guid),
        1 => Just(Op::Now),
        1 => Just(Op::Trace),
        1 => Just(Op::ContinueAsNew),
    ];
    base.prop_recursive(4, 24, 4, |inner| {
        let boxed = || inner.clone().prop_map(Box::new);
        prop_oneof![
            3 => (leaf().prop_map(Box::new), boxed(), any::<bool>()).prop_map(|(a, b, read)| Op::Hold(a, b, read)),
            1 => boxed().prop_map(Op::Dropped),
            4 => proptest::collection::vec(inner.clone(), 1..4).prop_map(Op::Seq),
            2 => proptest::collection::vec(inner.clone(), 0..4).prop_map(Op::Join),
            3 => (boxed(), boxed()).prop_map(|(a, b)| Op::Select(a, b)),
            1 => (1..4u8, boxed()).prop_map(|(times, op)| Op::Repeat(times, op)),
        ]
    })
}

fn program() -> impl Strategy<Value = Op> {
    let end = prop_oneof![6 => Just(None), 3 => Just(Some(Op::ContinueAsNew)), 1 => Just(Some(Op::Panic))];
    let held = proptest::option::of(leaf());
    (held, op(), end).prop_map(|(held, op, end)| {
        let body = Op::Seq(std::iter::once(op).chain(end).collect());
        match held {
            Some(held) => Op::Hold(Box::new(held), Box::new(body), true),
            None => body,
        }
    })
}

/// What the program has read from events and queues.
type Read = Arc<Mutex<BTreeSet<String>>>;

fn interpret(ctx: OrchestrationContext, op: Op, read: Read) -> BoxFuture<'static, String> {
    let noted = read.clone();
    let note = move |data: String| {
        noted.lock().expect("not poisoned").insert(data.clone());
        data
    };
    let text = |result: Result<String, String>| result.unwrap_or_else(|error| error);
    match op {
        // These schedule when they are built, so that Hold and Dropped mean something.
        Op::Activity => ctx.schedule_activity("A", "").map(text).boxed(),
        Op::Retried => {
            let policy = RetryPolicy::new(3)
                .with_backoff(BackoffStrategy::Fixed { delay: Duration::from_secs(1) })
                .with_timeout(Duration::from_secs(5));
            ctx.schedule_activity_with_retry("A", "", policy).map(text).boxed()
        }
        Op::Timer => ctx.schedule_timer(Duration::from_secs(1)).map(|()| "t".to_string()).boxed(),
        Op::Wait(n) => ctx.schedule_wait(format!("e{n}")).map(note).boxed(),
        Op::Dequeue(n) => ctx.dequeue_event(format!("q{n}")).map(note).boxed(),
        Op::Child => ctx.schedule_sub_orchestration("C", "").map(text).boxed(),
        Op::Guid => ctx.new_guid().map(|guid| guid.map_or(0, |text| text.len()).to_string()).boxed(),
        Op::Now => ctx.utc_now().map(|now| now.is_ok().to_string()).boxed(),
        Op::Detach => {
            ctx.schedule_orchestration("D", "detached", "");
            std::future::ready(String::new()).boxed()
        }
        Op::Trace => {
            ctx.trace_info("here");
            std::future::ready(String::new()).boxed()
        }
        Op::Hold(..)
        | Op::Dropped(_)
        | Op::Seq(_)
        | Op::Join(_)
        | Op::Select(..)
        | Op::Repeat(..)
        | Op::ContinueAsNew
        | Op::Panic => async move { compose(ctx, op, read).await }.boxed(),
    }
}

async fn compose(ctx: OrchestrationContext, op: Op, read: Read) -> String {
    let again = |op: Op| interpret(ctx.clone(), op, read.clone());
    match op {
        Op::Hold(held, op, is_read) => {
            let held = again(*held);
            let out = again(*op).await;
            if is_read { out + &held.await } else { out }
        }
        Op::Dropped(op) => {
            drop(again(*op));
            String::new()
        }
        Op::Seq(ops) => {
            let mut out = String::new();
            for op in ops {
                out += &again(op).await;
            }
            out
        }
        Op::Join(ops) => ctx.join(ops.into_iter().map(again).collect()).await.concat(),
        Op::Select(a, b) => {
            let (index, out) = ctx.select2(again(*a), again(*b)).await.into_tuple();
            format!("{index}{out}")
        }
        Op::Repeat(times, op) => {
            let mut out = String::new();
            for _ in 0..times {
                out += &again((*op).clone()).await;
            }
            out
        }
        Op::ContinueAsNew => ctx.continue_as_new("next").await.unwrap_or_default(),
        Op::Panic => panic!("as planned"),
        Op::Activity
        | Op::Retried
        | Op::Timer
        | Op::Wait(_)
        | Op::Dequeue(_)
        | Op::Child
        | Op::Detach
        | Op::Guid
        | Op::Now
        | Op::Trace => again(op).await,
    }
}

/// A message, chosen before the program is known; numbers pick one of what there is then.
#[derive(Debug, Clone, Copy)]
enum Choice {
    /// Answers the nth schedule, whether it still wants it or not.
    Answer(usize, bool),
    Event(u8),
    Queue(u8),
    Repeat(usize),
    Stale,
    Unknown,
    Cancel,
    Collision,
}

fn choice() -> impl Strategy<Value = Choice> {
    prop_oneof![
        14 => (0..16usize, any::<bool>()).prop_map(|(n, ok)| Choice::Answer(n, ok)),
        5 => (0..2u8).prop_map(Choice::Event),
        6 => (0..2u8).prop_map(Choice::Queue),
        2 => (0..20usize).prop_map(Choice::Repeat),
        1 => Just(Choice::Stale),
        1 => Just(Choice::Collision),
        (1) => prop_oneof![12 => Just(Choice::Stale), 1 => Just(Choice::Unknown), 2 => Just(Choice::Cancel)],
    ]
}

#[derive(Debug, Clone)]
struct Step {
    batch: Vec<Choice>,
    keep: usize,
    now_ms: u64,
}

fn step() -> impl Strategy<Value = Step> {
    (proptest::collection::vec(choice(), 0..5), 0..3usize, 0..20_000u64)
        .prop_map(|(batch, keep, now_ms)| Step { batch, keep, now_ms })
}

fn answers(driver: &Driver) -> Vec<Box<dyn Fn(bool) -> WorkItem>> {
    let mut answers: Vec<Box<dyn Fn(bool) -> WorkItem>> = Vec::new();
    for event in &driver.history {
        let id = event.event_id;
        if let EventKind::ActivityScheduled { name, .. } = &event.kind {
            if name == "A" {
                answers.push(Box::new(move |ok| if ok { completed(id, "a") } else { failed(id, "b") }));
            }
        } else if matches!(event.kind, EventKind::TimerCreated { .. }) {
            answers.push(Box::new(move |_| fired(id)));
        } else if matches!(event.kind, EventKind::SubOrchestrationScheduled { .. }) {
            answers
                .push(Box::new(move |ok| if ok { child_completed(id, "c") } else { child_failed(id, "d") }));
        }
    }
    answers
}

fn message(choice: Choice, driver: &Driver, sent: &[WorkItem]) -> Option<WorkItem> {
    let unique = sent.len();
    match choice {
        Choice::Answer(n, ok) => {
            let answers = answers(driver);
            (!answers.is_empty()).then(|| answers[n % answers.len()](ok))
        }
        Choice::Event(n) => Some(raised(&format!("e{n}"), &format!("event {unique}"))),
        Choice::Queue(n) => Some(queued(&format!("q{n}"), &format!("message {unique}"))),
        Choice::Repeat(n) => {
            // Events and messages have no ids: sending one again is another one.
            let earlier = sent.get(n % sent.len().max(1))?.clone();
            (!matches!(earlier, WorkItem::ExternalRaised { .. } | WorkItem::QueueMessage { .. }))
                .then_some(earlier)
        }
        Choice::Stale => Some(completed_in(9, 2, "stale")),
        Choice::Unknown => Some(completed(1, "unknown")),
        Choice::Cancel => Some(cancel("enough")),
        Choice::Collision => Some(start_by_parent("p", 3, 8)),
    }
}

fn data_of(items: &[WorkItem]) -> Vec<String> {
    let mut data = Vec::new();
    for item in items {
        if let WorkItem::ExternalRaised { data: one, .. } | WorkItem::QueueMessage { data: one, .. } = item {
            data.push(one.clone());
        } else if let WorkItem::ContinueAsNew { carry_forward_events, .. } = item {
            data.extend(carry_forward_events.iter().map(|(_, data)| data.clone()));
        }
    }
    data
}

fn check_program(op: Op, steps: Vec<Step>) {
    let read = Read::default();
    let noted = read.clone();
    let handler: Arc<dyn OrchestrationHandler> = handler(move |ctx, _| {
        let future = interpret(ctx, op.clone(), noted.clone());
        async move { Ok(future.await) }
    });
    let mut driver = Driver::new(handler);
    let mut sent = Vec::new();
    let first = Step { batch: vec![], keep: 0, now_ms: 0 };
    for step in std::iter::once(first).chain(steps) {
        let mut batch = if sent.is_empty() { vec![start("")] } else { vec![] };
        sent.extend(batch.iter().cloned());
        for choice in step.batch {
            if let Some(message) = message(choice, &driver, &sent) {
                sent.push(message.clone());
                batch.push(message);
            }
        }
        let keep = [Keep::Live, Keep::Replayed, Keep::Nothing][step.keep];
        let turn = driver.turn_at(step.now_ms, batch, keep);
        if turn.outcome == Outcome::ContinuedAsNew {
            let mut found: Vec<String> = read.lock().expect("not poisoned").iter().cloned().collect();
            found.extend(data_of(&turn.orchestrator_items));
            found.sort();
            let mut all = data_of(&sent);
            all.sort();
            assert_eq!(found, all, "each event and message is read or handed on, once");
        }
        if turn.is_end() {
            break;
        }
    }
    driver.check_batching();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_random_program_gives_one_history_live_replayed_and_in_any_batches(
        op in program(),
        steps in proptest::collection::vec(step(), 0..12),
    ) {
        check_program(op, steps);
    }
}

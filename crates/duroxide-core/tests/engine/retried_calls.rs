//! A retried call as one thing: when it is scheduled, which attempts belong to it, and its options.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::{
    ActivityDeadlines, AppErrorKind, BackoffStrategy, ErrorDetails, Event, EventKind, OrchestrationHandler,
    Outcome, RetriedCall, RetryPolicy, WorkItem, open_work,
};
use expect_test::expect;
use futures::FutureExt as _;

use crate::build::{completed, failed, fired, handler, raised, start};
use crate::driver::{Driver, check, failure, output, run};

fn at_once(max_attempts: u32) -> RetryPolicy {
    RetryPolicy::new(max_attempts).with_backoff(BackoffStrategy::None)
}

fn reported(id: u64, message: &str, retryable: bool) -> WorkItem {
    let details = ErrorDetails::Application {
        kind: AppErrorKind::ActivityFailed,
        message: message.to_string(),
        retryable,
    };
    WorkItem::ActivityFailed { instance: "i".to_string(), execution_id: 1, id, details }
}

/// What a worker reports of an attempt that ran longer than it may.
fn ran_too_long(id: u64) -> WorkItem {
    reported(id, "too long", false)
}

fn options_of(item: &WorkItem) -> (Option<&str>, ActivityDeadlines, Option<RetriedCall>) {
    let tag = duroxide_core::columns_of(item).tag;
    if let WorkItem::ActivityExecuteWithin { deadlines, retried, .. } = item {
        (tag, *deadlines, *retried)
    } else {
        (tag, ActivityDeadlines::default(), None)
    }
}

/// The same history as if another build had begun it.
fn begun_by(version: &str, mut history: Vec<Event>) -> Vec<Event> {
    for event in &mut history {
        event.duroxide_version = version.to_string();
    }
    history
}

fn two_calls() -> Arc<dyn OrchestrationHandler> {
    handler(|ctx, _| async move {
        let policy = at_once(2).with_timeout(Duration::from_secs(9));
        let first = ctx.schedule_activity_with_retry("A", "", policy.clone());
        let second = ctx.schedule_activity_with_retry("B", "", policy);
        let go = ctx.schedule_wait("go").await;
        Ok(format!("{go} {} {}", first.await?, second.await?))
    })
}

#[test]
fn a_retried_call_schedules_its_first_attempt_and_its_timeout_when_it_is_made() {
    let driver = check(
        two_calls(),
        vec![failed(5, "no"), completed(2, "a"), raised("go", "went"), completed(14, "b")],
        expect![[r#"
            1 OrchestrationStarted { input: "" }
            2 ActivityScheduled { name: "A", input: "", session_id: None, tag: None }
            3 RetryPolicyRecorded { policy: "{\"max_attempts\":2,\"backoff\":\"None\",\"timeout\":{\"secs\":9,\"nanos\":0}}" }
            4 TimerCreated { fire_at_ms: 11000 }
            5 ActivityScheduled { name: "B", input: "", session_id: None, tag: None }
            6 RetryPolicyRecorded { policy: "{\"max_attempts\":2,\"backoff\":\"None\",\"timeout\":{\"secs\":9,\"nanos\":0}}" }
            7 TimerCreated { fire_at_ms: 11000 }
            8 ExternalSubscribed { name: "go" }
            9 <- 5 ActivityFailed { details: Application { kind: ActivityFailed, message: "no", retryable: false } }
            10 <- 2 ActivityCompleted { result: "a" }
            11 <- 8 ExternalEvent { name: "go", data: "went" }
            12 <- 4 TimerCancelled { reason: "dropped_future" }
            13 <- 7 TimerCancelled { reason: "dropped_future" }
            14 <- 5 ActivityScheduled { name: "B", input: "", session_id: None, tag: None }
            15 TimerCreated { fire_at_ms: 14000 }
            16 <- 14 ActivityCompleted { result: "b" }
            17 <- 15 TimerCancelled { reason: "dropped_future" }
            18 OrchestrationCompleted { output: "went a b" }
        "#]],
    );
    assert_eq!(output(driver.last()), "went a b");
}

#[test]
fn a_retried_call_that_is_never_polled_is_cancelled_when_it_is_dropped() {
    let program = handler(|ctx, _| async move {
        let call = ctx
            .schedule_activity_with_retry("A", "", at_once(2).with_timeout(Duration::from_secs(9)))
            .with_tag("gpu");
        ctx.schedule_wait("go").await;
        drop(call);
        Ok(ctx.schedule_wait("end").await)
    });
    let driver = run(program, vec![raised("go", "")]);
    assert_eq!(driver.last().cancelled_activities.len(), 1);
    let reasons = driver.last().events.iter().map(|event| &event.kind);
    let cancelled = reasons.filter(|kind| matches!(kind, EventKind::TimerCancelled { .. })).count();
    assert_eq!(cancelled, 1);
}

#[test]
fn an_execution_of_a_build_before_replays_with_its_calls_scheduled_when_they_are_polled() {
    let history = |kinds: Vec<(Option<u64>, EventKind)>| {
        let events = (1..).zip(kinds).map(|(id, (source, kind))| Event {
            event_id: id,
            source_event_id: source,
            instance_id: "i".to_string(),
            execution_id: 1,
            timestamp_ms: 1_000,
            duroxide_version: "1.0.0".to_string(),
            kind,
        });
        events.collect::<Vec<_>>()
    };
    let activity = |name: &str| EventKind::ActivityScheduled {
        name: name.to_string(),
        input: String::new(),
        session_id: None,
        tag: None,
    };
    let policy = || EventKind::RetryPolicyRecorded {
        policy: r#"{"max_attempts":2,"backoff":"None","timeout":{"secs":9,"nanos":0}}"#.to_string(),
    };
    let started = EventKind::OrchestrationStarted {
        name: "Program".to_string(),
        version: "1.0.0".to_string(),
        input: String::new(),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        carry_forward_events: None,
        initial_custom_status: None,
    };
    let details = ErrorDetails::Application {
        kind: AppErrorKind::ActivityFailed,
        message: "no".to_string(),
        retryable: true,
    };
    // As that build wrote it: nothing before the first poll, the timer behind the policy, no link between attempts.
    let stored = history(vec![
        (None, started),
        (None, EventKind::ExternalSubscribed { name: "go".to_string() }),
        (Some(2), EventKind::ExternalEvent { name: "go".to_string(), data: "went".to_string() }),
        (None, activity("A")),
        (None, policy()),
        (None, EventKind::TimerCreated { fire_at_ms: 10_000 }),
        (Some(4), EventKind::ActivityFailed { details }),
        (Some(6), EventKind::TimerCancelled { reason: "dropped_future".to_string() }),
        (None, activity("A")),
        (None, EventKind::TimerCreated { fire_at_ms: 10_000 }),
    ]);
    let mut driver = Driver::new(two_calls()).with_history(stored);
    driver.send(vec![completed(9, "a"), failed(13, "no"), completed(18, "b")]);
    assert_eq!(output(driver.last()), "went a b");
    let links: Vec<_> = driver.worker_items().into_iter().map(|item| options_of(item).2).collect();
    let second_of_b = RetriedCall { first_execution_id: 1, first_id: 13, attempt: 2 };
    assert_eq!(links, [None, Some(second_of_b)], "the key is the same, although the history has no link");
    let linked = driver.history.iter().filter(|event| {
        matches!(event.kind, EventKind::ActivityScheduled { .. }) && event.source_event_id.is_some()
    });
    assert_eq!(linked.count(), 0, "a build before must be able to replay it");
}

#[test]
fn every_attempt_names_the_first_one_to_the_worker_and_in_the_history() {
    let program = handler(|ctx, _| async move {
        ctx.schedule_activity("Before", "").await?;
        ctx.schedule_activity_with_retry("A", "", at_once(3)).await
    });
    let driver = run(program, vec![completed(2, ""), failed(4, "1"), failed(7, "2"), completed(9, "3")]);
    assert_eq!(output(driver.last()), "3");
    let links: Vec<_> = driver.worker_items().into_iter().map(|item| options_of(item).2).collect();
    let attempt = |attempt| Some(RetriedCall { first_execution_id: 1, first_id: 4, attempt });
    assert_eq!(links, [None, None, attempt(2), attempt(3)]);
    for length in [7, 9] {
        let open = open_work(&driver.history[..length]);
        let item = open.activities.last().expect("an attempt is open");
        assert_eq!(Some(item), driver.worker_items().get(if length == 7 { 2 } else { 3 }).copied());
    }
}

#[test]
fn tags_deadlines_and_sessions_hold_for_every_attempt() {
    let program = handler(|ctx, _| async move {
        ctx.schedule_activity_with_retry_on_session("A", "", at_once(2), "s")
            .with_tag("gpu")
            .with_schedule_to_start(Duration::from_secs(60))
            .with_start_to_close(Duration::from_secs(5))
            .await
    });
    let driver = run(program, vec![reported(2, "no", true)]);
    let deadlines = ActivityDeadlines { schedule_to_start_ms: Some(60_000), start_to_close_ms: Some(5_000) };
    for item in driver.worker_items() {
        assert_eq!((options_of(item).0, options_of(item).1), (Some("gpu"), deadlines));
        assert_eq!(duroxide_core::columns_of(item).session_id, Some("s"));
    }
    assert_eq!(driver.worker_items().len(), 2);
}

/// A call with each of the three timeouts, and what makes it time out.
fn timing_out(retry_timeouts: bool) -> Vec<(Arc<dyn OrchestrationHandler>, WorkItem, &'static str)> {
    let program = move |which: u8| {
        handler(move |ctx, _| async move {
            let second = Duration::from_secs(1);
            let policy = if which == 0 { at_once(2).with_timeout(second) } else { at_once(2) };
            let mut call = ctx.schedule_activity_with_retry("A", "", policy);
            if which == 1 {
                call = call.with_schedule_to_start(second);
            } else if which == 2 {
                call = call.with_start_to_close(second);
            }
            if retry_timeouts {
                call = call.retry_timeouts();
            }
            call.await
        })
    };
    vec![
        (program(0), fired(4), "timeout: activity timed out"),
        (program(1), fired(4), "timeout: activity 'A' was not started within 1000 ms"),
        (program(2), ran_too_long(2), "too long"),
    ]
}

#[test]
fn a_timeout_is_the_result_unless_timeouts_are_retried() {
    for (program, timeout, text) in timing_out(false) {
        let driver = run(program, vec![timeout]);
        assert_eq!(failure(driver.last()), text);
        assert_eq!(driver.worker_items().len(), 1, "{text}");
    }
    for (program, timeout, text) in timing_out(true) {
        let driver = run(program, vec![timeout]);
        assert_eq!(driver.last().outcome, Outcome::Waiting, "{text}");
        assert_eq!(driver.worker_items().len(), 2, "{text}: a second attempt");
    }
}

#[test]
fn whether_timeouts_are_retried_is_recorded_with_the_policy() {
    let mut recorded = timing_out(true);
    let mut changed = timing_out(false);
    let (before, timeout, _) = recorded.remove(0);
    let mut driver = Driver::new(before);
    driver.send(vec![start("")]);
    let mut driver = Driver::new(changed.remove(0).0).with_history(driver.history.clone());
    driver.turn(vec![timeout]);
    assert_eq!(driver.last().outcome, Outcome::Waiting, "the call goes on as it began");
}

#[test]
fn an_option_that_comes_after_something_was_awaited_panics() {
    let program = handler(|ctx, _| async move {
        let call = ctx.schedule_activity_with_retry("A", "", at_once(2));
        ctx.schedule_wait("go").await;
        call.retry_timeouts().await
    });
    let driver = run(program, vec![raised("go", "")]);
    assert!(
        matches!(&driver.last().outcome, Outcome::Panicked { message } if message.starts_with("retry_timeouts must")),
        "{:?}",
        driver.last().outcome
    );
}

#[test]
fn texts_that_parse_as_json_are_recorded_as_the_build_that_began_the_execution_did() {
    let program = handler(|ctx, _| async move {
        let echoed: String = ctx.schedule_activity_typed("Echo", &"\"quoted\"").await?;
        Ok(echoed)
    });
    let mut driver = Driver::new(program.clone());
    driver.send(vec![start("")]);
    let recorded = &driver.history[1].kind;
    assert!(matches!(recorded, EventKind::ActivityScheduled { input, .. } if input == r#""\"quoted\"""#));
    driver.turn(vec![completed(2, r#""\"quoted\"""#)]);
    assert_eq!(output(driver.last()), "\"quoted\"");

    let mut bare = begun_by("1.0.0", driver.history[..2].to_vec());
    if let EventKind::ActivityScheduled { input, .. } = &mut bare[1].kind {
        *input = "\"quoted\"".to_string();
    }
    let mut old = Driver::new(program).with_history(bare);
    old.turn(vec![completed(2, "done")]);
    assert_eq!(output(old.last()), "done", "a stored history replays as it was");
}

#[test]
fn a_generated_child_id_replays_with_and_without_its_parent() {
    let program = handler(|ctx, _| async move { ctx.schedule_sub_orchestration("Child", "").await });
    let mut driver = Driver::new(program.clone());
    driver.send(vec![start("")]);
    for (version, child) in [("1.0.0", "i::sub::2"), ("1.1.0", "sub::2"), ("1.1.0", "i::sub::2")] {
        let mut history = begun_by(version, driver.history.clone());
        if let EventKind::SubOrchestrationScheduled { instance, .. } = &mut history[1].kind {
            *instance = child.to_string();
        }
        assert_eq!(history[1].child_instance().as_deref(), Some("i::sub::2"));
        assert_eq!(open_work(&history).children[0].instance(), "i::sub::2");
        let mut replayed = Driver::new(program.clone()).with_history(history);
        replayed.turn(vec![crate::build::cancel("enough")]);
        let told = WorkItem::CancelInstance {
            instance: "i::sub::2".to_string(),
            reason: "parent canceled".to_string(),
        };
        assert!(replayed.last().orchestrator_items.contains(&told), "{version} {child}");
    }
    let mut old = Driver::new(program).with_history(begun_by("1.0.0", driver.history[..1].to_vec()));
    old.turn(vec![raised("early", "")]);
    assert_eq!(old.history[1].child_instance().as_deref(), Some("i::sub::2"));
}

#[test]
fn the_error_of_a_value_reads_as_it_did_in_the_build_that_began_the_execution() {
    let program = handler(|ctx, _| async move {
        ctx.set_kv_value("text", "seven");
        let stored = ctx.get_kv_value_typed::<u32>("text").expect_err("no number");
        let output: Result<u32, String> = ctx.schedule_activity_typed("Echo", &"seven").await;
        let retried: Result<u32, String> =
            ctx.schedule_activity_with_retry_typed("Echo", &"seven", at_once(1)).await;
        let event = AssertUnwindSafe(ctx.schedule_wait_typed::<u32>("number")).catch_unwind().await;
        let event = duroxide_core::panic_text(event.expect_err("no number"));
        let texts = [stored, output.expect_err("no number"), retried.expect_err("no number"), event];
        Ok(texts.join("\n"))
    });
    let run = |version: &str| {
        let mut begun = Driver::new(program.clone());
        begun.send(vec![start("")]);
        let mut driver =
            Driver::new(program.clone()).with_history(begun_by(version, begun.history[..1].to_vec()));
        driver.turn(vec![raised("number", "seven")]);
        driver.turn(vec![completed(3, "seven")]);
        let retried = driver.history.last().expect("the policy is recorded last").event_id - 1;
        driver.turn(vec![completed(retried, "seven")]);
        output(driver.last()).to_string()
    };
    expect![[r#"
        KV deserialization error: the stored text is not a u32: Syntax error at line 1 column 1
        the stored text is not a u32: Syntax error at line 1 column 1
        the stored text is not a u32: Syntax error at line 1 column 1
        malformed event: the stored text is not a u32: Syntax error at line 1 column 1"#]]
    .assert_eq(&run("1.0.0"));
    expect![[r#"
        KV deserialization error: the stored text is not a u32: no valid JSON at line 1 column 1
        output of activity 'Echo' is not a u32: no valid JSON at line 1 column 1
        output of activity 'Echo' is not a u32: no valid JSON at line 1 column 1
        malformed event: data of event 'number' is not a u32: no valid JSON at line 1 column 1"#]]
    .assert_eq(&run("1.1.0"));
}

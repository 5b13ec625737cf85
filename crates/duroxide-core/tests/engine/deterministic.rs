//! Recorded values, the log, and what a program can know about itself.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use duroxide_core::{EventKind, Execution};
use expect_test::expect;

use crate::build::{activity, completed_in, event, handler, history, raised, start};
use crate::driver::{Driver, Keep, check, output, run};

#[test]
fn the_time_is_recorded_in_the_turn_that_asks() {
    let program = handler(|ctx, _| async move {
        let first = ctx.utc_now().await?;
        ctx.schedule_wait("e").await;
        let second = ctx.utc_now().await?;
        Ok(format!("{:?}", second.duration_since(first).map_err(|error| error.to_string())?))
    });
    let driver = check(
        program,
        vec![raised("e", "")],
        expect![[r#"
        1 OrchestrationStarted { input: "" }
        2 ActivityScheduled { name: "__duroxide_syscall:utc_now_ms", input: "", session_id: None, tag: None }
        3 <- 2 ActivityCompleted { result: "2000" }
        4 ExternalSubscribed { name: "e" }
        5 <- 4 ExternalEvent { name: "e", data: "" }
        6 ActivityScheduled { name: "__duroxide_syscall:utc_now_ms", input: "", session_id: None, tag: None }
        7 <- 6 ActivityCompleted { result: "3000" }
        8 OrchestrationCompleted { output: "1s" }
    "#]],
    );
    assert_eq!(output(driver.last()), "1s");
    assert_eq!(driver.worker_items().len(), 0);
}

#[test]
fn several_values_of_one_turn_stand_next_to_their_questions() {
    let program = handler(|ctx, _| async move {
        let (first, now, second) = ctx.join3(ctx.new_guid(), ctx.utc_now(), ctx.new_guid()).await;
        assert!(now? > UNIX_EPOCH);
        ctx.schedule_wait("e").await;
        let third = ctx.new_guid().await?;
        Ok(format!("{} {} {third}", first?, second?))
    });
    let driver = run(program, vec![raised("e", "")]);
    let guids: BTreeSet<&str> = output(driver.last()).split(' ').collect();
    assert_eq!(guids.len(), 3, "all different");
    for guid in guids {
        let parts: Vec<usize> = guid.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert_eq!(&guid[14..15], "4");
        assert!("89ab".contains(&guid[19..20]), "{guid}");
    }
    for pair in driver.history.windows(2) {
        if matches!(&pair[0].kind, EventKind::ActivityScheduled { .. }) {
            assert!(matches!(&pair[1].kind, EventKind::ActivityCompleted { .. }));
            assert_eq!(pair[1].source_event_id, Some(pair[0].event_id));
        }
    }
}

#[test]
fn a_recorded_value_that_was_answered_later_is_still_read() {
    let guid = activity("__duroxide_syscall:new_guid", "");
    let answer = |text: &str| EventKind::ActivityCompleted { result: text.to_string() };
    let program = handler(|ctx, _| async move {
        let guid = ctx.new_guid();
        ctx.schedule_activity("A", "").await?;
        guid.await
    });
    let recorded = history(vec![
        (None, guid),
        (None, activity("A", "")),
        (Some(2), answer("recorded")),
        (Some(3), answer("a")),
    ]);
    let mut driver = Driver::new(program).with_history(recorded);
    driver.turn(vec![]);
    assert_eq!(output(driver.last()), "recorded");
}

#[test]
fn a_value_whose_answer_was_never_recorded_is_answered_now() {
    let recorded = history(vec![(None, activity("__duroxide_syscall:utc_now_ms", ""))]);
    let program = handler(|ctx, _| async move { Ok(format!("{:?}", ctx.utc_now().await?)) });
    let mut driver = Driver::new(program).with_history(recorded);
    driver.turn(vec![]);
    assert!(output(driver.last()).contains("tv_sec: 2"), "{}", output(driver.last()));
}

#[test]
fn the_clock_of_a_turn_never_runs_backwards() {
    let program = handler(|ctx, _| async move {
        loop {
            ctx.schedule_wait("e").await;
            ctx.utc_now().await?;
        }
    });
    let mut driver = Driver::new(program);
    driver.turn_at(5_000, vec![start("")], Keep::Live);
    driver.turn_at(3_000, vec![raised("e", "")], Keep::Live);
    driver.turn_at(9_000, vec![completed_in(9, 2, "a stale message leaves no event")], Keep::Live);
    driver.turn_at(7_000, vec![raised("e", "")], Keep::Live);
    let times: BTreeSet<u64> = driver.history.iter().map(|event| event.timestamp_ms).collect();
    assert_eq!(times, BTreeSet::from([5_000, 7_000]));
}

#[test]
fn a_trace_is_written_once_and_not_at_replay() {
    let program = handler(|ctx, _| async move {
        ctx.trace_info("started");
        ctx.schedule_wait("e").await;
        ctx.trace("custom", "got it");
        Ok(String::new())
    });
    let mut driver = Driver::new(program);
    driver.turn_at(1, vec![start("")], Keep::Nothing);
    driver.turn_at(2, vec![raised("other", "")], Keep::Nothing);
    driver.turn_at(3, vec![raised("e", "")], Keep::Nothing);
    let lines: Vec<Vec<&str>> = driver
        .turns
        .iter()
        .map(|turn| turn.traces.iter().map(|line| line.message.as_str()).collect())
        .collect();
    assert_eq!(lines, [vec!["started"], vec![], vec!["got it"]]);
}

#[test]
fn is_replaying_is_true_exactly_for_what_ran_before() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let program = handler(move |ctx, _| {
        let noted = noted.clone();
        async move {
            let note = |place: &str| {
                noted.lock().expect("not poisoned").push((place.to_string(), ctx.is_replaying()))
            };
            note("start");
            ctx.schedule_wait("a").await;
            note("a");
            ctx.schedule_wait("b").await;
            note("b");
            Ok(String::new())
        }
    });
    let mut driver = Driver::new(program);
    driver.turn_at(1, vec![start("")], Keep::Nothing);
    driver.turn_at(1, vec![raised("a", "")], Keep::Nothing);
    seen.lock().expect("not poisoned").clear();
    driver.turn_at(1, vec![raised("b", "")], Keep::Nothing);
    let once = [("start".to_string(), true), ("a".to_string(), true), ("b".to_string(), false)];
    assert_eq!(*seen.lock().expect("not poisoned"), [once.clone(), once].concat());
}

#[test]
fn a_program_knows_who_it_is() {
    let program = handler(|ctx, input| async move {
        let who =
            (ctx.instance_id(), ctx.execution_id(), ctx.orchestration_name(), ctx.orchestration_version());
        Ok(format!("{who:?} {input}"))
    });
    let mut driver = Driver::new(program);
    driver.turn(vec![start("input")]);
    assert_eq!(output(driver.last()), r#"("i", 1, "Program", "1.0.0") input"#);
}

#[test]
fn nothing_is_read_from_a_clock_at_replay() {
    let program = handler(|ctx, _| async move {
        ctx.schedule_timer(Duration::from_secs(1)).await;
        ctx.utc_now().await?;
        ctx.schedule_wait("e").await;
        Ok(String::new())
    });
    let recorded = vec![
        event(2, None, EventKind::TimerCreated { fire_at_ms: 77 }),
        event(3, Some(2), EventKind::TimerFired { fire_at_ms: 77 }),
        event(4, None, activity("__duroxide_syscall:utc_now_ms", "")),
        event(5, Some(4), EventKind::ActivityCompleted { result: "12".to_string() }),
        event(6, None, EventKind::ExternalSubscribed { name: "e".to_string() }),
    ];
    let mut whole = history(vec![]);
    whole.extend(recorded);
    let mut driver = Driver::new(program).with_history(whole);
    driver.turn_at(u64::MAX - 1, vec![raised("e", "")], Keep::Live);
    assert_eq!(output(driver.last()), "");
}

#[test]
fn executions_and_contexts_cross_threads() {
    fn check_send<T: Send>() {}
    check_send::<Execution>();
    check_send::<duroxide_core::OrchestrationContext>();
    check_send::<duroxide_core::DurableFuture<String>>();
}

//! Code and history do not agree: every field counts, and the text says what was recorded, what the code does
//! now, where, and in which field they differ.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::{Event, EventKind, OrchestrationHandler, Outcome, WorkItem};
use expect_test::{Expect, expect};

use crate::build::{activity, child_completed, completed, event, failed, fired, handler, history, raised};
use crate::driver::{Driver, output, run_once};

fn diff(program: Arc<dyn OrchestrationHandler>, history: Vec<Event>, messages: Vec<WorkItem>) -> String {
    let mut turn = run_once(program, &history, messages).turn;
    assert!(turn.events.pop().expect("it ends").is_terminal());
    let Outcome::Nondeterministic { diff } = turn.outcome else {
        panic!("not nondeterministic: {:?}", turn.outcome)
    };
    // The line of the command is looked at elsewhere.
    diff.split(" at crates/").next().unwrap_or_default().to_string()
}

/// One recorded schedule and a program that now does something else there.
fn check(program: Arc<dyn OrchestrationHandler>, recorded: Vec<EventKind>, expected: Expect) {
    let events: Vec<_> =
        recorded
            .into_iter()
            .map(|kind| {
                if matches!(kind, EventKind::VersionRequested { .. }) {
                    (Some(2), kind)
                } else {
                    (None, kind)
                }
            })
            .collect();
    // The recorded events are the last of the history, and then there are others behind them.
    let text = diff(program.clone(), history(events.clone()), vec![]);
    expected.assert_eq(&text);
    let more = events
        .into_iter()
        .chain([(None, EventKind::ExternalEvent { name: "later".to_string(), data: String::new() })]);
    assert_eq!(diff(program, history(more.collect()), vec![]), text);
}

fn child(name: &str, instance: &str, input: &str) -> EventKind {
    EventKind::SubOrchestrationScheduled {
        name: name.to_string(),
        instance: instance.to_string(),
        input: input.to_string(),
    }
}

fn version(version: &str) -> EventKind {
    EventKind::VersionRequested { version: version.to_string() }
}

#[test]
fn every_field_of_an_activity_is_compared() {
    let program = handler(|ctx, _| async move { ctx.schedule_activity("A", "input").await });
    check(
        program.clone(),
        vec![activity("B", "input")],
        expect![
            "schedule mismatch at event 2: recorded activity 'B' (input of 5 bytes), but the code now asks for activity 'A' (input of 5 bytes); differs in name (recorded 'B', now 'A')"
        ],
    );
    check(
        program.clone(),
        vec![activity("A", "inbut")],
        expect![
            "schedule mismatch at event 2: recorded activity 'A' (input of 5 bytes), but the code now asks for activity 'A' (input of 5 bytes); differs in input (recorded 5 bytes, now 5 bytes, first difference at byte 2)"
        ],
    );
    check(
        program.clone(),
        vec![activity("A", "in")],
        expect![
            "schedule mismatch at event 2: recorded activity 'A' (input of 2 bytes), but the code now asks for activity 'A' (input of 5 bytes); differs in input (recorded 2 bytes, now 5 bytes, first difference at byte 2)"
        ],
    );
    let tagged = |session: Option<&str>, tag: Option<&str>| EventKind::ActivityScheduled {
        name: "A".to_string(),
        input: "input".to_string(),
        session_id: session.map(str::to_string),
        tag: tag.map(str::to_string),
    };
    check(
        program.clone(),
        vec![tagged(Some("s"), None)],
        expect![
            "schedule mismatch at event 2: recorded activity 'A' (input of 5 bytes, session 's'), but the code now asks for activity 'A' (input of 5 bytes); differs in session (recorded 's', now none)"
        ],
    );
    check(
        program.clone(),
        vec![tagged(None, Some("gpu"))],
        expect![
            "schedule mismatch at event 2: recorded activity 'A' (input of 5 bytes, tag 'gpu'), but the code now asks for activity 'A' (input of 5 bytes); differs in tag (recorded 'gpu', now none)"
        ],
    );
    check(
        program,
        vec![EventKind::TimerCreated { fire_at_ms: 1 }],
        expect![
            "schedule mismatch at event 2: recorded timer, but the code now asks for activity 'A' (input of 5 bytes); differs in kind"
        ],
    );
}

#[test]
fn every_field_of_a_child_is_compared() {
    let program = handler(|ctx, _| async move {
        let version = Some("1.0.0".to_string());
        ctx.schedule_sub_orchestration_versioned_with_id("C", version, "mine", "input").await
    });
    check(
        program.clone(),
        vec![child("D", "mine", "input"), version("1.0.0")],
        expect![
            "schedule mismatch at event 2: recorded suborchestration 'D' as 'mine' (input of 5 bytes), but the code now asks for suborchestration 'C' as 'mine' (input of 5 bytes); differs in name (recorded 'D', now 'C')"
        ],
    );
    check(
        program.clone(),
        vec![child("C", "yours", "input"), version("1.0.0")],
        expect![
            "schedule mismatch at event 2: recorded suborchestration 'C' as 'yours' (input of 5 bytes), but the code now asks for suborchestration 'C' as 'mine' (input of 5 bytes); differs in child id (recorded 'yours', now 'mine')"
        ],
    );
    check(
        program.clone(),
        vec![child("C", "mine", ""), version("1.0.0")],
        expect![
            "schedule mismatch at event 2: recorded suborchestration 'C' as 'mine' (input of 0 bytes), but the code now asks for suborchestration 'C' as 'mine' (input of 5 bytes); differs in input (recorded 0 bytes, now 5 bytes, first difference at byte 0)"
        ],
    );
    check(
        program.clone(),
        vec![child("C", "mine", "input"), version("2.0.0")],
        expect!["schedule mismatch at event 2: differs in version (recorded '2.0.0', now '1.0.0')"],
    );
    check(
        program,
        vec![child("C", "mine", "input")],
        expect!["schedule mismatch at event 2: differs in version (recorded none, now '1.0.0')"],
    );
    let without =
        handler(|ctx, _| async move { ctx.schedule_sub_orchestration_with_id("C", "mine", "input").await });
    check(
        without,
        vec![child("C", "mine", "input"), version("2.0.0")],
        expect!["schedule mismatch at event 2: differs in version (recorded '2.0.0', now none)"],
    );
}

#[test]
fn every_field_of_a_detached_start_is_compared() {
    let program = handler(|ctx, _| async move {
        ctx.schedule_orchestration_versioned("O", Some("1.0.0".to_string()), "apart", "input");
        Ok(ctx.schedule_wait("e").await)
    });
    let chained = |name: &str, instance: &str, input: &str| EventKind::OrchestrationChained {
        name: name.to_string(),
        instance: instance.to_string(),
        input: input.to_string(),
    };
    check(
        program.clone(),
        vec![chained("P", "apart", "input"), version("1.0.0")],
        expect![
            "schedule mismatch at event 2: recorded detached start of 'P' as 'apart' (input of 5 bytes), but the code now asks for detached start of 'O' as 'apart' (input of 5 bytes); differs in name (recorded 'P', now 'O')"
        ],
    );
    check(
        program.clone(),
        vec![chained("O", "other", "input"), version("1.0.0")],
        expect![
            "schedule mismatch at event 2: recorded detached start of 'O' as 'other' (input of 5 bytes), but the code now asks for detached start of 'O' as 'apart' (input of 5 bytes); differs in instance id (recorded 'other', now 'apart')"
        ],
    );
    check(
        program.clone(),
        vec![chained("O", "apart", "i"), version("1.0.0")],
        expect![
            "schedule mismatch at event 2: recorded detached start of 'O' as 'apart' (input of 1 bytes), but the code now asks for detached start of 'O' as 'apart' (input of 5 bytes); differs in input (recorded 1 bytes, now 5 bytes, first difference at byte 1)"
        ],
    );
    check(
        program.clone(),
        vec![chained("O", "apart", "input"), version("3.0.0")],
        expect!["schedule mismatch at event 2: differs in version (recorded '3.0.0', now '1.0.0')"],
    );
    check(
        program,
        vec![chained("O", "apart", "input")],
        expect!["schedule mismatch at event 2: differs in version (recorded none, now '1.0.0')"],
    );
}

#[test]
fn names_of_waits_and_queues_are_compared() {
    let wait = handler(|ctx, _| async move { Ok(ctx.schedule_wait("e").await) });
    check(
        wait.clone(),
        vec![EventKind::ExternalSubscribed { name: "f".to_string() }],
        expect![
            "schedule mismatch at event 2: recorded wait for event 'f', but the code now asks for wait for event 'e'; differs in name (recorded 'f', now 'e')"
        ],
    );
    check(
        wait,
        vec![EventKind::QueueSubscribed { name: "e".to_string() }],
        expect![
            "schedule mismatch at event 2: recorded wait for queue 'e', but the code now asks for wait for event 'e'; differs in kind"
        ],
    );
    let queue = handler(|ctx, _| async move { Ok(ctx.dequeue_event("q").await) });
    check(
        queue,
        vec![EventKind::QueueSubscribed { name: "r".to_string() }],
        expect![
            "schedule mismatch at event 2: recorded wait for queue 'r', but the code now asks for wait for queue 'q'; differs in name (recorded 'r', now 'q')"
        ],
    );
}

#[test]
fn what_was_dropped_is_compared() {
    let program = handler(|ctx, _| async move {
        let first = ctx.schedule_activity("A", "");
        drop(ctx.schedule_activity("B", ""));
        first.await
    });
    let recorded = vec![
        (None, activity("A", "")),
        (None, activity("B", "")),
        (Some(2), EventKind::ActivityCancelRequested { reason: "dropped_future".to_string() }),
    ];
    expect!["schedule mismatch at event 4: recorded cancellation of an activity, but the code now asks for cancellation of an activity; differs in the event it is about (recorded 2, now 3)"].assert_eq(&diff(program, history(recorded), vec![]));
}

#[test]
fn code_that_does_less_than_its_history_is_told_so() {
    let waits = handler(|ctx, _| async move { ctx.schedule_activity("A", "").await });
    let two = || history(vec![(None, activity("A", "")), (None, activity("B", ""))]);
    expect!["schedule mismatch at event 3: recorded activity 'B' (input of 0 bytes), but the code now does nothing there; its last command is"].assert_eq(&diff(waits, two(), vec![]));
    let returns = handler(|ctx, _| async move {
        std::mem::forget(ctx.schedule_activity("A", ""));
        Ok(String::new())
    });
    expect!["schedule mismatch at event 3: recorded activity 'B' (input of 0 bytes), but the code now does nothing there: it has returned; its last command is"].assert_eq(&diff(returns, two(), vec![]));
    let continues = handler(|ctx, _| async move {
        let _activity = ctx.schedule_activity("A", "");
        ctx.continue_as_new("").await
    });
    expect!["schedule mismatch at event 3: recorded activity 'B' (input of 0 bytes), but the code now does nothing there: it continues as new"].assert_eq(&diff(continues, two(), vec![]));
}

#[test]
fn code_may_do_more_at_the_end_of_its_history() {
    let program = handler(|ctx, _| async move {
        let (first, second) =
            ctx.join2(ctx.schedule_activity("A", ""), ctx.schedule_activity("New", "")).await;
        Ok(first? + &second?)
    });
    let mut driver = Driver::new(program).with_history(history(vec![(None, activity("A", ""))]));
    driver.turn(vec![completed(2, "a")]);
    assert_eq!(driver.worker_items().len(), 1);
    driver.turn(vec![completed(3, "b")]);
    assert_eq!(output(driver.last()), "ab");
}

#[test]
fn a_completion_of_another_kind_is_named() {
    let program = handler(|ctx, _| async move {
        let child = ctx.schedule_sub_orchestration("C", "");
        let timer = ctx.schedule_timer(Duration::from_secs(1));
        let (activity, ..) = ctx.join3(ctx.schedule_activity("A", ""), timer, child).await;
        activity
    });
    let recorded = || {
        history(vec![
            (None, child("C", "i::sub::2", "")),
            (None, EventKind::TimerCreated { fire_at_ms: 1 }),
            (None, activity("A", "")),
        ])
    };
    let check = |message: WorkItem, expected: Expect| {
        expected.assert_eq(&diff(program.clone(), recorded(), vec![message]))
    };
    check(
        completed(2, ""),
        expect!["completion kind mismatch for id=2, expected 'suborchestration', got 'activity'"],
    );
    check(failed(3, ""), expect!["completion kind mismatch for id=3, expected 'timer', got 'activity'"]);
    check(fired(4), expect!["completion kind mismatch for id=4, expected 'activity', got 'timer'"]);
    check(
        child_completed(4, ""),
        expect!["completion kind mismatch for id=4, expected 'activity', got 'suborchestration'"],
    );
    check(completed(9, ""), expect!["no matching schedule for completion id=9"]);
    check(child_completed(1, ""), expect!["no matching schedule for completion id=1"]);
    check(fired(u64::MAX), expect!["no matching schedule for timer id=18446744073709551615"]);
}

#[test]
fn a_recorded_completion_of_another_kind_is_named_too() {
    let program = handler(|ctx, _| async move { ctx.schedule_activity("A", "").await });
    let recorded = |source, kind| history(vec![(None, activity("A", "")), (source, kind)]);
    let timer = recorded(Some(2), EventKind::TimerFired { fire_at_ms: 1 });
    expect!["completion kind mismatch for id=2, expected 'activity', got 'timer'"].assert_eq(&diff(
        program.clone(),
        timer,
        vec![],
    ));
    let nothing = recorded(Some(7), EventKind::TimerFired { fire_at_ms: 1 });
    expect!["no matching schedule for timer id=7"].assert_eq(&diff(program.clone(), nothing, vec![]));
    let without = recorded(None, EventKind::ActivityCompleted { result: String::new() });
    expect!["no matching schedule for completion id=0"].assert_eq(&diff(program, without, vec![]));
}

#[test]
fn a_history_whose_ids_are_not_its_positions_is_damaged() {
    let program = handler(|ctx, _| async move { ctx.schedule_activity("A", "").await });
    let mut gap = history(vec![]);
    gap.push(event(7, None, activity("A", "")));
    let turn = run_once(program.clone(), &gap, vec![]).turn;
    assert_eq!(turn.events.iter().map(|event| event.event_id).collect::<Vec<_>>(), [8, 9]);
    expect!["the history is damaged: the event at position 2 has id 7"].assert_eq(&diff(
        program,
        gap,
        vec![],
    ));
}

#[test]
fn the_diff_never_quotes_a_payload() {
    let program = handler(|ctx, _| async move { ctx.schedule_activity("A", "hunter2").await });
    let text = diff(program, history(vec![(None, activity("A", "hunter3"))]), vec![]);
    assert!(!text.contains("hunter"), "{text}");
}

#[test]
fn a_panic_in_the_middle_of_a_history_says_what_panicked() {
    let program = handler(|ctx, _| async move {
        let _open = ctx.schedule_activity("A", "");
        ctx.schedule_wait("e").await;
        panic!("new code")
    });
    let recorded = vec![
        (None, activity("A", "")),
        (None, EventKind::ExternalSubscribed { name: "e".to_string() }),
        (Some(3), EventKind::ExternalEvent { name: "e".to_string(), data: String::new() }),
        (None, activity("B", "")),
    ];
    let mut driver = Driver::new(program).with_history(history(recorded));
    driver.turn(vec![raised("x", "")]);
    assert_eq!(driver.last().outcome, Outcome::Panicked { message: "new code".to_string() });
    assert_eq!(driver.last().cancelled_activities.len(), 2, "open work is found in the history");
}

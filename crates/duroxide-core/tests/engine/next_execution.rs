//! Continue-as-new.

use duroxide_core::{DropReason, Outcome, WorkItem, pinned_version_of};
use expect_test::expect;

use crate::build::{completed, completed_in, handler, queued, raised, start, start_by_parent};
use crate::driver::{Driver, check, failure, output, run};

fn next_start(driver: &Driver) -> WorkItem {
    let items = driver.last().orchestrator_items.iter();
    let mut starts = items.filter(|item| matches!(item, WorkItem::ContinueAsNew { .. }));
    let start = starts.next().expect("there is a next execution").clone();
    assert_eq!(starts.next(), None, "one next execution");
    start
}

fn carried(driver: &Driver) -> Vec<(String, String)> {
    let WorkItem::ContinueAsNew { carry_forward_events, .. } = next_start(driver) else {
        panic!("not a continue-as-new")
    };
    carry_forward_events
}

#[test]
fn continue_as_new_ends_the_execution_with_and_without_await() {
    let awaited = handler(|ctx, _| async move { ctx.continue_as_new("next").await });
    let called = handler(|ctx, _| async move {
        ctx.continue_as_new("next");
        ctx.schedule_activity("Never", "").await
    });
    let returned = handler(|ctx, _| async move {
        ctx.continue_as_new_typed(&"next");
        Ok("ignored".to_string())
    });
    for program in [awaited, called, returned] {
        let driver = run(program, vec![completed(2, "late")]);
        assert_eq!(
            driver.render_history(),
            "1 OrchestrationStarted { input: \"\" }\n2 OrchestrationContinuedAsNew { input: \"next\" }\n"
        );
        assert_eq!(driver.turns[0].outcome, Outcome::ContinuedAsNew);
        assert_eq!(driver.worker_items(), Vec::<&WorkItem>::new());
    }
}

#[test]
fn an_execution_is_pinned_by_its_first_turn_and_by_no_other() {
    let program = handler(|ctx, _| async move {
        ctx.schedule_wait("go").await;
        ctx.continue_as_new("next").await
    });
    let mut first = run(program, vec![raised("other", ""), raised("go", "")]);
    let mut next = first.next_execution();
    next.turn(vec![next_start(&first)]);
    next.send(vec![raised("other", "")]);
    for driver in [&mut first, &mut next] {
        let pinned: Vec<_> =
            driver.turns.iter().map(|turn| turn.metadata.pinned_duroxide_version.clone()).collect();
        let mut expected = vec![None; pinned.len()];
        expected[0] = pinned_version_of(&driver.history);
        assert!(expected[0].is_some() && expected.len() > 1);
        assert_eq!(pinned, expected, "the version of its own start, once");
    }
}

#[test]
fn continue_as_new_can_ask_for_a_version() {
    let program = handler(|ctx, _| async move { ctx.continue_as_new_versioned("2.0.0", "next").await });
    let WorkItem::ContinueAsNew { version, input, .. } = next_start(&run(program, vec![])) else {
        panic!("not a continue-as-new")
    };
    assert_eq!((version.as_deref(), input.as_str()), (Some("2.0.0"), "next"));
}

#[test]
fn a_next_version_that_is_none_fails_the_orchestration() {
    let program = handler(|ctx, _| async move { ctx.continue_as_new_versioned("newest", "").await });
    assert!(failure(run(program, vec![]).last()).contains("not valid semver"));
}

#[test]
fn what_is_open_is_cancelled_when_the_execution_continues_as_new() {
    let program = handler(|ctx, _| async move {
        let activity = ctx.schedule_activity("A", "");
        let child = ctx.schedule_sub_orchestration("Child", "");
        ctx.schedule_wait("e").await;
        ctx.continue_as_new("next").await?;
        ctx.join2(activity, child).await.0
    });
    let driver = check(
        program,
        vec![raised("e", "")],
        expect![[r#"
            1 OrchestrationStarted { input: "" }
            2 ActivityScheduled { name: "A", input: "", session_id: None, tag: None }
            3 SubOrchestrationScheduled { name: "Child", instance: "sub::3", input: "" }
            4 ExternalSubscribed { name: "e" }
            5 <- 4 ExternalEvent { name: "e", data: "" }
            6 <- 2 ActivityCancelRequested { reason: "orchestration_terminal_continued_as_new" }
            7 <- 3 SubOrchestrationCancelRequested { reason: "orchestration_terminal" }
            8 OrchestrationContinuedAsNew { input: "next" }
        "#]],
    );
    assert_eq!(driver.last().cancelled_activities.len(), 1);
    let cancelled = driver
        .last()
        .orchestrator_items
        .iter()
        .any(|item| matches!(item, WorkItem::CancelInstance { instance, .. } if instance == "i::sub::3"));
    assert!(cancelled);
}

#[test]
fn the_parent_link_survives_continue_as_new() {
    let program = handler(|ctx, input| async move {
        if input.is_empty() { ctx.continue_as_new("second").await } else { Ok("done".to_string()) }
    });
    let mut first = Driver::new(program);
    first.turn(vec![start_by_parent("p", 3, 8)]);
    let mut second = first.next_execution();
    second.turn(first.last().orchestrator_items.clone());
    let told = WorkItem::SubOrchCompleted {
        parent_instance: "p".to_string(),
        parent_execution_id: 3,
        parent_id: 8,
        result: "done".to_string(),
    };
    assert_eq!(second.last().orchestrator_items, [told]);
    assert_eq!(second.last().metadata.parent_instance_id.as_deref(), Some("p"));
}

#[test]
fn a_completion_of_the_previous_execution_does_not_reach_the_next() {
    let program = handler(|ctx, input| async move {
        let activity = ctx.schedule_activity("A", input.clone());
        if input.is_empty() {
            ctx.continue_as_new("second").await?;
        }
        activity.await
    });
    let first = run(program, vec![]);
    let mut second = first.next_execution();
    second.turn(first.last().orchestrator_items.clone());
    second.turn(vec![completed_in(1, 2, "old")]);
    assert_eq!(second.last().dropped, [DropReason::StaleExecution]);
    second.turn(vec![completed_in(2, 2, "new")]);
    assert_eq!(output(second.last()), "new");
}

/// Ends on `go`, having read nothing else.
fn ends_on_go() -> std::sync::Arc<dyn duroxide_core::OrchestrationHandler> {
    handler(|ctx, input| async move {
        if input.is_empty() {
            ctx.schedule_wait("go").await;
            return ctx.continue_as_new("second").await;
        }
        let mut read = Vec::new();
        for _ in 0..input.parse::<usize>().unwrap_or(0) {
            read.push(ctx.dequeue_event("q").await);
        }
        Ok(read.join(","))
    })
}

#[test]
fn unread_messages_are_carried_up_to_100_and_the_rest_put_back_in_order() {
    let mut messages: Vec<WorkItem> = (0..150).map(|n| queued("q", &n.to_string())).collect();
    messages.insert(30, raised("unread", "event"));
    messages.insert(31, raised("unread", "second"));
    messages.push(raised("go", ""));
    let driver = run(ends_on_go(), messages);
    let in_start: Vec<String> = carried(&driver).into_iter().map(|(_, data)| data).collect();
    assert_eq!(in_start, (0..100).map(|n| n.to_string()).collect::<Vec<_>>());
    let mut expected = vec![next_start(&driver), raised("unread", "event"), raised("unread", "second")];
    expected.extend((100..150).map(|n| queued("q", &n.to_string())));
    assert_eq!(driver.last().orchestrator_items, expected);
}

#[test]
fn messages_that_were_not_admitted_are_put_back_behind_the_unread_ones() {
    let mut driver = Driver::new(ends_on_go());
    driver.turn(vec![start(""), queued("q", "1"), raised("e", "2")]);
    driver.turn(vec![
        raised("go", ""),
        queued("q", "3"),
        completed(2, "stale"),
        raised("e", "4"),
        start_by_parent("p", 3, 8),
    ]);
    let items = &driver.last().orchestrator_items;
    assert!(matches!(&items[0], WorkItem::SubOrchFailed { .. }), "the other parent is answered");
    assert_eq!(items[1], next_start(&driver));
    assert_eq!(carried(&driver), [("q".to_string(), "1".to_string())]);
    assert_eq!(items[2..], [raised("e", "2"), queued("q", "3"), raised("e", "4")]);
    assert_eq!(driver.last().dropped, [DropReason::AfterEnd, DropReason::AfterEnd]);
}

#[test]
fn the_next_execution_reads_carried_messages_before_those_put_back() {
    let program = handler(|ctx, input| async move {
        if input.is_empty() {
            ctx.schedule_wait("go").await;
            return ctx.continue_as_new("second").await;
        }
        let mut last = None;
        for expected in 0..250u32 {
            let read: u32 = ctx.dequeue_event_typed("q").await;
            assert_eq!(read, expected, "order kept");
            last = Some(read);
        }
        Ok(format!("{last:?}"))
    });
    let messages = (0..250).map(|n| queued("q", &n.to_string())).chain([raised("go", "")]);
    let first = run(program, messages.collect());
    let mut second = first.next_execution();
    second.turn(first.last().orchestrator_items.clone());
    assert_eq!(output(second.last()), "Some(249)");
}

#[test]
fn what_was_delivered_but_never_read_survives_continue_as_new() {
    let program = handler(|ctx, _| async move {
        let message = ctx.dequeue_event("q");
        let event = ctx.schedule_wait("e");
        ctx.schedule_wait("go").await;
        ctx.continue_as_new("second").await?;
        Ok(message.await + &event.await)
    });
    let messages = vec![queued("q", "1"), queued("q", "2"), raised("e", "3"), raised("go", "")];
    let driver = run(program, messages);
    let pair = |data: &str| ("q".to_string(), data.to_string());
    assert_eq!(carried(&driver), [pair("1"), pair("2")]);
    assert_eq!(driver.last().orchestrator_items[1..], [raised("e", "3")]);
}

#[test]
fn a_message_that_was_read_is_not_carried() {
    let program = handler(|ctx, _| async move {
        for _ in 0..200 {
            ctx.dequeue_event("q").await;
        }
        ctx.continue_as_new("second").await
    });
    let driver = run(program, (0..201).map(|n| queued("q", &n.to_string())).collect());
    assert_eq!(driver.turns[200].outcome, Outcome::ContinuedAsNew);
    assert_eq!(driver.turns[200].orchestrator_items.len(), 1);
    assert_eq!(driver.last().outcome, Outcome::AlreadyEnded);
}

//! Limits: at the limit is fine, above it the execution fails, and what is recorded is never judged again.

use std::sync::Arc;

use duroxide_core::limits::{
    MAX_CUSTOM_STATUS_BYTES, MAX_INSTANCE_ID_BYTES, MAX_KV_KEY_BYTES, MAX_KV_VALUE_BYTES, MAX_NAME_BYTES,
    MAX_PAYLOAD_BYTES, MAX_SCHEDULES_PER_TURN, MAX_SESSION_ID_BYTES, MAX_TAG_NAME_BYTES,
};
use duroxide_core::{AppErrorKind, ErrorDetails, EventKind, OrchestrationHandler, Outcome, WorkItem};

use crate::build::{handler, history, raised, start, start_by_parent};
use crate::driver::{Driver, failure, output, run, run_once};

fn tagged(bytes: usize) -> Arc<dyn OrchestrationHandler> {
    handler(move |ctx, _| async move { ctx.schedule_activity("A", "").with_tag("t".repeat(bytes)).await })
}

#[test]
fn a_limit_violation_in_a_child_tells_its_parent_once_with_one_terminal_event() {
    let mut driver = Driver::new(tagged(MAX_TAG_NAME_BYTES + 1));
    driver.turn(vec![start_by_parent("p", 3, 8)]);
    driver.turn(vec![start_by_parent("p", 3, 8)]);
    assert_eq!(driver.history.iter().filter(|event| event.is_terminal()).count(), 1);
    let [WorkItem::SubOrchFailed { parent_instance, parent_execution_id: 3, parent_id: 8, details }] =
        &driver.orchestrator_items()[..]
    else {
        panic!("not told once: {:?}", driver.orchestrator_items())
    };
    assert_eq!(parent_instance, "p");
    let ErrorDetails::Application { kind: AppErrorKind::OrchestrationFailed, message, retryable: false } =
        details
    else {
        panic!("not an application error: {details:?}")
    };
    assert!(message.starts_with("Activity 'A' tag size (257 bytes) exceeds limit ("), "{message}");
}

#[test]
fn at_the_limit_is_fine() {
    assert_eq!(run(tagged(MAX_TAG_NAME_BYTES), vec![]).last().outcome, Outcome::Waiting);
    let name = handler(|ctx, _| async move { ctx.schedule_activity("n".repeat(MAX_NAME_BYTES), "").await });
    assert_eq!(run(name, vec![]).last().outcome, Outcome::Waiting);
    let state = handler(|ctx, _| async move {
        let key = "k".repeat(MAX_KV_KEY_BYTES);
        ctx.set_kv_value(key.clone(), "");
        ctx.set_kv_value("", "the empty key is one too");
        ctx.clear_kv_value(key.clone());
        ctx.get_kv_value_from_instance("i".repeat(MAX_INSTANCE_ID_BYTES), key).await?;
        ctx.schedule_activity_on_session("A", "", "s".repeat(MAX_SESSION_ID_BYTES)).await
    });
    assert_eq!(run(state, vec![]).last().outcome, Outcome::Waiting);
}

#[test]
fn what_is_above_a_limit_fails_with_a_text_that_names_it() {
    let program = handler(|ctx, input| async move {
        let large = || "x".repeat(MAX_PAYLOAD_BYTES + 1);
        let long = "n".repeat(MAX_NAME_BYTES + 1);
        match input.as_str() {
            "activity input" => ctx.schedule_activity("A", large()).await,
            "activity name" => ctx.schedule_activity(long, "").await,
            "empty name" => ctx.schedule_activity(" ", "").await,
            "event name" => Ok(ctx.schedule_wait(long).await),
            "queue name" => Ok(ctx.dequeue_event(long).await),
            "child input" => ctx.schedule_sub_orchestration("C", large()).await,
            "child name" => ctx.schedule_sub_orchestration(long, "").await,
            "child id" => {
                ctx.schedule_sub_orchestration_with_id("C", "i".repeat(MAX_INSTANCE_ID_BYTES + 1), "").await
            }
            "detached input" => {
                ctx.schedule_orchestration("O", "apart", large());
                Ok(String::new())
            }
            "next input" => ctx.continue_as_new(large()).await,
            "output" => Ok(large()),
            _ => ctx.schedule_activity("A", "").with_tag("a\0b").await,
        }
    });
    for (case, word) in [
        ("activity input", "input of activity 'A' ("),
        ("activity name", "activity name (513 bytes)"),
        ("empty name", "activity name is empty"),
        ("event name", "event name (513 bytes)"),
        ("queue name", "queue name (513 bytes)"),
        ("child input", "input of sub-orchestration 'C' ("),
        ("child name", "orchestration name (513 bytes)"),
        ("child id", "sub-orchestration instance id (1025 bytes)"),
        ("detached input", "input of orchestration 'O' ("),
        ("next input", "input of continue_as_new ("),
        ("output", "orchestration output ("),
        ("NUL tag", "contains a NUL character"),
    ] {
        check_above(&program, case, word);
    }
}

#[test]
fn a_text_that_ends_an_execution_is_cut_to_the_limit_with_a_note() {
    let program = handler(|ctx, input| async move {
        // A character of three bytes stands across every place where it could be cut but each third.
        let large = "€".repeat(MAX_PAYLOAD_BYTES);
        match input.as_str() {
            "error" => Err(large),
            "panic" => std::panic::resume_unwind(Box::new(large)),
            "version" => ctx.continue_as_new_versioned(large, "").await,
            _ => Ok(ctx.schedule_wait("never").await),
        }
    });
    let cancel = WorkItem::CancelInstance { instance: "i".into(), reason: "€".repeat(MAX_PAYLOAD_BYTES) };
    for (case, beginning, messages) in [
        ("error", "€€€", vec![]),
        ("panic", "orchestration panicked: €€€", vec![]),
        ("version", "version '€€€", vec![]),
        ("cancel", "canceled: €€€", vec![cancel]),
    ] {
        let mut driver = Driver::new(program.clone());
        let mut first = start_by_parent("p", 3, 8);
        if let WorkItem::StartOrchestration { input, .. } = &mut first {
            *input = case.to_string();
        }
        driver.turn(vec![first]);
        if !messages.is_empty() {
            driver.turn(messages);
        }
        let [WorkItem::SubOrchFailed { details, .. }] = &driver.orchestrator_items()[..] else {
            panic!("{case}: the parent is not told once")
        };
        let text = details.display_message();
        assert!(text.starts_with(beginning), "{case}: {}", text.chars().take(200).collect::<String>());
        assert!(
            text.ends_with(")") && text.contains(" bytes in all, cut to 83875"),
            "{case}: no note of {} bytes",
            text.len()
        );
        assert!(text.len() <= MAX_PAYLOAD_BYTES, "{case}: {} bytes", text.len());
        for event in &driver.history {
            let stored = serde_json::to_string(event).expect("an event has a JSON form").len();
            assert!(stored < 2 * MAX_PAYLOAD_BYTES + 4096, "{case}: an event of {stored} bytes");
        }
    }
}

#[test]
fn an_error_at_the_limit_is_kept_whole() {
    let program = handler(|_ctx, _| async move { Err("x".repeat(MAX_PAYLOAD_BYTES)) });
    let result = run_once(program, &[], vec![start("")]);
    assert_eq!(failure(&result.turn), "x".repeat(MAX_PAYLOAD_BYTES));
}

/// Runs a case of the program and insists on the beginning of its failure's text, or on its end.
fn check_above(program: &Arc<dyn OrchestrationHandler>, case: &str, word: &str) {
    let mut driver = Driver::new(program.clone());
    driver.turn(vec![start(case)]);
    let text = failure(driver.last());
    assert!(text.starts_with(word) || text.ends_with(&format!("{word}: remove it")), "{case}: {text}");
    assert!(text.len() < 200, "{case}: the text has {} bytes", text.len());
}

#[test]
fn keys_and_sessions_above_a_limit_fail_with_a_text_that_names_it() {
    let program = handler(|ctx, input| async move {
        match input.as_str() {
            "session id" => {
                ctx.schedule_activity_on_session("A", "", "s".repeat(MAX_SESSION_ID_BYTES + 1)).await
            }
            "key that is set" => {
                ctx.set_kv_value("k".repeat(MAX_KV_KEY_BYTES + 1), "");
                Ok(String::new())
            }
            "key that is cleared" => {
                ctx.clear_kv_value("k".repeat(MAX_KV_KEY_BYTES + 1));
                Ok(String::new())
            }
            "key of another" => {
                let value = ctx.get_kv_value_from_instance("i", "k".repeat(MAX_KV_KEY_BYTES + 1)).await;
                Ok(format!("{value:?}"))
            }
            "id of another" => {
                let value = ctx.get_kv_value_from_instance("i".repeat(MAX_INSTANCE_ID_BYTES + 1), "k").await;
                Ok(format!("{value:?}"))
            }
            "NUL key" => {
                ctx.set_kv_value("a\0b", "");
                Ok(String::new())
            }
            _ => ctx.schedule_activity_on_session("A", "", "a\0b").await,
        }
    });
    for (case, word) in [
        ("session id", "Activity 'A' session id size (1025 bytes) exceeds limit (1024 bytes)"),
        ("key that is set", "KV key size (1025 bytes) exceeds limit (1024 bytes)"),
        ("key that is cleared", "KV key size (1025 bytes) exceeds limit (1024 bytes)"),
        ("key of another", "KV key size (1025 bytes) exceeds limit (1024 bytes)"),
        ("id of another", "instance id (1025 bytes) exceeds limit (1024 bytes)"),
        ("NUL key", "contains a NUL character"),
        ("NUL session", "contains a NUL character"),
    ] {
        check_above(&program, case, word);
    }
}

#[test]
fn a_key_that_was_set_under_a_higher_limit_can_be_removed() {
    let key = "k".repeat(2 * MAX_KV_KEY_BYTES);
    let set = EventKind::KeyValueSet { key: key.clone(), value: String::new(), last_updated_at_ms: 1 };
    let program = handler(move |ctx, how| {
        let key = key.clone();
        async move {
            ctx.set_kv_value(key.clone(), "");
            ctx.schedule_wait("go").await;
            match how.as_str() {
                "clear" => ctx.clear_kv_value(key),
                _ => assert_eq!(ctx.prune_kv_values_updated_before(u64::MAX), 1),
            }
            Ok(ctx.get_kv_length().to_string())
        }
    });
    for how in ["clear", "prune"] {
        let mut recorded = history(vec![
            (None, set.clone()),
            (None, EventKind::ExternalSubscribed { name: "go".to_string() }),
        ]);
        if let EventKind::OrchestrationStarted { input, .. } = &mut recorded[0].kind {
            *input = how.to_string();
        }
        let mut driver = Driver::new(program.clone()).with_history(recorded);
        driver.turn(vec![raised("go", "")]);
        assert_eq!(output(driver.last()), "0", "{how}");
    }
}

#[test]
fn more_things_in_one_turn_than_the_limit_fail_clearly() {
    let program = handler(|ctx, _| async move {
        for n in 0..=MAX_SCHEDULES_PER_TURN {
            ctx.schedule_orchestration("O", format!("o-{n}"), "");
        }
        Ok(String::new())
    });
    let result = run_once(program, &[], vec![start("")]);
    assert!(failure(&result.turn).starts_with("things scheduled in one turn (200001) exceeds limit"));
}

/// Writes so many payloads of 8 MiB after each event, in the way that the input says.
fn writing(payloads: usize) -> Arc<dyn OrchestrationHandler> {
    handler(move |ctx, input| async move {
        let payload = || "x".repeat(MAX_PAYLOAD_BYTES - 100);
        for _round in 0..3 {
            ctx.schedule_wait("go").await;
            for n in 0..payloads {
                match input.as_str() {
                    "activities" => drop(ctx.schedule_activity("A", payload())),
                    "children" => drop(ctx.schedule_sub_orchestration("C", payload())),
                    "detached" => ctx.schedule_orchestration("O", format!("o-{n}"), payload()),
                    "values" => (0..8)
                        .for_each(|k| ctx.set_kv_value(format!("{n}/{k}"), "v".repeat(MAX_KV_VALUE_BYTES))),
                    _ => (0..32).for_each(|_| ctx.set_custom_status("s".repeat(MAX_CUSTOM_STATUS_BYTES))),
                }
            }
        }
        Ok("written".to_string())
    })
}

#[test]
fn a_turn_that_writes_more_than_the_limit_fails_before_anything_of_it_is_stored() {
    for how in ["activities", "children", "detached", "values", "statuses"] {
        let mut driver = Driver::new(writing(150));
        driver.turn(vec![start(how)]);
        driver.turn(vec![raised("go", "")]);
        let text = failure(driver.last());
        assert!(text.starts_with("the turn writes 1"), "{how}: {text}");
        assert!(text.contains("exceeds limit (134217728 bytes)"), "{how}: {text}");
        let stored = serde_json::to_string(&driver.last().events).expect("events have a JSON form").len();
        assert!(stored < 4096, "{how}: {stored} bytes");
        assert_eq!((driver.worker_items().len(), driver.orchestrator_items().len()), (0, 0), "{how}");
    }
}

#[test]
fn how_much_a_program_may_write_does_not_depend_on_how_its_messages_were_batched() {
    let mut driver = Driver::new(writing(7));
    driver.turn(vec![start("detached"), raised("go", ""), raised("go", ""), raised("go", "")]);
    assert_eq!(output(driver.last()), "written");
}

#[test]
fn a_full_fan_out_is_below_the_limit_of_a_turn() {
    let program = handler(|ctx, _| async move {
        let calls: Vec<_> =
            (0..MAX_SCHEDULES_PER_TURN).map(|n| ctx.schedule_activity("A", format!("{n:0500}"))).collect();
        ctx.join(calls).await;
        Ok(String::new())
    });
    assert_eq!(run_once(program, &[], vec![start("")]).turn.outcome, Outcome::Waiting);
}

#[test]
fn what_is_recorded_is_replayed_although_a_limit_was_lowered_since() {
    let long = "n".repeat(10 * MAX_NAME_BYTES);
    let large = "x".repeat(2 * MAX_PAYLOAD_BYTES);
    let (name, input) = (long.clone(), large.clone());
    let program = handler(move |ctx, _| {
        let (long, large) = (name.clone(), input.clone());
        async move {
            let activity = ctx.schedule_activity(long.clone(), large.clone()).with_tag(long.clone());
            let wait = ctx.schedule_wait(long.clone());
            let queue = ctx.dequeue_event(long.clone());
            ctx.schedule_orchestration(long, "apart", large);
            let (result, ..) = ctx.join3(activity, wait, queue).await;
            result
        }
    });
    let recorded = vec![
        (
            None,
            EventKind::ActivityScheduled {
                name: long.clone(),
                input: large.clone(),
                session_id: None,
                tag: Some(long.clone()),
            },
        ),
        (None, EventKind::ExternalSubscribed { name: long.clone() }),
        (None, EventKind::QueueSubscribed { name: long.clone() }),
        (
            None,
            EventKind::OrchestrationChained {
                name: long.clone(),
                instance: "apart".to_string(),
                input: large,
            },
        ),
    ];
    let mut driver = Driver::new(program).with_history(history(recorded));
    driver.turn(vec![]);
    assert_eq!(driver.last().outcome, Outcome::Waiting);
}

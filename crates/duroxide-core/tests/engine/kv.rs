//! The KV store: reads see the writes before them, live and at replay, and values outlive executions.

use std::time::Duration;

use duroxide_core::limits::{CARRIED_VALUES_PER_EVENT_BYTES, MAX_KV_KEYS, MAX_KV_VALUE_BYTES};
use duroxide_core::{EventKind, KvAnswer, KvQuestion, Outcome};
use expect_test::expect;

use crate::build::{activity, fired, handler, history, raised, start};
use crate::driver::{Driver, Keep, check, failure, output, run, run_once};

#[test]
fn reads_see_the_writes_before_them_in_key_order() {
    let program = handler(|ctx, _| async move {
        ctx.set_kv_value("b", "1");
        ctx.set_kv_value("a", "2");
        ctx.set_kv_value("b", "3");
        ctx.clear_kv_value("absent");
        let keys = ctx.get_kv_all_keys();
        let all = ctx.get_kv_all_values();
        assert_eq!((all.len(), all["b"].as_str(), ctx.get_kv_length()), (2, "3", 2));
        ctx.schedule_wait("e").await;
        ctx.clear_kv_value("a");
        let one = (ctx.get_kv_value("a"), ctx.get_kv_value("b"));
        ctx.clear_all_kv_values();
        Ok(format!("{keys:?} {one:?} {}", ctx.get_kv_length()))
    });
    check(
        program,
        vec![raised("e", "")],
        expect![[r#"
            1 OrchestrationStarted { input: "" }
            2 KeyValueSet { key: "b", value: "1", last_updated_at_ms: 2000 }
            3 KeyValueSet { key: "a", value: "2", last_updated_at_ms: 2000 }
            4 KeyValueSet { key: "b", value: "3", last_updated_at_ms: 2000 }
            5 KeyValueCleared { key: "absent" }
            6 ExternalSubscribed { name: "e" }
            7 <- 6 ExternalEvent { name: "e", data: "" }
            8 KeyValueCleared { key: "a" }
            9 KeyValuesCleared
            10 OrchestrationCompleted { output: "[\"a\", \"b\"] (None, Some(\"3\")) 0" }
        "#]],
    );
}

#[test]
fn a_read_modify_write_loop_replays_exactly_over_executions() {
    let program = handler(|ctx, input| async move {
        let rounds: u64 = input.parse().unwrap_or(0);
        for _ in 0..3 {
            ctx.schedule_wait("e").await;
            let count: u64 = ctx.get_kv_value_typed("count")?.unwrap_or(0);
            ctx.set_kv_value_typed("count", &(count + 1));
            ctx.set_kv_value(format!("round-{rounds}"), count.to_string());
        }
        if rounds < 2 {
            ctx.continue_as_new((rounds + 1).to_string()).await?;
        }
        Ok(format!("{:?} {:?}", ctx.get_kv_value("count"), ctx.get_kv_all_keys()))
    });
    let mut driver = Driver::new(program);
    let mut next = vec![start("0")];
    for _ in 0..3 {
        driver.turn_at(5_000, next, Keep::Nothing);
        for keep in [Keep::Nothing, Keep::Replayed, Keep::Live] {
            driver.turn_at(6_000, vec![raised("e", "")], keep);
        }
        driver.check_batching();
        next = driver.last().orchestrator_items.clone();
        if driver.last().outcome == Outcome::ContinuedAsNew {
            driver = driver.next_execution();
        }
    }
    assert_eq!(output(driver.last()), r#"Some("9") ["count", "round-0", "round-1", "round-2"]"#);
    let carried =
        driver.history.iter().filter(|event| matches!(event.kind, EventKind::KeyValuesCarried { .. }));
    assert_eq!(carried.count(), 1);
}

#[test]
fn values_of_many_megabytes_are_carried_in_several_events() {
    let program = handler(|ctx, _| async move {
        ctx.schedule_wait("e").await;
        Ok(ctx.get_kv_length().to_string())
    });
    let mut driver = Driver::new(program);
    for n in 0..9 {
        let value = "x".repeat(CARRIED_VALUES_PER_EVENT_BYTES / 4);
        let entry = duroxide_core::KvEntry { value, last_updated_at_ms: n };
        driver.kv.insert(format!("k{n}"), entry);
    }
    driver.turn(vec![start("")]);
    let carried =
        driver.history.iter().filter(|event| matches!(event.kind, EventKind::KeyValuesCarried { .. }));
    assert_eq!(carried.count(), 3);
    driver.turn(vec![raised("e", "")]);
    assert_eq!(output(driver.last()), "9");
}

#[test]
fn kv_stamps_are_recorded_and_replay_reads_no_clock() {
    let program = handler(|ctx, _| async move {
        ctx.set_kv_value("old", "1");
        ctx.set_kv_value("touched", "1");
        ctx.schedule_wait("e").await;
        ctx.set_kv_value("touched", "2");
        ctx.set_kv_value("new", "1");
        ctx.schedule_wait("e").await;
        let pruned = ctx.prune_kv_values_updated_before(6_000);
        ctx.schedule_wait("e").await;
        Ok(format!("{pruned} {:?}", ctx.get_kv_all_keys()))
    });
    let mut driver = Driver::new(program);
    driver.turn_at(5_000, vec![start("")], Keep::Nothing);
    // Times of turns that differ from every time that a replay sees.
    driver.turn_at(6_000, vec![raised("e", "")], Keep::Nothing);
    driver.turn_at(999_000, vec![raised("e", "")], Keep::Replayed);
    driver.turn_at(1_000_000, vec![raised("e", "")], Keep::Nothing);
    assert_eq!(output(driver.last()), r#"1 ["new", "touched"]"#);
    let stamps: Vec<u64> = driver
        .history
        .iter()
        .filter_map(|event| {
            if let EventKind::KeyValueSet { last_updated_at_ms, .. } = &event.kind {
                Some(*last_updated_at_ms)
            } else {
                None
            }
        })
        .collect();
    assert_eq!(stamps, [5_000, 5_000, 6_000, 6_000]);
}

#[test]
fn a_carried_value_keeps_its_time() {
    let program = handler(|ctx, _| async move {
        if ctx.execution_id() == 1 {
            ctx.set_kv_value("old", "1");
            ctx.schedule_timer(Duration::from_secs(1)).await;
            ctx.set_kv_value("new", "1");
            ctx.continue_as_new("").await?;
        }
        ctx.schedule_wait("e").await;
        let pruned = ctx.prune_kv_values_updated_before(7_000);
        Ok(format!("{pruned} {:?}", ctx.get_kv_all_keys()))
    });
    let mut driver = Driver::new(program);
    driver.turn_at(5_000, vec![start("")], Keep::Live);
    driver.turn_at(8_000, vec![fired(3)], Keep::Live);
    let mut second = driver.next_execution();
    second.turn_at(9_000, driver.last().orchestrator_items.clone(), Keep::Nothing);
    second.turn_at(9_500, vec![raised("e", "")], Keep::Nothing);
    assert_eq!(output(second.last()), r#"1 ["new"]"#);
}

#[test]
fn a_recorded_time_that_is_not_its_turns_is_kept() {
    let program = handler(|ctx, _| async move {
        ctx.set_kv_value("k", "v");
        ctx.schedule_wait("e").await;
        Ok(ctx.prune_kv_values_updated_before(100).to_string())
    });
    let set = EventKind::KeyValueSet { key: "k".to_string(), value: "v".to_string(), last_updated_at_ms: 77 };
    let wait = EventKind::ExternalSubscribed { name: "e".to_string() };
    let mut driver = Driver::new(program).with_history(history(vec![(None, set), (None, wait)]));
    driver.turn(vec![raised("e", "")]);
    assert_eq!(output(driver.last()), "1");
}

#[test]
fn changed_code_that_sets_another_value_is_told_which_key_and_not_the_value() {
    let program = handler(|ctx, _| async move {
        ctx.set_kv_value("k", "secret-now");
        Ok(String::new())
    });
    let value = "secret-then".to_string();
    let set = EventKind::KeyValueSet { key: "k".to_string(), value, last_updated_at_ms: 1 };
    let result = run_once(program, &history(vec![(None, set)]), vec![]);
    let Outcome::Nondeterministic { diff } = &result.turn.outcome else {
        panic!("{:?}", result.turn.outcome)
    };
    assert!(diff.contains("value for key 'k'") && diff.contains("differs in value"), "{diff}");
    assert!(!diff.contains("secret"), "{diff}");
}

#[test]
fn values_at_the_limits_are_fine_and_above_them_fail_with_their_text() {
    let program = handler(|ctx, input| async move {
        match input.as_str() {
            "value" => ctx.set_kv_value("k", "x".repeat(MAX_KV_VALUE_BYTES + 1)),
            "keys" => {
                for n in 0..=MAX_KV_KEYS {
                    ctx.set_kv_value(format!("k{n}"), "");
                }
            }
            _ => {
                ctx.set_kv_value("k0", "x".repeat(MAX_KV_VALUE_BYTES));
                for n in 0..MAX_KV_KEYS {
                    ctx.set_kv_value(format!("k{n}"), "");
                }
                ctx.set_kv_value("k0", "again");
            }
        }
        Ok("fine".to_string())
    });
    let mut driver = Driver::new(program.clone());
    driver.turn(vec![start("")]);
    assert_eq!(output(driver.last()), "fine");
    for (input, text) in [
        ("value", "KV value for key 'k' (1048577 bytes) exceeds limit (1048576 bytes)"),
        ("keys", "KV key count (10001) exceeds limit (10000)"),
    ] {
        let mut driver = Driver::new(program.clone());
        driver.turn(vec![start(input)]);
        assert_eq!(failure(driver.last()), text);
    }
}

#[test]
fn typed_values_are_plain_json_and_errors_say_so() {
    let program = handler(|ctx, _| async move {
        ctx.set_kv_value_typed("text", "bare");
        assert_eq!(ctx.get_kv_value("text").as_deref(), Some("\"bare\""));
        assert_eq!(ctx.get_kv_value_typed::<String>("text")?.as_deref(), Some("bare"));
        assert_eq!(ctx.get_kv_value_typed::<u64>("absent")?, None);
        ctx.get_kv_value_typed::<u64>("text").map(|found| format!("{found:?}"))
    });
    let driver = run(program, vec![]);
    let text = failure(driver.last());
    assert!(text.starts_with("KV deserialization error"), "{text}");
    assert!(!text.contains("bare"), "{text}");
}

fn directory(question: &KvQuestion) -> KvAnswer {
    match (question.instance.as_str(), question.key.as_str()) {
        ("other", "k") => Ok(Some("7".to_string())),
        ("broken", _) => Err("cannot be read".to_string()),
        _ => Ok(None),
    }
}

#[test]
fn a_value_of_another_instance_is_asked_and_answered_in_the_same_turn() {
    let program = handler(|ctx, _| async move {
        let (one, two) = ctx
            .join2(
                ctx.get_kv_value_from_instance("other", "k"),
                ctx.get_kv_value_from_instance("other", "none"),
            )
            .await;
        let name = ctx.schedule_wait("e").await;
        let typed: Option<u64> = ctx.get_kv_value_from_instance_typed("other", name).await?;
        let broken = ctx.get_kv_value_from_instance("broken", "k").await;
        Ok(format!("{one:?} {two:?} {typed:?} {broken:?}"))
    });
    let mut driver = Driver::new(program).answering(directory);
    driver.send(vec![start(""), raised("e", "k"), raised("unread", "")]);
    driver.check_batching();
    expect![[r#"
        1 OrchestrationStarted { input: "" }
        2 ActivityScheduled { name: "__duroxide_syscall:get_kv_value", input: "{\"instance\":\"other\",\"key\":\"k\"}", session_id: None, tag: None }
        3 ActivityScheduled { name: "__duroxide_syscall:get_kv_value", input: "{\"instance\":\"other\",\"key\":\"none\"}", session_id: None, tag: None }
        4 <- 2 ActivityCompleted { result: "\"7\"" }
        5 <- 3 ActivityCompleted { result: "null" }
        6 ExternalSubscribed { name: "e" }
        7 <- 6 ExternalEvent { name: "e", data: "k" }
        8 ActivityScheduled { name: "__duroxide_syscall:get_kv_value", input: "{\"instance\":\"other\",\"key\":\"k\"}", session_id: None, tag: None }
        9 <- 8 ActivityCompleted { result: "\"7\"" }
        10 ActivityScheduled { name: "__duroxide_syscall:get_kv_value", input: "{\"instance\":\"broken\",\"key\":\"k\"}", session_id: None, tag: None }
        11 <- 10 ActivityFailed { details: Application { kind: ActivityFailed, message: "cannot be read", retryable: false } }
        12 OrchestrationCompleted { output: "Ok(Some(\"7\")) Ok(None) Some(7) Err(\"cannot be read\")" }
    "#]]
    .assert_eq(&driver.render_history());
    assert_eq!(driver.worker_items().len(), 0, "nothing goes through a queue");
}

#[test]
fn a_question_that_was_dropped_is_not_answered() {
    let program = handler(|ctx, _| async move {
        drop(ctx.get_kv_value_from_instance("other", "k"));
        let first = ctx
            .select2(
                ctx.get_kv_value_from_instance("other", "k"),
                ctx.get_kv_value_from_instance("other", "x"),
            )
            .await;
        Ok(format!("{first:?}"))
    });
    let mut driver = Driver::new(program).answering(directory);
    driver.turn(vec![start("")]);
    assert_eq!(output(driver.last()), r#"First(Ok(Some("7")))"#);
}

#[test]
fn a_question_whose_answer_was_never_recorded_is_answered_now() {
    let program =
        handler(
            |ctx, _| async move { Ok(format!("{:?}", ctx.get_kv_value_from_instance("other", "k").await?)) },
        );
    let question = activity("__duroxide_syscall:get_kv_value", r#"{"instance":"other","key":"k"}"#);
    let mut driver = Driver::new(program).with_history(history(vec![(None, question)])).answering(directory);
    driver.turn(vec![]);
    assert_eq!(output(driver.last()), r#"Some("7")"#);
}

#[test]
fn the_size_is_that_of_the_history_so_far_and_the_same_at_replay() {
    let program = handler(|ctx, _| async move {
        let first = ctx.get_system_stats().expect("always there");
        assert_eq!((first.history_event_count, first.kv_user_key_count), (1, 0));
        ctx.set_kv_value("k", "é");
        ctx.schedule_wait("e").await;
        let stats = ctx.get_system_stats().expect("always there");
        ctx.schedule_wait("e").await;
        Ok(format!("{stats:?} {}", ctx.get_system_stats().expect("always there").history_size_bytes))
    });
    let mut driver = Driver::new(program);
    driver.send(vec![start(""), raised("unread", ""), raised("e", "")]);
    let expected: usize =
        driver.history.iter().take(5).map(|event| serde_json::to_string(event).expect("JSON").len()).sum();
    let before_end: usize =
        driver.history.iter().map(|event| serde_json::to_string(event).expect("JSON").len()).sum();
    driver.turn(vec![raised("e", "")]);
    let last = serde_json::to_string(&driver.history[6]).expect("JSON").len();
    let text = format!(
        "SystemStats {{ history_event_count: 5, history_size_bytes: {expected}, queue_pending_count: 1, \
         kv_user_key_count: 1, kv_total_value_bytes: 2 }} {}",
        before_end + last
    );
    assert_eq!(output(driver.last()), text);
}

#[test]
fn the_first_thing_scheduled_has_event_id_2_with_carried_values_too() {
    let program = handler(|ctx, _| async move {
        let seen = ctx.get_kv_value("k").unwrap_or_default();
        ctx.schedule_sub_orchestration("C", seen).await
    });
    let mut driver = Driver::new(program);
    let entry = duroxide_core::KvEntry { value: "kept".to_string(), last_updated_at_ms: 1 };
    driver.kv.insert("k".to_string(), entry);
    driver.turn(vec![start("")]);
    let kinds: Vec<&EventKind> = driver.history.iter().map(|event| &event.kind).collect();
    assert!(
        matches!(
            kinds[..],
            [
                EventKind::OrchestrationStarted { .. },
                EventKind::SubOrchestrationScheduled { input, .. },
                EventKind::KeyValuesCarried { .. }
            ] if input == "kept"
        ),
        "{kinds:?}"
    );
}

#[test]
fn an_execution_that_ends_in_its_first_turn_replays_to_itself_with_carried_values() {
    let program = handler(|ctx, _| async move {
        ctx.set_kv_value("n", ctx.get_kv_value("k").unwrap_or_default());
        Ok(ctx.new_guid().await?.len().to_string())
    });
    let mut driver = Driver::new(program.clone());
    let entry = duroxide_core::KvEntry { value: "kept".to_string(), last_updated_at_ms: 1 };
    driver.kv.insert("k".to_string(), entry);
    driver.turn(vec![start("")]);
    let whole = driver.history.clone();
    assert_eq!(output(driver.last()), "36");
    let mut again = Driver::new(program).with_history(whole[..whole.len() - 1].to_vec());
    again.turn(vec![]);
    assert_eq!(output(again.last()), output(driver.last()));
    assert_eq!(again.history.last().map(|event| &event.kind), whole.last().map(|event| &event.kind));
}

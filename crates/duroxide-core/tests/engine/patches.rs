//! Changed programs and the histories from before: executions that have passed the place go the old way.

use std::sync::Arc;

use duroxide_core::{EventKind, OrchestrationHandler, Outcome, pinned_version_of};
use expect_test::expect;
use semver::Version;

use crate::build::{activity, begun_by, completed, event, handler, history, raised};
use crate::driver::{Driver, check, failure, output, run, run_once};

/// Checks for fraud between two activities, if the execution is patched.
fn patched() -> Arc<dyn OrchestrationHandler> {
    handler(|ctx, _| async move {
        ctx.schedule_activity("Reserve", "").await?;
        if ctx.patched("fraud-check") {
            ctx.schedule_activity("CheckFraud", "").await?;
        }
        let answer = ctx.schedule_activity("Charge", "").await?;
        Ok(format!("{answer} {}", ctx.patched("fraud-check")))
    })
}

/// The same before the change.
fn before() -> Arc<dyn OrchestrationHandler> {
    handler(|ctx, _| async move {
        ctx.schedule_activity("Reserve", "").await?;
        let answer = ctx.schedule_activity("Charge", "").await?;
        Ok(format!("{answer} false"))
    })
}

/// The same when no execution goes the old way any more.
fn deprecated() -> Arc<dyn OrchestrationHandler> {
    handler(|ctx, _| async move {
        ctx.schedule_activity("Reserve", "").await?;
        ctx.deprecate_patch("fraud-check");
        ctx.schedule_activity("CheckFraud", "").await?;
        let answer = ctx.schedule_activity("Charge", "").await?;
        Ok(format!("{answer} true"))
    })
}

#[test]
fn a_new_execution_is_patched_and_records_it_once() {
    let messages = vec![completed(2, ""), completed(5, ""), completed(7, "charged")];
    let history = expect![[r#"
        1 OrchestrationStarted { input: "" }
        2 ActivityScheduled { name: "Reserve", input: "", session_id: None, tag: None }
        3 <- 2 ActivityCompleted { result: "" }
        4 PatchMarked { id: "fraud-check" }
        5 ActivityScheduled { name: "CheckFraud", input: "", session_id: None, tag: None }
        6 <- 5 ActivityCompleted { result: "" }
        7 ActivityScheduled { name: "Charge", input: "", session_id: None, tag: None }
        8 <- 7 ActivityCompleted { result: "charged" }
        9 OrchestrationCompleted { output: "charged true" }
    "#]];
    let driver = check(patched(), messages, history);
    assert_eq!(output(driver.last()), "charged true");
}

#[test]
fn an_execution_that_has_passed_the_place_goes_the_old_way_to_its_end() {
    let mut driver = run(before(), vec![completed(2, "")]).with_handler(patched());
    driver.forget();
    driver.send(vec![completed(4, "charged")]);
    assert_eq!(output(driver.last()), "charged false");
    let marks = driver.history.iter().filter(|event| matches!(event.kind, EventKind::PatchMarked { .. }));
    assert_eq!(marks.count(), 0);
}

#[test]
fn an_execution_that_has_not_come_to_the_place_goes_the_new_way_and_is_pinned() {
    let stored = begun_by("1.1.0", history(vec![(None, activity("Reserve", ""))]));
    let mut driver = Driver::new(patched()).with_history(stored);
    driver.send(vec![completed(2, ""), completed(5, ""), completed(7, "charged")]);
    assert_eq!(output(driver.last()), "charged true");
    let pins: Vec<_> =
        driver.turns.iter().map(|turn| turn.metadata.pinned_duroxide_version.clone()).collect();
    assert_eq!(pins, [Some(Version::new(1, 2, 0)), None, None]);
    assert_eq!(pinned_version_of(&driver.history), Some(Version::new(1, 2, 0)));
}

#[test]
fn the_first_answer_holds_also_where_the_history_could_take_another() {
    // Every round asks. The first round was before the change, so all later ones go the old way.
    let rounds = |asks: bool| {
        handler(move |ctx, _| async move {
            let mut seen = String::new();
            for _ in 0..3 {
                let is_patched = asks && ctx.patched("p");
                seen.push_str(&format!("{}{is_patched} ", ctx.schedule_wait("next").await));
            }
            Ok(seen)
        })
    };
    let mut driver = run(rounds(false), vec![raised("next", "1")]).with_handler(rounds(true));
    driver.forget();
    driver.send(vec![raised("next", "2"), raised("next", "3")]);
    assert_eq!(output(driver.last()), "1false 2false 3false ");
}

#[test]
fn branches_ask_in_their_order_and_each_patch_is_recorded_where_it_was_asked_for() {
    let branches = handler(|ctx, _| async move {
        let branch = |patch: &'static str, name: &'static str| {
            let ctx = ctx.clone();
            async move {
                let is_patched = ctx.patched(patch);
                let result = ctx.schedule_activity(name, is_patched.to_string()).await;
                format!("{result:?} {}", ctx.patched("shared"))
            }
        };
        let seen = ctx.join(vec![branch("a", "A"), branch("b", "B"), branch("a", "C")]).await;
        Ok(seen.join(", "))
    });
    let messages = vec![completed(6, "c"), completed(5, "b"), completed(3, "a")];
    let history = expect![[r#"
        1 OrchestrationStarted { input: "" }
        2 PatchMarked { id: "a" }
        3 ActivityScheduled { name: "A", input: "true", session_id: None, tag: None }
        4 PatchMarked { id: "b" }
        5 ActivityScheduled { name: "B", input: "true", session_id: None, tag: None }
        6 ActivityScheduled { name: "C", input: "true", session_id: None, tag: None }
        7 <- 6 ActivityCompleted { result: "c" }
        8 PatchMarked { id: "shared" }
        9 <- 5 ActivityCompleted { result: "b" }
        10 <- 3 ActivityCompleted { result: "a" }
        11 OrchestrationCompleted { output: "Ok(\"a\") true, Ok(\"b\") true, Ok(\"c\") true" }
    "#]];
    let driver = check(branches, messages, history);
    assert_eq!(output(driver.last()), "Ok(\"a\") true, Ok(\"b\") true, Ok(\"c\") true");
}

#[test]
fn code_from_before_the_patch_does_not_fit_and_the_text_names_the_patch() {
    let mut driver = run(patched(), vec![completed(2, ""), completed(5, "")]).with_handler(before());
    driver.forget();
    driver.send(vec![completed(7, "charged")]);
    let Outcome::Nondeterministic { diff } = &driver.last().outcome else { panic!("it must not fit") };
    let expected = "schedule mismatch at event 4: recorded patch 'fraud-check', but the code now asks for activity 'Charge'";
    assert!(diff.starts_with(expected), "{diff}");
    // Where the code does nothing at all.
    let waits = handler(|ctx, _| async move {
        ctx.schedule_activity("Reserve", "").await?;
        std::future::pending().await
    });
    let driver = run(patched(), vec![completed(2, "")]);
    let turn = run_once(waits, &driver.history, vec![]).turn;
    let Outcome::Nondeterministic { diff } = &turn.outcome else { panic!("it must not fit") };
    let expected = "recorded patch 'fraud-check', but the code now does nothing there";
    assert!(diff.contains(expected), "{diff}");
}

#[test]
fn a_deprecated_patch_takes_the_record_where_there_is_one_and_writes_none() {
    let mut recorded = run(patched(), vec![completed(2, ""), completed(5, "")]).with_handler(deprecated());
    recorded.forget();
    recorded.send(vec![completed(7, "charged")]);
    assert_eq!(output(recorded.last()), "charged true");
    let fresh = run(deprecated(), vec![completed(2, ""), completed(4, ""), completed(6, "charged")]);
    assert_eq!(output(fresh.last()), "charged true");
    assert!(!fresh.history.iter().any(|event| matches!(event.kind, EventKind::PatchMarked { .. })));
    // The record of another patch is not taken.
    let mut other = recorded.history[..3].to_vec();
    other.push(event(4, None, EventKind::PatchMarked { id: "other".to_string() }));
    let turn = run_once(deprecated(), &other, vec![]).turn;
    assert!(matches!(turn.outcome, Outcome::Nondeterministic { .. }), "{:?}", turn.outcome);
}

#[test]
fn an_id_has_the_limits_of_a_name() {
    let long = handler(|ctx, _| async move { Ok(ctx.patched(&"x".repeat(513)).to_string()) });
    let driver = run(long, vec![]);
    expect!["patch id (513 bytes) exceeds limit (512 bytes)"].assert_eq(&failure(driver.last()));
}

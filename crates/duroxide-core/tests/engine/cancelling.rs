//! Cancels that let a program undo what it did: the scope, the deadline, and all the ways in which it ends at once.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::{
    AppErrorKind, CancelPolicy, ErrorDetails, EventKind, OrchestrationContext, OrchestrationHandler, Outcome,
    WorkItem, cancel_policy_of, open_work,
};
use expect_test::expect;

use crate::build::{cancel, completed, failed, handler, raised, start};
use crate::driver::{Driver, Keep, check, failure, run};

struct Compensates<F>(F);

#[async_trait]
impl<F, Fut> OrchestrationHandler for Compensates<F>
where
    F: Fn(OrchestrationContext) -> Fut + Send + Sync,
    Fut: Future<Output = Result<String, String>> + Send,
{
    async fn invoke(&self, ctx: OrchestrationContext, _input: String) -> Result<String, String> {
        (self.0)(ctx).await
    }

    fn cancel_policy(&self) -> Option<CancelPolicy> {
        Some(CancelPolicy { compensate_within: Duration::from_secs(600) })
    }
}

fn compensates<F, Fut>(program: F) -> Arc<dyn OrchestrationHandler>
where
    F: Fn(OrchestrationContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<String, String>> + Send + 'static,
{
    Arc::new(Compensates(program))
}

/// Reserves, then charges in a scope, and releases what it reserved if it is cancelled meanwhile.
fn order() -> Arc<dyn OrchestrationHandler> {
    compensates(|ctx| async move {
        let reserved =
            ctx.cancellable(ctx.schedule_activity("Reserve", "")).await.map_err(|c| c.to_string())??;
        match ctx.cancellable(ctx.schedule_activity("Charge", "")).await {
            Ok(charged) => charged,
            Err(cancelled) => {
                ctx.schedule_activity("Release", format!("{reserved}, {cancelled}")).await?;
                Ok("released".to_string())
            }
        }
    })
}

fn stopped(id: u64) -> WorkItem {
    WorkItem::ActivityStopped { instance: "i".to_string(), execution_id: 1, id }
}

fn fired(id: u64) -> WorkItem {
    WorkItem::TimerFired { instance: "i".to_string(), execution_id: 1, id, fire_at_ms: 0 }
}

fn names(driver: &Driver) -> Vec<String> {
    driver
        .worker_items()
        .iter()
        .filter_map(|item| {
            if let WorkItem::ActivityExecuteWithin { name, reports_stop: true, .. } = item {
                Some(name.clone())
            } else {
                None
            }
        })
        .collect()
}

#[test]
fn a_cancel_in_a_scope_waits_for_the_worker_and_then_lets_the_program_undo_what_it_did() {
    let messages = vec![completed(3, "r1"), cancel("enough"), stopped(5), completed(12, "")];
    let history = expect![[r#"
        1 OrchestrationStarted { input: "" }
        2 CancelPolicyRecorded { within_ms: 600000 }
        3 ActivityScheduled { name: "Reserve", input: "", session_id: None, tag: None }
        4 <- 3 ActivityCompleted { result: "r1" }
        5 ActivityScheduled { name: "Charge", input: "", session_id: None, tag: None }
        6 OrchestrationCancelRequested { reason: "enough" }
        7 TimerCreated { fire_at_ms: 604000 }
        8 <- 5 ActivityCancelRequested { reason: "dropped_future" }
        9 TimerCreated { fire_at_ms: 64000 }
        10 <- 5 ActivityStopped
        11 <- 9 TimerCancelled { reason: "dropped_future" }
        12 ActivityScheduled { name: "Release", input: "r1, canceled: enough", session_id: None, tag: None }
        13 <- 12 ActivityCompleted { result: "" }
        14 OrchestrationFailed { details: Application { kind: Cancelled { reason: "enough" }, message: "canceled: enough", retryable: false } }
    "#]];
    let driver = check(order(), messages, history);
    assert_eq!(failure(driver.last()), "canceled: enough");
    assert_eq!(names(&driver), ["Reserve", "Charge", "Release"]);
}

#[test]
fn nothing_overtakes_an_activity_whose_worker_has_not_let_go() {
    let mut driver = Driver::new(order());
    driver.send(vec![start(""), completed(3, "r1"), cancel("enough")]);
    assert_eq!(names(&driver), ["Reserve", "Charge"]);
    driver.send(vec![stopped(3), stopped(99), completed(5, "too late")]);
    assert_eq!(names(&driver), ["Reserve", "Charge"], "only the activity itself counts, and not its result");
    // The worker died: the wait has a limit of its own.
    driver.send(vec![fired(9)]);
    assert_eq!(names(&driver), ["Reserve", "Charge", "Release"]);
    assert_eq!(driver.last().outcome, Outcome::Waiting);
}

#[test]
fn the_deadline_ends_what_has_not_undone_itself_and_gives_up_what_it_runs() {
    let mut driver = Driver::new(order());
    driver.send(vec![start(""), completed(3, "r1"), cancel("enough"), stopped(5)]);
    driver.send(vec![fired(7)]);
    assert_eq!(failure(driver.last()), "canceled: enough");
    let cancelled: Vec<u64> = driver.last().cancelled_activities.iter().map(|one| one.activity_id).collect();
    assert_eq!(cancelled, [12], "the compensation");
}

#[test]
fn a_second_cancel_ends_at_once_live_and_replayed() {
    for keep in [Keep::Live, Keep::Nothing] {
        let mut driver = Driver::new(order());
        for message in [start(""), completed(3, "r1"), cancel("first")] {
            driver.turn_at(1_000, vec![message], keep);
        }
        driver.turn_at(1_000, vec![stopped(5), cancel("second")], keep);
        let Outcome::Failed { details } = &driver.last().outcome else {
            panic!("{:?}", driver.last().outcome)
        };
        assert!(
            matches!(details, ErrorDetails::Application { kind: AppErrorKind::Cancelled { .. }, .. }),
            "{details:?}"
        );
    }
}

#[test]
fn without_a_policy_before_the_first_turn_and_outside_a_scope_a_cancel_ends_at_once() {
    let plain = handler(|ctx, _| async move {
        ctx.cancellable(ctx.schedule_activity("A", "")).await.map_err(|cancelled| cancelled.to_string())?
    });
    let outside = compensates(|ctx| async move { Ok(ctx.schedule_wait("go").await) });
    let finished = compensates(|ctx| async move {
        ctx.cancellable(ctx.schedule_activity("A", "")).await.map_err(|c| c.to_string())??;
        Ok(ctx.schedule_wait("go").await)
    });
    for (program, messages) in [
        (plain, vec![start(""), cancel("x")]),
        (outside, vec![start(""), cancel("x")]),
        (finished, vec![start(""), completed(3, ""), cancel("x")]),
    ] {
        let mut driver = Driver::new(program);
        driver.send(messages);
        assert_eq!(failure(driver.last()), "canceled: x");
    }
    let mut first = Driver::new(order());
    first.turn_at(1_000, vec![start(""), cancel("x")], Keep::Live);
    assert_eq!(failure(first.last()), "canceled: x");
    assert_eq!(names(&first), Vec::<String>::new());
}

#[test]
fn whatever_the_program_does_then_it_ends_as_cancelled() {
    type Does =
        fn(OrchestrationContext) -> std::pin::Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;
    let does: [Does; 3] = [
        |_| Box::pin(async { Ok("fine".to_string()) }),
        |_| Box::pin(async { Err("broken".to_string()) }),
        |ctx| Box::pin(async move { ctx.continue_as_new("again").await }),
    ];
    for then in does {
        let program = compensates(move |ctx| async move {
            let interrupted = ctx.cancellable(ctx.schedule_wait("go")).await;
            assert_eq!(interrupted.expect_err("it is cancelled").reason, "x");
            // A scope that is entered now is interrupted before it does anything.
            ctx.cancellable(async { unreachable!("it is not polled") }).await.expect_err("it is cancelled");
            then(ctx).await
        });
        let driver = run(program, vec![cancel("x")]);
        assert_eq!(failure(driver.last()), "canceled: x");
        assert_eq!(driver.last().metadata.status.as_deref(), Some("Failed"));
    }
}

#[test]
fn scopes_in_branches_are_all_interrupted_and_each_waits_for_its_own() {
    let program = compensates(|ctx| async move {
        let branch = |name: &'static str| {
            let ctx = ctx.clone();
            async move {
                let ended = ctx.cancellable(ctx.schedule_activity(name, "")).await;
                let undo = if ended.is_err() { "undo " } else { "keep " };
                ctx.schedule_activity(format!("{undo}{name}"), "").await
            }
        };
        let _ends = ctx.join(vec![branch("A"), branch("B")]).await;
        Ok(String::new())
    });
    let mut driver = Driver::new(program);
    driver.send(vec![start(""), cancel("x"), stopped(4)]);
    assert_eq!(names(&driver), ["A", "B", "undo B"]);
    driver.send(vec![stopped(3)]);
    assert_eq!(names(&driver), ["A", "B", "undo B", "undo A"]);
}

#[test]
fn a_cancel_that_meets_code_which_does_not_fit_ends_the_execution_as_cancelled() {
    let mut driver = run(order(), vec![completed(3, "r1")]).with_handler(compensates(|ctx| async move {
        ctx.cancellable(ctx.schedule_activity("Changed", "")).await.map_err(|c| c.to_string())?
    }));
    driver.forget();
    driver.turn_at(1_000, vec![cancel("x")], Keep::Nothing);
    assert_eq!(failure(driver.last()), "canceled: x");
}

#[test]
fn the_policy_stands_behind_the_start_and_what_is_put_back_reports_as_well() {
    let driver = run(order(), vec![]);
    let policy = cancel_policy_of(&driver.history).expect("it is recorded");
    assert_eq!(policy.compensate_within, Duration::from_secs(600));
    assert!(matches!(driver.history[1].kind, EventKind::CancelPolicyRecorded { within_ms: 600_000 }));
    let open = open_work(&driver.history);
    assert_eq!(open.activities.iter().collect::<Vec<_>>(), driver.worker_items());
    let failed = run(order(), vec![failed(3, "no"), raised("late", "")]);
    assert_eq!(failure(&failed.turns[1]), "no");
}

//! Combinators: the context's own, those of `futures`, async blocks, and any nesting of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duroxide_core::{Either2, Either3, Outcome};
use expect_test::expect;
use futures::StreamExt;
use futures::future::FutureExt;
use futures::stream::FuturesUnordered;

use crate::build::{completed, fired, handler, raised};
use crate::driver::{check, output, run};

#[test]
fn join_gives_results_in_the_order_given() {
    let program = handler(|ctx, _| async move {
        let all = (0..3).map(|n| ctx.schedule_activity("A", n.to_string())).collect();
        let results: Result<Vec<_>, _> = ctx.join(all).await.into_iter().collect();
        Ok(results?.join(","))
    });
    let driver = run(program, vec![completed(4, "c"), completed(2, "a"), completed(3, "b")]);
    assert_eq!(output(driver.last()), "a,b,c");
}

#[test]
fn a_join_of_nothing_is_ready_at_once() {
    let program = handler(|ctx, _| async move {
        let none: Vec<std::future::Ready<()>> = Vec::new();
        Ok(ctx.join(none).await.len().to_string())
    });
    assert_eq!(output(run(program, vec![]).last()), "0");
}

#[test]
fn select3_takes_the_first_and_cancels_the_others() {
    let program = handler(|ctx, _| async move {
        let picked = ctx
            .select3(
                ctx.schedule_activity("A", ""),
                ctx.schedule_timer(Duration::from_secs(1)),
                ctx.schedule_wait("e"),
            )
            .await;
        assert_eq!((picked.index(), picked.is_third()), (2, true));
        match picked {
            Either3::First(result) => result,
            Either3::Second(()) => Ok("timer".to_string()),
            Either3::Third(data) => Ok(data),
        }
    });
    let driver = check(
        program,
        vec![raised("e", "event")],
        expect![[r#"
        1 OrchestrationStarted { input: "" }
        2 ActivityScheduled { name: "A", input: "", session_id: None, tag: None }
        3 TimerCreated { fire_at_ms: 3000 }
        4 ExternalSubscribed { name: "e" }
        5 <- 4 ExternalEvent { name: "e", data: "event" }
        6 <- 3 TimerCancelled { reason: "dropped_future" }
        7 <- 2 ActivityCancelRequested { reason: "dropped_future" }
        8 OrchestrationCompleted { output: "event" }
    "#]],
    );
    assert_eq!(output(driver.last()), "event");
}

#[test]
fn select_prefers_the_first_when_both_are_ready() {
    let program = handler(|ctx, _| async move {
        let first = ctx.schedule_wait("e");
        let second = ctx.schedule_wait("e");
        ctx.schedule_wait("go").await;
        let picked = ctx.select2(first, second).await;
        Ok(format!("{:?}", picked.into_tuple()))
    });
    let driver = run(program, vec![raised("e", "1"), raised("e", "2"), raised("go", "")]);
    assert_eq!(output(driver.last()), r#"(0, "1")"#);
}

#[test]
fn the_loser_of_a_select_over_references_goes_on() {
    let program = handler(|ctx, _| async move {
        let mut slow = ctx.schedule_activity("Slow", "");
        let mut reminders = 0;
        loop {
            match ctx.select2(&mut slow, ctx.schedule_timer(Duration::from_secs(1))).await {
                Either2::First(result) => return Ok(format!("{} after {reminders}", result?)),
                Either2::Second(()) => reminders += 1,
            }
        }
    });
    let driver = run(program, vec![fired(3), fired(5), completed(2, "s")]);
    assert_eq!(output(driver.last()), "s after 2");
}

#[test]
fn combinators_nest() {
    let program = handler(|ctx, _| async move {
        let chain = |name: &'static str| {
            let ctx = ctx.clone();
            async move {
                let first = ctx.schedule_activity(name, "1").await?;
                ctx.schedule_activity(name, first).await
            }
        };
        let inner = ctx.select2(chain("A"), chain("B"));
        let (picked, joined) = ctx.join2(inner, ctx.join(vec![chain("C").boxed(), chain("D").boxed()])).await;
        let joined: Result<Vec<_>, String> = joined.into_iter().collect();
        Ok(format!("{:?} {:?}", picked.index(), joined?))
    });
    let driver = check(
        program,
        vec![
            completed(4, "c"),
            completed(3, "b"),
            completed(5, "d"),
            completed(11, "dd"),
            completed(9, "bb"),
            completed(7, "cc"),
        ],
        expect![[r#"
            1 OrchestrationStarted { input: "" }
            2 ActivityScheduled { name: "A", input: "1", session_id: None, tag: None }
            3 ActivityScheduled { name: "B", input: "1", session_id: None, tag: None }
            4 ActivityScheduled { name: "C", input: "1", session_id: None, tag: None }
            5 ActivityScheduled { name: "D", input: "1", session_id: None, tag: None }
            6 <- 4 ActivityCompleted { result: "c" }
            7 ActivityScheduled { name: "C", input: "c", session_id: None, tag: None }
            8 <- 3 ActivityCompleted { result: "b" }
            9 ActivityScheduled { name: "B", input: "b", session_id: None, tag: None }
            10 <- 5 ActivityCompleted { result: "d" }
            11 ActivityScheduled { name: "D", input: "d", session_id: None, tag: None }
            12 <- 11 ActivityCompleted { result: "dd" }
            13 <- 9 ActivityCompleted { result: "bb" }
            14 <- 2 ActivityCancelRequested { reason: "dropped_future" }
            15 <- 7 ActivityCompleted { result: "cc" }
            16 OrchestrationCompleted { output: "1 [\"cc\", \"dd\"]" }
        "#]],
    );
    assert_eq!(output(driver.last()), r#"1 ["cc", "dd"]"#);
}

#[test]
fn join_and_select_macros_of_futures_work() {
    let program = handler(|ctx, _| async move {
        let (first, second) = futures::join!(ctx.schedule_activity("A", ""), async {
            ctx.schedule_timer(Duration::from_secs(1)).await;
            ctx.schedule_activity("B", "").await
        });
        let mut third = ctx.schedule_activity("C", "").fuse();
        let mut fourth = ctx.schedule_activity("D", "").fuse();
        let picked = futures::select_biased! {
            result = third => format!("third {}", result?),
            result = fourth => format!("fourth {}", result?),
        };
        Ok(format!("{} {} {picked}", first?, second?))
    });
    let messages = vec![fired(3), completed(2, "a"), completed(5, "b"), completed(9, "d")];
    let driver = run(program, messages);
    assert_eq!(output(driver.last()), "a b fourth d");
}

#[test]
fn futures_unordered_gives_results_as_they_come() {
    let program = handler(|ctx, _| async move {
        let mut open: FuturesUnordered<_> =
            (0..5).map(|n| ctx.schedule_activity("A", n.to_string())).collect();
        let mut seen = String::new();
        while let Some(result) = open.next().await {
            seen += &result?;
            if seen.len() == 3 {
                break;
            }
        }
        drop(open);
        ctx.schedule_activity("B", seen).await
    });
    let driver =
        run(program, vec![completed(6, "e"), completed(2, "a"), completed(4, "c"), completed(12, "x")]);
    assert_eq!(output(driver.last()), "x");
    assert_eq!(driver.turns[3].cancelled_activities.len(), 2);
}

#[test]
fn boxed_recursion_works() {
    fn countdown(
        ctx: duroxide_core::OrchestrationContext,
        n: u32,
    ) -> futures::future::BoxFuture<'static, Result<u32, String>> {
        async move {
            if n == 0 {
                return Ok(0);
            }
            ctx.schedule_activity("Step", n.to_string()).await?;
            Ok(1 + countdown(ctx, n - 1).await?)
        }
        .boxed()
    }
    let program = handler(|ctx, _| async move { Ok(countdown(ctx, 50).await?.to_string()) });
    let driver = run(program, (0..50).map(|n| completed(2 + 2 * n, "")).collect());
    assert_eq!(output(driver.last()), "50");
}

#[test]
fn a_program_that_wakes_itself_is_polled_again() {
    let program = handler(|ctx, _| async move {
        let mut left = 1_000;
        std::future::poll_fn(move |cx| {
            left -= 1;
            if left == 0 {
                return std::task::Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            std::task::Poll::Pending
        })
        .await;
        ctx.schedule_activity("A", "").await
    });
    assert_eq!(output(run(program, vec![completed(2, "a")]).last()), "a");
}

#[test]
fn a_program_that_wakes_itself_forever_fails_instead_of_hanging() {
    let polls = Arc::new(AtomicUsize::new(0));
    let counted = polls.clone();
    let program = handler(move |_, _| {
        let polls = counted.clone();
        async move {
            std::future::poll_fn(|cx| {
                polls.fetch_add(1, Ordering::Relaxed);
                cx.waker().wake_by_ref();
                std::task::Poll::<Result<String, String>>::Pending
            })
            .await
        }
    });
    let mut driver = crate::driver::Driver::new(program);
    driver.turn(vec![crate::build::start("")]);
    assert!(matches!(driver.last().outcome, Outcome::Failed { .. }));
    assert!(polls.load(Ordering::Relaxed) > 1_000_000);
}

#[test]
fn a_waker_that_drops_a_durable_future_does_not_deadlock() {
    struct Bomb(std::sync::Mutex<Option<duroxide_core::DurableFuture<String>>>);
    impl std::task::Wake for Bomb {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().expect("not poisoned").take());
        }
    }
    let program = handler(|ctx, _| async move {
        let mut first = ctx.schedule_wait("e");
        let bomb = std::sync::Mutex::new(Some(ctx.schedule_wait("e")));
        {
            let waker = std::task::Waker::from(Arc::new(Bomb(bomb)));
            assert!(first.poll_unpin(&mut std::task::Context::from_waker(&waker)).is_pending());
        }
        // The second poll replaces, and thereby drops, the waker that holds the other future.
        Ok(first.await)
    });
    assert_eq!(output(run(program, vec![raised("e", "1")]).last()), "1");
}

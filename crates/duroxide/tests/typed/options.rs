//! Options of calls, in any order.

use duroxide::prelude::*;

use super::{Diary, check};

async fn flaky(ctx: ActivityContext, failures: usize) -> Result<String, String> {
    let diary = ctx.state::<Diary>();
    let key = ctx.instance_id().to_string();
    let before = diary.lines().iter().filter(|line| **line == key).count();
    diary.write(key);
    if before < failures { Err(format!("attempt {}", before + 1)) } else { Ok("done".to_string()) }
}

async fn hangs(ctx: ActivityContext, _input: ()) -> Result<String, String> {
    ctx.state::<Diary>().write(format!("{} hangs", ctx.instance_id()));
    ctx.cancelled().await;
    Err("cancelled".to_string())
}

fn quick(attempts: u32) -> RetryPolicy {
    RetryPolicy::new(attempts).with_backoff(BackoffStrategy::Fixed { delay: Duration::from_millis(1) })
}

const MINUTE: Duration = Duration::from_secs(60);

async fn any_order(ctx: OrchestrationContext, order: u32) -> Result<String> {
    let call = ctx.call(flaky, 2);
    let call = match order {
        0 => call
            .session("s")
            .schedule_to_start(MINUTE)
            .start_to_close(MINUTE)
            .retry(quick(3))
            .total_timeout(MINUTE),
        1 => call
            .total_timeout(MINUTE)
            .retry(quick(3))
            .start_to_close(MINUTE)
            .schedule_to_start(MINUTE)
            .session("s"),
        2 => {
            call.retry(quick(3)).retry_if(|_error| true).retry_timeouts().session("s").start_to_close(MINUTE)
        }
        _ => call.start_to_close(MINUTE).total_timeout(MINUTE).session("s").retry(quick(3)).retry_timeouts(),
    };
    Ok(call.await?)
}

#[tokio::test]
async fn options_combine_in_any_order() {
    let diary = Diary::default();
    check(
        move |b| b.activity("Flaky", flaky).orchestration("AnyOrder", any_order).state(diary.clone()),
        |app| async move {
            for order in 0..4 {
                let id = format!("a-{order}-{:p}", app.client());
                assert_eq!(app.run(any_order, id, order).await.expect("the third attempt succeeds"), "done");
            }
        },
    )
    .await;
}

async fn tagged(ctx: OrchestrationContext, _input: ()) -> Result<String, String> {
    let call = ctx.call(flaky, 0).schedule_to_start(Duration::from_millis(50)).tag("gpu").retry(quick(1));
    match call.await {
        Err(CallError::TimedOut { .. }) => Ok("no worker takes the tag".to_string()),
        other => Err(format!("{other:?}")),
    }
}

#[tokio::test]
async fn a_tag_keeps_workers_without_it_away_until_the_deadline() {
    check(
        |b| b.activity("Flaky", flaky).orchestration("Tagged", tagged).state(Diary::default()),
        |app| async move {
            assert_eq!(app.run(tagged, "t-1", ()).await.expect("it ends"), "no worker takes the tag");
        },
    )
    .await;
}

async fn bounded(ctx: OrchestrationContext, how: String) -> Result<String, String> {
    let short = Duration::from_millis(30);
    let call = ctx.call(hangs, ());
    let call = match how.as_str() {
        "attempt" => call.start_to_close(short),
        "attempts" => call.retry(quick(3)).start_to_close(short).retry_timeouts(),
        "not retried" => call.start_to_close(short).retry(quick(3)),
        _ => call
            .retry_timeouts()
            .total_timeout(Duration::from_millis(100))
            .retry(quick(1000))
            .start_to_close(short),
    };
    match call.await {
        Err(CallError::TimedOut { message }) => Ok(message),
        other => Err(format!("{other:?}")),
    }
}

#[tokio::test]
async fn timeouts_are_told_apart_and_retried_only_if_asked() {
    for store in super::stores().await {
        let diary = Diary::default();
        let app = duroxide::Builder::on_store(store)
            .discover(false)
            .activity("Hangs", hangs)
            .orchestration("Bounded", bounded)
            .state(diary.clone())
            .start()
            .await
            .expect("it starts");
        for (how, attempts) in [("attempt", 1), ("attempts", 3), ("not retried", 1)] {
            app.run(bounded, how, how.to_string()).await.expect("it times out");
            let made = diary.lines().iter().filter(|line| **line == format!("{how} hangs")).count();
            assert_eq!(made, attempts, "{how}");
        }
        let total = app.run(bounded, "total", "total".to_string()).await.expect("it times out");
        assert!(total.contains("all attempts of activity 'Hangs' took too long"), "{total}");
        app.shutdown().await.expect("it stops");
    }
}

async fn too_late(ctx: OrchestrationContext, option: String) -> Result<String, String> {
    let call = ctx.call(flaky, 0);
    ctx.sleep(Duration::from_millis(1)).await;
    let call = match option.as_str() {
        "tag" => call.tag("gpu"),
        "session" => call.session("s"),
        "schedule_to_start" => call.schedule_to_start(MINUTE),
        "start_to_close" => call.start_to_close(MINUTE),
        "retry" => call.retry(quick(2)),
        "retry_timeouts" => call.retry_timeouts(),
        _ => call.total_timeout(MINUTE),
    };
    call.await.map_err(|error| error.to_string())
}

#[tokio::test]
async fn an_option_that_is_set_too_late_panics_with_its_name() {
    check(
        |b| b.activity("Flaky", flaky).orchestration("TooLate", too_late).state(Diary::default()),
        |app| async move {
            let options = [
                "tag",
                "session",
                "schedule_to_start",
                "start_to_close",
                "retry",
                "retry_timeouts",
                "total_timeout",
            ];
            for option in options {
                let failed = app.run(too_late, option, option.to_string()).await.expect_err("too late");
                let text = failed.to_string();
                assert!(text.contains("must follow the scheduling call directly"), "{option}: {failed:?}");
                assert!(text.contains(option), "{option}: {text}");
            }
        },
    )
    .await;
}

//! Many calls at once, time limits, and what is cancelled.

use duroxide::prelude::*;

use super::{Diary, check};

async fn double(_ctx: ActivityContext, number: u32) -> Result<u32, String> {
    if number == 13 { Err("unlucky".to_string()) } else { Ok(2 * number) }
}

/// Runs until it is cancelled.
async fn endless(ctx: ActivityContext, name: String) -> Result<u32, String> {
    ctx.state::<Diary>().write(format!("{name} began"));
    ctx.cancelled().await;
    ctx.state::<Diary>().write(format!("{name} cancelled"));
    Err("cancelled".to_string())
}

async fn all(ctx: OrchestrationContext, numbers: Vec<u32>) -> Result<Vec<Option<u32>>> {
    let all = ctx.join_all(numbers.iter().map(|number| ctx.call(double, *number))).await;
    Ok(all.into_iter().map(Result::ok).collect())
}

#[tokio::test]
async fn join_all_gives_every_result_in_order() {
    check(
        |b| b.activity("Double", double).orchestration("All", all),
        |app| async move {
            let doubled = app.run(all, "a-1", vec![1, 13, 3]).await.expect("it ends");
            assert_eq!(doubled, [Some(2), None, Some(6)]);
            let many = app.run(all, "a-2", (100..200).collect()).await.expect("it ends");
            assert_eq!(many, (100..200).map(|number| Some(2 * number)).collect::<Vec<_>>());
            assert!(app.run(all, "a-3", Vec::new()).await.expect("it ends").is_empty());
        },
    )
    .await;
}

async fn first_error(ctx: OrchestrationContext, _input: ()) -> Result<Vec<u32>> {
    let slow = ctx.call(endless, "slow".to_string());
    ctx.wait(BEGUN).await;
    Ok(ctx.try_join_all([slow, ctx.call(double, 13)]).await?)
}

const BEGUN: EventName<()> = EventName::new("begun");

#[tokio::test]
async fn the_first_error_of_try_join_all_cancels_the_rest() {
    for store in super::stores().await {
        let diary = Diary::default();
        let app = duroxide::Builder::on_store(store)
            .discover(false)
            .activity("Double", double)
            .activity("Endless", endless)
            .orchestration("FirstError", first_error)
            .state(diary.clone())
            .start()
            .await
            .expect("it starts");
        let run = app.start(first_error, "f-1", ()).await.expect("started");
        diary.has("slow began").await;
        assert_eq!(run.raise(BEGUN, &()).await.expect("raised"), SendOutcome::Delivered);
        let failed = run.result_within(super::LONG).await.expect_err("unlucky");
        assert_eq!(failed.to_string(), "unlucky");
        tokio::time::timeout(super::LONG, diary.has("slow cancelled")).await.expect("it is cancelled");
        app.shutdown().await.expect("it stops");
    }
}

async fn drops(ctx: OrchestrationContext, _input: ()) -> Result<String> {
    let call = ctx.call(endless, "dropped".to_string());
    ctx.wait(BEGUN).await;
    drop(call);
    ctx.wait(BEGUN).await;
    Ok("went on".to_string())
}

#[tokio::test]
async fn a_dropped_call_is_cancelled_while_the_program_goes_on() {
    for store in super::stores().await {
        let diary = Diary::default();
        let app = duroxide::Builder::on_store(store)
            .discover(false)
            .activity("Endless", endless)
            .orchestration("Drops", drops)
            .state(diary.clone())
            .start()
            .await
            .expect("it starts");
        let run = app.start(drops, "d-1", ()).await.expect("started");
        diary.has("dropped began").await;
        assert_eq!(run.raise(BEGUN, &()).await.expect("raised"), SendOutcome::Delivered);
        tokio::time::timeout(super::LONG, diary.has("dropped cancelled")).await.expect("it is cancelled");
        assert_eq!(run.raise(BEGUN, &()).await.expect("raised"), SendOutcome::Delivered);
        assert_eq!(run.result_within(super::LONG).await.expect("it ends"), "went on");
        app.shutdown().await.expect("it stops");
    }
}

async fn limited(ctx: OrchestrationContext, limit_ms: u64) -> Result<String> {
    let first = ctx.timeout(Duration::from_millis(limit_ms), ctx.wait(BEGUN)).await;
    Ok(match first {
        Ok(()) => "begun".to_string(),
        Err(elapsed) => elapsed.to_string(),
    })
}

#[tokio::test]
async fn a_timeout_gives_the_output_or_says_that_the_time_is_over() {
    check(
        |b| b.orchestration("Limited", limited),
        |app| async move {
            assert_eq!(app.run(limited, "l-1", 20).await.expect("it ends"), "timed out after 20ms");
            let run = app.start(limited, "l-2", 60_000).await.expect("started");
            assert_eq!(run.raise(BEGUN, &()).await.expect("raised"), SendOutcome::Delivered);
            assert_eq!(run.result().await.expect("it ends"), "begun");
        },
    )
    .await;
}

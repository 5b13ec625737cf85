//! Time jumps while the test waits, and only then.

use std::time::Instant;

use duroxide::prelude::*;
use duroxide::testing::run_test_with;

const APPROVED: EventName<u32> = EventName::new("approved");
const LINES: QueueName<String> = QueueName::new("lines");
const DAY: Duration = Duration::from_secs(86_400);

async fn note(_ctx: ActivityContext, _number: u32) -> Result<u32> {
    Err(Failure::from("no notes in tests"))
}

/// 1,000 timers in 30 days, with a call after each.
async fn a_month(ctx: OrchestrationContext, timers: u32) -> Result<u32> {
    let mut sum = 0;
    for number in 0..timers {
        ctx.sleep(DAY * 30 / timers).await;
        sum += ctx.call(note, number).await?;
    }
    Ok(sum)
}

/// Bounds a call by a second of virtual time.
async fn bounded(ctx: OrchestrationContext, number: u32) -> Result<Option<u32>> {
    Ok(ctx.timeout(Duration::from_secs(1), ctx.call(note, number)).await.ok().transpose()?)
}

/// Waits for an approval for three days.
async fn approval(ctx: OrchestrationContext, _input: ()) -> Result<Option<u32>> {
    Ok(ctx.timeout(DAY * 3, ctx.wait(APPROVED)).await.ok())
}

async fn reads_lines(ctx: OrchestrationContext, _input: ()) -> Result<String> {
    let first = ctx.dequeue(LINES).await;
    let approved = ctx.wait(APPROVED).await;
    Ok(format!("{first} {approved}"))
}

async fn parent(ctx: OrchestrationContext, _input: ()) -> Result<String> {
    Ok(ctx.child(reads_lines, ()).with_id("child").await?)
}

fn program() -> duroxide::Builder {
    TestEnv::builder()
        .discover(false)
        .activity("note", note)
        .orchestration("a_month", a_month)
        .orchestration("bounded", bounded)
        .orchestration("approval", approval)
        .orchestration("reads_lines", reads_lines)
        .orchestration("parent", parent)
}

/// The time that this thread has had a processor: other tests run beside this one. Where the system does not tell, the time
/// since the test began.
fn computing(begun: Instant) -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = told.as_deref().and_then(|text| text.split(' ').next()?.parse().ok());
    nanoseconds.map_or_else(|| begun.elapsed(), Duration::from_nanos)
}

#[test]
fn thirty_days_with_a_thousand_timers_take_less_than_two_seconds() -> Result<()> {
    let begun = Instant::now();
    run_test_with(program(), |env| async move {
        env.mock(note, |_ctx, number: u32| async move { Ok(number) });
        let run = env.start(a_month, "month", 1_000).await?;
        assert_eq!(run.result().await?, 499_500);
        assert_eq!(env.elapsed(), DAY * 30);
        assert_eq!(env.calls(note).len(), 1_000);
        println!("30 days took {:?}, {:?} of it computing", begun.elapsed(), computing(begun));
        assert!(computing(begun) < Duration::from_secs(2), "{:?}", computing(begun));
        run.assert_replays();
        println!("with replays {:?}", begun.elapsed());
        Ok(())
    })
}

#[test]
fn time_stands_still_between_two_waits_and_a_deadline_overtakes_nothing() -> Result<()> {
    run_test_with(program(), |env| async move {
        let run = env.start(approval, "in-time", ()).await?;
        env.advance(DAY * 3 - Duration::from_millis(1)).await;
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        assert_eq!(run.raise(APPROVED, &7).await?, SendOutcome::Delivered);
        assert_eq!(run.result().await?, Some(7));
        let late = env.start(approval, "late", ()).await?;
        assert_eq!(late.result().await?, None);
        assert_eq!(env.elapsed(), DAY * 6 - Duration::from_millis(1));
        Ok(())
    })
}

#[test]
fn time_does_not_jump_while_a_handler_runs() -> Result<()> {
    run_test_with(program(), |env| async move {
        env.mock(note, |_ctx, number: u32| async move {
            // A handler that does real work.
            tokio::time::sleep(Duration::from_millis(20)).await;
            Ok(number)
        });
        let run = env.start(bounded, "bounded", 7).await?;
        assert_eq!(run.result().await?, Some(7));
        assert_eq!(env.elapsed(), Duration::ZERO);
        Ok(())
    })
}

#[test]
fn an_advance_stops_at_every_due_row_on_its_way() -> Result<()> {
    run_test_with(program(), |env| async move {
        env.mock(note, |_ctx, number: u32| async move { Ok(number) });
        let run = env.start(a_month, "month", 30).await?;
        env.advance(DAY * 10 + DAY / 2).await;
        assert_eq!(env.calls(note).len(), 10, "one timer a day, and each call before the next one");
        assert_eq!(env.elapsed(), DAY * 10 + DAY / 2);
        env.settle().await;
        assert_eq!(env.calls(note).len(), 10, "settling moves no time");
        assert_eq!(run.result().await?, (0..30).sum::<u32>());
        Ok(())
    })
}

#[test]
fn a_program_that_waits_for_what_never_comes_is_told_at_once() -> Result<()> {
    run_test_with(program(), |env| async move {
        let run = env.start(parent, "parent", ()).await?;
        let Err(stuck) = run.result().await else { panic!("nothing was sent") };
        assert_eq!(
            stuck.to_string(),
            "instance 'parent' will not end by itself: it waits for child 'child' (a message of queue 'lines')"
        );
        let sent = env.app().enqueue("child", LINES, &"one".to_string()).await?;
        assert_eq!(sent, SendOutcome::Delivered);
        let Err(stuck) = run.result().await else { panic!("no event was raised") };
        assert!(stuck.to_string().ends_with("it waits for child 'child' (event 'approved')"), "{stuck}");
        assert_eq!(env.app().raise("child", APPROVED, &2).await?, SendOutcome::Delivered);
        assert_eq!(run.result().await?, "one 2");
        let unknown = env.handle(parent, "unknown");
        assert!(matches!(unknown.result().await, Err(RunError::NotFound { .. })));
        Ok(())
    })
}

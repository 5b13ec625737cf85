//! Starting an id that is new, and one that exists.

use duroxide::prelude::*;

use super::check;

const GO: EventName<String> = EventName::new("go");

async fn waits(ctx: OrchestrationContext, name: String) -> Result<String> {
    let word = ctx.wait(GO).await;
    Ok(format!("{name}: {word}"))
}

async fn other(_ctx: OrchestrationContext, name: String) -> Result<String> {
    Ok(name)
}

fn both(builder: duroxide::Builder) -> duroxide::Builder {
    builder.orchestration("Waits", waits).orchestration("Other", other)
}

#[tokio::test]
async fn the_same_start_attaches_to_what_is_there() {
    check(both, |app| async move {
        let first = app.start(waits, "w-1", "a".to_string()).await.expect("started");
        let second = app.start(waits, "w-1", "a".to_string()).await.expect("attached");
        assert_eq!((first.started(), second.started(), second.id()), (true, false, "w-1"));
        assert_eq!(second.raise(GO, &"now".to_string()).await.expect("raised"), SendOutcome::Delivered);
        assert_eq!(first.result().await.expect("it ends"), "a: now");
        assert_eq!(second.result().await.expect("it ends"), "a: now");
        let ended = app.run(waits, "w-1", "a".to_string()).await.expect("its result is there");
        assert_eq!(ended, "a: now");
    })
    .await;
}

#[tokio::test]
async fn another_input_or_orchestration_is_an_error_that_says_so() {
    check(both, |app| async move {
        let run = app.start(waits, "w-1", "a".to_string()).await.expect("started");
        let input = app.start(waits, "w-1", "b".to_string()).await.expect_err("another input").to_string();
        assert!(input.contains("instance 'w-1' exists: it is 'Waits' with another input"), "{input}");
        let kind = app.start(other, "w-1", "a".to_string()).await.expect_err("another one").to_string();
        assert!(kind.contains("it is 'Waits', and not 'Other'"), "{kind}");
        let attached = app.handle(waits, "w-1");
        assert_eq!(attached.raise(GO, &"now".to_string()).await.expect("raised"), SendOutcome::Delivered);
        assert_eq!(run.result().await.expect("it ends"), "a: now");
    })
    .await;
}

#[tokio::test]
async fn a_cancelled_run_says_why() {
    check(both, |app| async move {
        let run = app.start(waits, "w-1", "a".to_string()).await.expect("started");
        assert_eq!(run.cancel("changed my mind").await.expect("cancelled"), SendOutcome::Delivered);
        let failed = run.result().await.expect_err("cancelled");
        let RunError::Call(CallError::Cancelled { reason }) = &failed else { panic!("{failed:?}") };
        assert!(reason.contains("changed my mind"), "{reason}");
    })
    .await;
}

#[tokio::test]
async fn what_does_not_exist_is_not_found_and_an_event_is_kept_for_it() {
    check(both, |app| async move {
        let missing = app.handle(waits, "nobody").result_within(Duration::from_millis(20)).await;
        assert!(matches!(missing, Err(RunError::NotFound { .. })), "{missing:?}");
        let raised = app.raise("nobody", GO, &"now".to_string()).await.expect("it is answered");
        assert_eq!(raised, SendOutcome::Kept);
    })
    .await;
}

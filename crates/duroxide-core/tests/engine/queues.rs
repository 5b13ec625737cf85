//! Queues: first in, first out, one consumer each.

use expect_test::expect;

use crate::build::{completed, handler, queued};
use crate::driver::{check, output, run};

#[test]
fn a_queue_gives_its_messages_first_in_first_out() {
    let program = handler(|ctx, _| async move {
        let mut all = String::new();
        for _ in 0..3 {
            all += &ctx.dequeue_event("q").await;
        }
        Ok(all)
    });
    let driver = check(
        program,
        vec![queued("q", "a"), queued("other", "x"), queued("q", "b"), queued("q", "c")],
        expect![[r#"
            1 OrchestrationStarted { input: "" }
            2 QueueSubscribed { name: "q" }
            3 <- 2 QueueEventDelivered { name: "q", data: "a" }
            4 QueueSubscribed { name: "q" }
            5 QueueEventDelivered { name: "other", data: "x" }
            6 <- 4 QueueEventDelivered { name: "q", data: "b" }
            7 QueueSubscribed { name: "q" }
            8 <- 7 QueueEventDelivered { name: "q", data: "c" }
            9 OrchestrationCompleted { output: "abc" }
        "#]],
    );
    assert_eq!(output(driver.last()), "abc");
}

#[test]
fn each_of_several_consumers_gets_its_own_message() {
    let program = handler(|ctx, _| async move {
        let consumers: Vec<_> = (0..4)
            .map(|number| {
                let ctx = ctx.clone();
                async move {
                    let first = ctx.dequeue_event("q").await;
                    let second = ctx.dequeue_event("q").await;
                    format!("{number}:{first}{second}")
                }
            })
            .collect();
        Ok(ctx.join(consumers).await.join(" "))
    });
    let driver = run(program, "abcdefgh".chars().map(|data| queued("q", &data.to_string())).collect());
    assert_eq!(output(driver.last()), "0:ae 1:bf 2:cg 3:dh");
}

#[test]
fn queues_and_events_of_one_name_are_apart() {
    let program = handler(|ctx, _| async move {
        let event = ctx.schedule_wait("n");
        let message = ctx.dequeue_event("n").await;
        Ok(format!("{message} {}", event.await))
    });
    let driver = run(program, vec![queued("n", "message"), crate::build::raised("n", "event")]);
    assert_eq!(output(driver.last()), "message event");
}

#[test]
fn a_message_that_was_delivered_and_dropped_unread_keeps_its_place() {
    let program = handler(|ctx, _| async move {
        let unread = ctx.dequeue_event("q");
        ctx.schedule_activity("A", "").await?;
        drop(unread);
        let first = ctx.dequeue_event("q").await;
        let second = ctx.dequeue_event("q").await;
        Ok(first + &second)
    });
    let driver = check(
        program,
        vec![queued("q", "1"), queued("q", "2"), completed(3, "")],
        expect![[r#"
        1 OrchestrationStarted { input: "" }
        2 QueueSubscribed { name: "q" }
        3 ActivityScheduled { name: "A", input: "", session_id: None, tag: None }
        4 <- 2 QueueEventDelivered { name: "q", data: "1" }
        5 QueueEventDelivered { name: "q", data: "2" }
        6 <- 3 ActivityCompleted { result: "" }
        7 <- 2 QueueSubscriptionCancelled { reason: "dropped_future" }
        8 QueueSubscribed { name: "q" }
        9 QueueSubscribed { name: "q" }
        10 OrchestrationCompleted { output: "12" }
    "#]],
    );
    assert_eq!(output(driver.last()), "12");
}

#[test]
fn the_older_name_of_a_queue_wait_is_the_same() {
    #[expect(deprecated, reason = "the older name is what is tested")]
    let program = handler(|ctx, _| async move { Ok(ctx.schedule_wait_persistent("q").await) });
    assert_eq!(output(run(program, vec![queued("q", "m")]).last()), "m");
}

#[test]
fn a_typed_message_is_decoded() {
    let program = handler(|ctx, _| async move {
        let numbers: Vec<u32> = ctx.dequeue_event_typed("q").await;
        Ok(numbers.len().to_string())
    });
    assert_eq!(output(run(program, vec![queued("q", "[1,2,3]")]).last()), "3");
}

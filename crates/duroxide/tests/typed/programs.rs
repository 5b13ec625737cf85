//! One program with events, queues, timers, children and calls.

use duroxide::prelude::*;
use serde::{Deserialize, Serialize};

use super::check;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Approval {
    by: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Line {
    item: String,
    count: u32,
}

const APPROVED: EventName<Approval> = EventName::new("approved");
const LINES: QueueName<Line> = QueueName::new("lines");

async fn reserve(_ctx: ActivityContext, line: Line) -> Result<u32> {
    Ok(line.count)
}

async fn ship(_ctx: OrchestrationContext, what: String) -> Result<String> {
    Ok(format!("parcel of {what}"))
}

async fn archive(_ctx: OrchestrationContext, what: String) -> Result<String> {
    Ok(what)
}

async fn order(ctx: OrchestrationContext, left: u32) -> Result<String> {
    if left > 0 {
        return ctx.continue_as(order, left - 1).await;
    }
    let approval = ctx.wait(APPROVED).await;
    let lines = [ctx.dequeue(LINES).await, ctx.dequeue(LINES).await];
    ctx.sleep(Duration::from_millis(1)).await;
    let parcel = ctx.child(ship, lines[0].item.clone()).with_id("ship-42").await?;
    ctx.start(archive, "archive-42", approval.by.clone());
    let all = ctx.join_all(lines.iter().map(|l| ctx.call(reserve, l.clone()))).await;
    let stock = ctx.try_join_all(lines.iter().map(|l| ctx.call(reserve, l.clone()))).await?;
    ctx.logger().info("the order is complete");
    Ok(format!("{parcel} for {}, {} lines, {stock:?}", approval.by, all.len()))
}

#[tokio::test]
async fn everything_in_one_program() {
    check(
        |b| {
            b.activity("Reserve", reserve)
                .orchestration("Ship", ship)
                .orchestration("Archive", archive)
                .orchestration("Order", order)
        },
        |app| async move {
            let run = app.start(order, "order-1", 0).await.expect("started");
            assert_eq!(
                app.raise("order-1", APPROVED, &Approval { by: "Ada".into() }).await.expect("raised"),
                SendOutcome::Delivered
            );
            for count in [2, 3] {
                let line = Line { item: "tea".into(), count };
                assert_eq!(
                    app.enqueue("order-1", LINES, &line).await.expect("enqueued"),
                    SendOutcome::Delivered
                );
            }
            assert_eq!(run.result().await.expect("it ends"), "parcel of tea for Ada, 2 lines, [2, 3]");
            assert_eq!(app.handle(archive, "archive-42").result().await.expect("it ends"), "Ada");
        },
    )
    .await;
}

async fn careful(ctx: OrchestrationContext, _input: ()) -> Result<String> {
    let event = ctx.try_wait(APPROVED).await;
    let message = ctx.try_dequeue(LINES).await;
    Ok(format!("{}, {}", event.is_err(), message.is_err()))
}

#[tokio::test]
async fn data_of_another_type_is_an_error_where_the_program_asks_for_one() {
    check(
        |b| b.orchestration("Careful", careful),
        |app| async move {
            let run = app.start(careful, "c-1", ()).await.expect("started");
            app.client().raise_event("c-1", "approved", "no JSON").await.expect("raised");
            app.client().enqueue_event("c-1", "lines", "[1]").await.expect("enqueued");
            assert_eq!(run.result().await.expect("it ends"), "true, true");
        },
    )
    .await;
}

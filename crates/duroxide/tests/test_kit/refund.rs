//! The first example of the documents: a refund after three days.

use duroxide::prelude::*;
use duroxide::testing::{ReplayError, replay, replay_dir};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Order {
    id: u64,
    cents: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Receipt {
    order: u64,
    cents: u64,
}

impl Receipt {
    fn for_order(order: &Order) -> Self {
        Self { order: order.id, cents: order.cents }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Outcome {
    Shipped(String),
    Refunded,
    Stolen(u32),
}

#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
enum PayError {
    #[error("card declined")]
    Declined,
}

#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
enum ShipError {
    #[error("lost")]
    Lost,
    #[error("stolen by {by}")]
    Stolen { by: u32 },
}

#[duroxide::activity]
async fn charge(_ctx: ActivityContext, _order: Order) -> Result<Receipt, PayError> {
    Err(PayError::Declined)
}

#[duroxide::activity]
async fn refund(_ctx: ActivityContext, receipt: Receipt) -> Result<u64> {
    Ok(receipt.cents)
}

#[duroxide::orchestration]
async fn ship(ctx: OrchestrationContext, order: Order) -> Result<String, ShipError> {
    ctx.sleep(Duration::from_secs(order.id)).await;
    Err(ShipError::Lost)
}

#[duroxide::orchestration]
async fn order_flow(ctx: OrchestrationContext, order: Order) -> Result<Outcome> {
    let receipt = ctx.call(charge, order.clone()).await?;
    match ctx.child(ship, order).await {
        Ok(parcel) => Ok(Outcome::Shipped(parcel)),
        Err(CallError::App(ShipError::Stolen { by })) => Ok(Outcome::Stolen(by)),
        Err(_lost) => {
            ctx.sleep(Duration::from_secs(3 * 86_400)).await;
            ctx.call(refund, receipt).retry(RetryPolicy::new(5)).await?;
            Ok(Outcome::Refunded)
        }
    }
}

fn cart() -> Order {
    Order { id: 7, cents: 1_250 }
}

#[duroxide::test]
async fn a_refund_after_three_days(env: TestEnv) -> Result<()> {
    env.mock(charge, |_ctx, order: Order| async move { Ok(Receipt::for_order(&order)) });
    env.mock_err(ship, CallError::App(ShipError::Lost));
    let run = env.start(order_flow, "order-1", cart()).await?;
    env.advance(Duration::from_secs(3 * 86_400)).await; // or nothing: time jumps by itself when all is idle
    assert_eq!(run.result().await?, Outcome::Refunded);
    assert_eq!(env.calls(charge).len(), 1); // what was called, with typed inputs
    run.assert_replays(); // from every prefix of its history
    run.golden("tests/histories/refund.json") // DUROXIDE_BLESS=1 writes it; else the code must still replay it
}

#[duroxide::test]
async fn a_mock_can_be_changed_and_the_real_handlers_run_without_one(env: TestEnv) -> Result<()> {
    let run = env.start(order_flow, "declined", cart()).await?;
    assert_eq!(run.result().await.expect_err("the real activity declines").to_string(), "card declined");
    env.mock(charge, |ctx, order: Order| async move {
        assert_eq!(ctx.attempt(), 1);
        Ok(Receipt::for_order(&order))
    });
    env.mock(ship, |ctx, order: Order| async move {
        ctx.sleep(Duration::from_secs(60)).await;
        Ok(format!("parcel {}", order.id))
    });
    let run = env.start(order_flow, "shipped", cart()).await?;
    assert_eq!(run.result().await?, Outcome::Shipped("parcel 7".to_string()));
    let charges = env.calls(charge);
    assert_eq!(charges.len(), 2);
    assert_eq!(charges[1].cents, 1_250, "a call derefs to its input");
    assert_eq!((charges[1].instance.as_str(), charges[1].attempt), ("shipped", 1));
    assert_ne!(charges[0].idempotency_key, charges[1].idempotency_key);
    assert_eq!(env.calls(ship).len(), 1, "an execution is one call, however often it is replayed");
    assert_eq!(env.elapsed(), Duration::from_secs(60));
    Ok(())
}

#[duroxide::test]
async fn an_error_of_a_mock_reaches_its_caller_with_its_type(env: TestEnv) -> Result<()> {
    env.mock(charge, |_ctx, order: Order| async move { Ok(Receipt::for_order(&order)) });
    env.mock(ship, |_ctx, _order: Order| async move { Err(ShipError::Stolen { by: 3 }) });
    let run = env.start(order_flow, "stolen", cart()).await?;
    assert_eq!(run.result().await?, Outcome::Stolen(3));
    run.assert_replays();
    env.mock_err(ship, CallError::App(ShipError::Stolen { by: 4 }));
    assert_eq!(env.start(order_flow, "again", cart()).await?.result().await?, Outcome::Stolen(4));
    env.mock_err(charge, CallError::App(PayError::Declined));
    let run = env.start(order_flow, "declined", cart()).await?;
    assert!(run.result().await.is_err());
    run.assert_replays();
    Ok(())
}

#[test]
fn recorded_histories_are_replayed_by_the_discovered_code() -> Result<(), ReplayError> {
    replay_dir("tests/histories")?;
    let json = include_str!("../histories/refund.json");
    replay(json)?;
    let mismatch = replay(&json.replace("\"charge\"", "\"pay\"")).expect_err("the activity has another name");
    let text = mismatch.to_string();
    assert!(text.contains("at event 2") && text.contains("name (recorded 'pay', now 'charge')"), "{text}");
    Ok(())
}

//! Changes that a release must not make: each is found by replaying recorded histories.

use duroxide::prelude::*;
use duroxide::testing::TestEnv;
use shop::activities::{charge, hand_over, release, reserve};
use shop::model::{Charge, Line, Order, OrderError};
use shop::order::ship;

const DAY: Duration = Duration::from_secs(86_400);

fn request(order: &Order) -> Charge {
    Charge { card: order.card.clone(), cents: order.total_cents() }
}

async fn reserve_all(ctx: &OrchestrationContext, order: &Order) {
    ctx.join_all(order.lines.iter().map(|line| ctx.call(reserve, line.clone()))).await;
}

/// Charges before it reserves.
async fn reordered(ctx: OrchestrationContext, order: Order) -> Result<(), OrderError> {
    ctx.call(charge, request(&order)).retry(RetryPolicy::new(5)).await?;
    reserve_all(&ctx, &order).await;
    Ok(())
}

/// Reserves one more of each.
async fn changed_input(ctx: OrchestrationContext, order: Order) -> Result<(), OrderError> {
    let more = |line: &Line| Line { quantity: line.quantity + 1, ..line.clone() };
    ctx.join_all(order.lines.iter().map(|line| ctx.call(reserve, more(line)))).await;
    Ok(())
}

/// Calls another activity than the first release.
async fn renamed(ctx: OrchestrationContext, order: Order) -> Result<(), OrderError> {
    ctx.join_all(order.lines.iter().map(|line| ctx.call(hand_over, line.sku.clone()))).await;
    Ok(())
}

/// Waits for the approval without a deadline.
async fn without_timer(ctx: OrchestrationContext, order: Order) -> Result<(), OrderError> {
    reserve_all(&ctx, &order).await;
    ctx.set_custom_status("waiting for approval");
    ctx.wait(shop::model::APPROVED).await;
    ctx.call(charge, request(&order)).await?;
    Ok(())
}

/// Calls something new in the middle, without `patched`.
async fn new_call(ctx: OrchestrationContext, order: Order) -> Result<(), OrderError> {
    reserve_all(&ctx, &order).await;
    ctx.child(ship, order.id.clone()).await?;
    drop(ctx.timeout(DAY * 3, ctx.wait(shop::model::APPROVED)).await);
    Ok(())
}

/// A program whose order workflow is `broken`.
macro_rules! check {
    ($broken:ident, $file:literal, $($part:literal),+) => {
        let builder = TestEnv::builder()
            .discover(false)
            .activity("Reserve", reserve)
            .activity("Release", release)
            .activity("Charge", charge)
            .activity("HandOver", hand_over)
            .orchestration("Shipment", ship)
            .orchestration("Order", $broken)
            .compensate_on_cancel($broken, Duration::from_secs(600));
        let history = std::fs::read_to_string(concat!("tests/histories/", $file)).expect("a recorded history");
        duroxide::testing::run_test_with(builder, |env| async move {
            let mismatch = env.replay(&history).expect_err("the code has changed").to_string();
            for part in [$($part),+, "tests/broken.rs:"] {
                assert!(mismatch.contains(part), "{part} is not in: {mismatch}");
            }
        });
    };
}

#[test]
fn reordered_calls_are_found() {
    check!(reordered, "small_order.json", "schedule mismatch", "name");
}

#[test]
fn a_changed_input_is_found() {
    check!(changed_input, "small_order.json", "schedule mismatch", "input");
}

#[test]
fn a_renamed_activity_is_found() {
    check!(renamed, "small_order.json", "schedule mismatch", "name (recorded 'Reserve', now 'HandOver')");
}

#[test]
fn a_removed_timer_is_found() {
    check!(without_timer, "not_approved.json", "timer");
}

#[test]
fn a_new_call_without_a_patch_is_found() {
    check!(new_call, "not_approved.json", "schedule mismatch");
}

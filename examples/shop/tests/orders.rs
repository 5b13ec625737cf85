//! The order workflow, tested in virtual time.

use duroxide::prelude::*;
use shop::activities::{charge, refund, release};
use shop::model::{APPROVED, Approval, Charge, Line, Order, OrderError, PayError, StockError};
use shop::order::order;
use shop::world::World;

fn line(sku: &str, quantity: u32, cents: u64) -> Line {
    Line { sku: sku.to_string(), quantity, cents }
}

fn cart(lines: Vec<Line>) -> Order {
    Order { id: "1".to_string(), card: "4711".to_string(), lines }
}

/// More than a person has to approve.
fn large() -> Order {
    cart(vec![line("tea", 2, 60_000), line("teapot", 1, 60_000)])
}

fn stocked(env: &TestEnv) -> World {
    let world = World::default();
    world.put("tea", 10);
    world.put("teapot", 1);
    env.state(world.clone());
    world
}

fn all_is_as_before(world: &World) {
    assert_eq!((world.left("tea"), world.left("teapot"), world.balance_cents()), (10, 1, 0));
}

#[duroxide::test]
async fn a_small_order_is_charged_and_shipped(env: TestEnv) -> Result<()> {
    let world = stocked(&env);
    let run = env.start(order, "order-1", cart(vec![line("tea", 3, 900), line("teapot", 1, 2_500)])).await?;
    let fulfilled = run.result().await?;
    assert_eq!(fulfilled.receipt.cents, 3_400);
    assert_eq!((world.left("tea"), world.left("teapot"), world.balance_cents()), (7, 0, 3_400));
    run.assert_replays();
    run.golden("tests/histories/small_order.json")
}

#[duroxide::test]
async fn a_bank_that_cannot_be_reached_is_asked_again_and_charges_once(env: TestEnv) -> Result<()> {
    let world = stocked(&env);
    let bank = world.clone();
    env.mock(charge, move |ctx: ActivityContext, request: Charge| {
        let bank = bank.clone();
        async move {
            // The bank has done it, and its answer is lost.
            let receipt = bank.charge(&ctx.idempotency_key(), &request)?;
            if ctx.attempt() < 4 { Err(PayError::Network("lost".to_string())) } else { Ok(receipt) }
        }
    });
    let run = env.start(order, "order-1", cart(vec![line("tea", 1, 300)])).await?;
    run.result().await?;
    assert_eq!((env.calls(charge).len(), world.payments(), world.balance_cents()), (4, 1, 300));
    Ok(())
}

#[duroxide::test]
async fn a_declined_card_undoes_the_reservations(env: TestEnv) -> Result<()> {
    let world = stocked(&env);
    let declined =
        Order { card: "declined".to_string(), ..cart(vec![line("tea", 1, 300), line("teapot", 1, 1)]) };
    let failed = env.start(order, "order-1", declined).await?.result().await.expect_err("no money");
    assert_eq!(failed.app(), Some(&OrderError::Pay(CallError::App(PayError::Declined))));
    assert_eq!((env.calls(charge).len(), env.calls(release).len()), (1, 2), "no retry, both released");
    all_is_as_before(&world);
    Ok(())
}

#[duroxide::test]
async fn what_was_reserved_beside_a_missing_article_is_released(env: TestEnv) -> Result<()> {
    let world = stocked(&env);
    let too_much = cart(vec![line("tea", 1, 300), line("teapot", 2, 5_000)]);
    let failed = env.start(order, "order-1", too_much).await?.result().await.expect_err("sold out");
    let sold_out = StockError::SoldOut { sku: "teapot".to_string() };
    assert_eq!(failed.app(), Some(&OrderError::Stock(CallError::App(sold_out))));
    all_is_as_before(&world);
    Ok(())
}

#[duroxide::test]
async fn a_large_order_without_an_approval_ends_after_three_days(env: TestEnv) -> Result<()> {
    let world = stocked(&env);
    let run = env.start(order, "order-1", large()).await?;
    let failed = run.result().await.expect_err("nobody decides");
    assert_eq!(failed.app(), Some(&OrderError::NotApproved { days: 3 }));
    assert_eq!(env.elapsed(), Duration::from_secs(3 * 86_400));
    all_is_as_before(&world);
    run.assert_replays();
    run.golden("tests/histories/not_approved.json")
}

#[duroxide::test]
async fn a_large_order_is_fulfilled_with_an_approval_and_refused_without(env: TestEnv) -> Result<()> {
    let world = stocked(&env);
    let run = env.start(order, "order-1", large()).await?;
    env.advance(Duration::from_secs(2 * 86_400)).await;
    let raised = run.raise(APPROVED, &Approval { by: "Ada".to_string(), granted: true }).await?;
    assert_eq!(raised, SendOutcome::Delivered);
    assert_eq!(run.result().await?.receipt.cents, 120_000);
    run.golden("tests/histories/approved.json")?;
    world.put("teapot", 1);
    let refused = env.start(order, "order-2", Order { id: "2".to_string(), ..large() }).await?;
    let raised = refused.raise(APPROVED, &Approval { by: "Ada".to_string(), granted: false }).await?;
    assert_eq!(raised, SendOutcome::Delivered);
    let failed = refused.result().await.expect_err("refused");
    assert_eq!(failed.app(), Some(&OrderError::Refused { by: "Ada".to_string() }));
    Ok(())
}

#[duroxide::test]
async fn an_order_that_is_cancelled_undoes_what_was_done(env: TestEnv) -> Result<()> {
    let world = stocked(&env);
    let run = env.start(order, "order-1", large()).await?;
    env.settle().await;
    assert_eq!((world.left("tea"), world.left("teapot")), (8, 0), "reserved, and waits for a person");
    assert_eq!(run.cancel("changed my mind").await?, SendOutcome::Delivered);
    let failed = run.result().await.expect_err("cancelled");
    assert!(
        matches!(&failed, RunError::Call(CallError::Cancelled { reason }) if reason == "changed my mind")
    );
    all_is_as_before(&world);
    assert_eq!((env.calls(charge).len(), env.calls(refund).len()), (0, 0));
    Ok(())
}

#[duroxide::test]
async fn a_stolen_card_is_found_before_it_is_charged(env: TestEnv) -> Result<()> {
    let world = stocked(&env);
    let stolen = Order { card: "stolen 1".to_string(), ..cart(vec![line("tea", 1, 300)]) };
    let failed = env.start(order, "order-1", stolen).await?.result().await.expect_err("stolen");
    assert!(matches!(failed.app(), Some(OrderError::Check(CallError::App(_)))), "{failed:?}");
    all_is_as_before(&world);
    Ok(())
}

/// Under chaos the bank's answers get lost, workers die, and every order is still charged once.
#[duroxide::test]
async fn an_order_is_charged_once_whatever_fails(env: TestEnv) -> Result<()> {
    let world = World::default();
    env.state(world.clone());
    for (before, env) in env.chaos_seeds(0..50).enumerate() {
        world.put("tea", 3);
        world.put("teapot", 1);
        // The services outlive every process, so each seed has an order of its own.
        let id = format!("order-{}", env.chaos_seed().unwrap_or_default());
        let ordered = Order { id: id.clone(), ..cart(vec![line("tea", 3, 900), line("teapot", 1, 2_500)]) };
        let run = env.start(order, id, ordered).await?;
        assert_eq!(run.result().await?.receipt.cents, 3_400);
        assert_eq!((world.left("tea"), world.left("teapot")), (0, 0), "reserved once");
        assert_eq!(world.payments(), before + 1, "charged once");
    }
    Ok(())
}

/// The first release had no check for fraud. What it began goes on its way, on the code of today.
#[test]
fn orders_of_the_first_release_still_replay() {
    use shop as _;
    duroxide::testing::replay_dir("tests/histories").unwrap_or_else(|mismatch| panic!("{mismatch}"));
}

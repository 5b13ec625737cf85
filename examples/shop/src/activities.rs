//! What touches the world. Each may run more than once, so each passes its idempotency key on.

use duroxide::prelude::*;

use crate::model::{Charge, Line, Order, Parcel, PayError, Receipt, Reservation, ShipError, StockError};
use crate::world::World;

/// Keeps goods for an order.
#[duroxide::activity(name = "Reserve")]
pub async fn reserve(ctx: ActivityContext, line: Line) -> Result<Reservation, StockError> {
    ctx.state::<World>().reserve(&ctx.idempotency_key(), &line.sku, line.quantity)?;
    Ok(Reservation { sku: line.sku, quantity: line.quantity })
}

/// Gives kept goods back.
#[duroxide::activity(name = "Release")]
pub async fn release(ctx: ActivityContext, reservation: Reservation) -> Result<(), StockError> {
    ctx.state::<World>().release(&ctx.idempotency_key(), &reservation.sku, reservation.quantity);
    Ok(())
}

/// Takes the customer's money.
#[duroxide::activity(name = "Charge")]
pub async fn charge(ctx: ActivityContext, charge: Charge) -> Result<Receipt, PayError> {
    ctx.state::<World>().charge(&ctx.idempotency_key(), &charge)
}

/// Gives the customer's money back.
#[duroxide::activity(name = "Refund")]
pub async fn refund(ctx: ActivityContext, receipt: Receipt) -> Result<(), PayError> {
    ctx.state::<World>().refund(&receipt);
    Ok(())
}

/// Looks for fraud. Came with the second version of the workflow.
#[duroxide::activity(name = "CheckFraud")]
pub async fn check_fraud(_ctx: ActivityContext, order: Order) -> Result<()> {
    if order.card.starts_with("stolen") {
        return Err(Failure::from("the card is reported as stolen"));
    }
    Ok(())
}

/// Hands a parcel to the carrier.
#[duroxide::activity(name = "HandOver")]
pub async fn hand_over(ctx: ActivityContext, order: String) -> Result<Parcel, ShipError> {
    let tracking = ctx.state::<World>().hand_over(&order);
    Ok(Parcel { order, tracking })
}

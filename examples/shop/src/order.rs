//! The order workflow: reserve in parallel, ask for approval where it is much money, charge, ship; and undo on any failure.

use std::future::ready;

use duroxide::prelude::*;

use crate::activities::{charge, check_fraud, hand_over, refund, release, reserve};
use crate::model::{APPROVED, Charge, Order, OrderError, Parcel, PayError, Receipt, ShipError};

/// Orders above this wait for a person.
const APPROVAL_ABOVE_CENTS: u64 = 100_000;
/// How long they wait.
const APPROVAL_DAYS: u64 = 3;
const DAY: Duration = Duration::from_secs(86_400);

/// What a customer gets in the end.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Fulfilled {
    /// The payment.
    pub receipt: Receipt,
    /// The shipment.
    pub parcel: Parcel,
}

/// Fulfils an order, or undoes what was done for it.
#[duroxide::orchestration(name = "Order", on_cancel = "compensate", within = "10m")]
pub async fn order(ctx: OrchestrationContext, order: Order) -> Result<Fulfilled, OrderError> {
    let mut saga = ctx.saga();
    let steps = ctx.cancellable(fulfil(&ctx, &order, &mut saga)).await;
    let failed = match steps {
        Ok(Ok(fulfilled)) => return Ok(fulfilled),
        Ok(Err(error)) => Some(error),
        Err(_cancelled) => None,
    };
    let undone = saga.compensate().await;
    match (undone, failed) {
        (Err(left), _) => Err(OrderError::NotUndone(left.to_string())),
        (Ok(()), Some(error)) => Err(error),
        (Ok(()), None) => Err(OrderError::NotUndone("cancelled, and all is undone".to_string())),
    }
}

async fn fulfil<'a>(
    ctx: &'a OrchestrationContext,
    order: &'a Order,
    saga: &mut Saga<'a>,
) -> Result<Fulfilled, OrderError> {
    // All lines at the same time. What was reserved is noted before the first failure is looked at.
    let reserved = ctx.join_all(order.lines.iter().map(|line| ctx.call(reserve, line.clone()))).await;
    let mut missing = None;
    for reservation in reserved {
        let kept = saga.step(ready(reservation), |kept| ctx.call(release, kept)).await;
        missing = missing.or(kept.err());
    }
    if let Some(missing) = missing {
        return Err(missing.into());
    }
    if ctx.patched("fraud-check") {
        ctx.call(check_fraud, order.clone()).await?;
    }
    if order.total_cents() > APPROVAL_ABOVE_CENTS {
        ctx.set_custom_status("waiting for approval");
        let Ok(approval) = ctx.timeout(DAY * 3, ctx.wait(APPROVED)).await else {
            return Err(OrderError::NotApproved { days: APPROVAL_DAYS });
        };
        if !approval.granted {
            return Err(OrderError::Refused { by: approval.by });
        }
        ctx.reset_custom_status();
    }
    let request = Charge { card: order.card.clone(), cents: order.total_cents() };
    let payment = ctx
        .call(charge, request)
        .start_to_close(Duration::from_secs(30))
        .retry(RetryPolicy::new(5))
        .retry_if(|error: &PayError| matches!(error, PayError::Network(_)));
    let receipt = saga.step(payment, |receipt| ctx.call(refund, receipt)).await?;
    let parcel = ctx.child(ship, order.id.clone()).with_id(format!("ship-{}", order.id)).await?;
    Ok(Fulfilled { receipt, parcel })
}

/// Ships one order.
#[duroxide::orchestration(name = "Shipment")]
pub async fn ship(ctx: OrchestrationContext, order: String) -> Result<Parcel, ShipError> {
    let handed_over = ctx.call(hand_over, order).retry(RetryPolicy::new(10)).total_timeout(DAY).await;
    // Whatever else kept the carrier from coming, the parcel does not leave.
    handed_over.map_err(|error| error.app().cloned().unwrap_or(ShipError::NoCarrier))
}

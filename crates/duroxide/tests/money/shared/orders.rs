//! The program under test, as a user would write it.

use std::net::SocketAddr;
use std::time::Duration;

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, BackoffStrategy, OrchestrationContext, OrchestrationRegistry, RetryPolicy};

use super::service;

pub(crate) const ORDER: &str = "Order";

/// More attempts than a service that fails half of the time can use up.
const PAYMENT_ATTEMPTS: u32 = 60;

pub(crate) fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register(ORDER, |ctx: OrchestrationContext, order: String| async move {
            let reserved = ctx.schedule_activity("Reserve", &order).await?;
            let backoff = BackoffStrategy::Fixed { delay: Duration::from_millis(40) };
            let policy = RetryPolicy::new(PAYMENT_ATTEMPTS).with_backoff(backoff);
            let receipt = ctx.schedule_activity_with_retry("Pay", &order, policy).await?;
            let shipped = ctx.schedule_activity("Ship", &reserved).await?;
            Ok(format!("{shipped}, receipt {receipt}"))
        })
        .build()
}

pub(crate) fn activities(service: SocketAddr) -> ActivityRegistry {
    ActivityRegistry::builder()
        .register(
            "Reserve",
            |_ctx: ActivityContext, order: String| async move { Ok(format!("{order} reserved")) },
        )
        .register("Pay", move |ctx: ActivityContext, order: String| async move {
            let key = ctx.idempotency_key();
            let paying = tokio::task::spawn_blocking(move || service::pay(service, &key, &order));
            let receipt = paying.await.map_err(|cause| format!("the payment was interrupted: {cause}"))??;
            Ok(receipt.to_string())
        })
        .register("Ship", |_ctx: ActivityContext, reserved: String| async move {
            Ok(format!("{reserved} and shipped"))
        })
        .build()
}

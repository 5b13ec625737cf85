//! An activity that fails twice is tried again, with every attempt and delay in the history.
//!
//! Run it with `cargo run -p duroxide --example retry`.

use std::sync::atomic::{AtomicU32, Ordering};

use duroxide::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
enum PayError {
    #[error("the bank is busy")]
    Busy,
    #[error("the card is declined")]
    Declined,
}

/// Counts how often it was asked.
#[derive(Default)]
struct Bank {
    asked: AtomicU32,
}

#[duroxide::activity]
async fn charge(ctx: ActivityContext, cents: u64) -> Result<String, PayError> {
    let asked = ctx.state::<Bank>().asked.fetch_add(1, Ordering::SeqCst) + 1;
    match (asked, cents) {
        (1 | 2, _) => Err(PayError::Busy),
        (_, 0) => Err(PayError::Declined),
        (_, cents) => Ok(format!("charged {cents}")),
    }
}

#[duroxide::orchestration]
async fn order(ctx: OrchestrationContext, cents: u64) -> Result<String, CallError<PayError>> {
    let backoff = BackoffStrategy::Fixed { delay: Duration::from_millis(50) };
    ctx.call(charge, cents)
        .start_to_close(Duration::from_secs(30))
        .retry(RetryPolicy::new(5).with_backoff(backoff))
        .retry_if(|error: &PayError| matches!(error, PayError::Busy))
        .await
}

#[tokio::main]
async fn main() -> Result<()> {
    let app = Duroxide::builder("sqlite::memory:").state(Bank::default()).start().await?;
    assert_eq!(app.run(order, "order-1", 42).await?, "charged 42");
    // What the predicate does not name is not tried again.
    let declined = app.run(order, "order-2", 0).await;
    let is_declined =
        matches!(&declined, Err(RunError::Call(CallError::App(CallError::App(PayError::Declined)))));
    assert!(is_declined, "{declined:?}");
    app.shutdown().await
}

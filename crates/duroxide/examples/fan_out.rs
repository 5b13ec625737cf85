//! Fan-out and fan-in: many activities at the same time, one result.
//!
//! Run it with `cargo run -p duroxide --example fan_out`.

use std::time::Instant;

use duroxide::prelude::*;

const ITEMS: u64 = 200;

/// Stands for a slow call of another service.
#[duroxide::activity]
async fn price(_ctx: ActivityContext, item: u64) -> Result<u64> {
    tokio::time::sleep(Duration::from_millis(50)).await;
    Ok(item * 2)
}

/// Prices every item of a basket at the same time and adds the prices up.
#[duroxide::orchestration]
async fn price_basket(ctx: OrchestrationContext, items: Vec<u64>) -> Result<u64> {
    // The results come in the order of the items, whatever order the activities finish in. The first error cancels the rest.
    let prices = ctx.try_join_all(items.into_iter().map(|item| ctx.call(price, item))).await?;
    Ok(prices.into_iter().sum())
}

#[tokio::main]
async fn main() -> Result<()> {
    let app = Duroxide::open("sqlite::memory:").await?;
    let began = Instant::now();
    let total = app.run(price_basket, "basket-1", (1..=ITEMS).collect()).await?;
    say(&format!(
        "{ITEMS} activities of 50 ms each, all at once: total {total} after {} ms",
        began.elapsed().as_millis()
    ));
    app.shutdown().await?;
    if total == ITEMS * (ITEMS + 1) { Ok(()) } else { Err("the total is wrong".into()) }
}

#[expect(clippy::print_stdout, reason = "an example shows what happens")]
fn say(line: &str) {
    println!("{line}");
}

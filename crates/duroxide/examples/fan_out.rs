//! Fan-out and fan-in: many activities at the same time, one result.
//!
//! Run it with `cargo run -p duroxide --example fan_out`.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};

const ITEMS: u64 = 200;

/// Prices every item of a basket at the same time and adds the prices up.
async fn price_basket(ctx: OrchestrationContext, items: Vec<u64>) -> Result<u64, String> {
    let prices = items.iter().map(|item| ctx.schedule_activity_typed::<u64, u64>("Price", item));
    // The results come in the order of the items, whatever order the activities finish in.
    let prices = ctx.join(prices.collect()).await;
    let prices: Result<Vec<u64>, String> = prices.into_iter().collect();
    Ok(prices?.iter().sum())
}

/// Stands for a slow call of another service.
async fn price(_ctx: ActivityContext, item: u64) -> Result<u64, String> {
    tokio::time::sleep(Duration::from_millis(50)).await;
    Ok(item * 2)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let activities = ActivityRegistry::builder().register_typed("Price", price).build();
    let orchestrations = OrchestrationRegistry::builder().register_typed("PriceBasket", price_basket).build();
    let store = Arc::new(SqliteProvider::new_in_memory().await?);
    let runtime = Runtime::start_with_store(store.clone(), activities, orchestrations).await;
    let client = Client::new(store);

    let began = Instant::now();
    let items: Vec<u64> = (1..=ITEMS).collect();
    client.start_orchestration_typed("basket-1", "PriceBasket", items).await?;
    let total: u64 = client.wait_for_orchestration_typed("basket-1", Duration::from_secs(30)).await??;
    say(&format!(
        "{ITEMS} activities of 50 ms each, all at once: total {total} after {} ms",
        began.elapsed().as_millis()
    ));

    runtime.shutdown(None).await;
    if total == ITEMS * (ITEMS + 1) { Ok(()) } else { Err("the total is wrong".into()) }
}

#[expect(clippy::print_stdout, reason = "an example shows what happens")]
fn say(line: &str) {
    println!("{line}");
}

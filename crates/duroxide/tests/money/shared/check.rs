//! Orders come in while workers are killed in turn; then the books of the payment service are read.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use duroxide::{Client, OrchestrationStatus};

use super::orders::ORDER;
use super::random::Random;
use super::service::{Books, Service};
use super::worker::Worker;
use crate::store;

const WORKERS: usize = 3;
/// How long an order may take once no worker is killed any more.
const PATIENCE: Duration = Duration::from_secs(120);

/// How large the run is. `DUROXIDE_TEST_FULL=1` asks for the whole one.
struct Size {
    orders: usize,
    /// Orders that come in between two kills.
    per_kill: usize,
}

impl Size {
    fn chosen() -> Self {
        if std::env::var_os("DUROXIDE_TEST_FULL").is_some() {
            Self { orders: 4_000, per_kill: 20 }
        } else {
            Self { orders: 200, per_kill: 10 }
        }
    }
}

/// Charges every order while workers are killed. Tells what happened.
pub(crate) async fn charge_all(scratch: &Path) -> String {
    let Size { orders, per_kill } = Size::chosen();
    let seed = std::env::var("DUROXIDE_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    let service = Service::start(seed);
    let location = store::create(scratch).await;
    let client = Client::new(store::open(&location).await);
    let mut workers: Vec<Worker> =
        (0..WORKERS).map(|_| Worker::start(&location, service.address())).collect();
    let mut random = Random::new(seed);
    let mut kills = 0;
    for batch in numbers(orders).chunks(per_kill) {
        for order in batch {
            client.start_orchestration(order, ORDER, order).await.expect("the order is placed");
        }
        tokio::time::sleep(Duration::from_millis(150 + random.below(300))).await;
        let worker = &mut workers[kills % WORKERS];
        worker.kill();
        *worker = Worker::start(&location, service.address());
        kills += 1;
    }
    let receipts = receipts(&client, &numbers(orders)).await;
    let books = service.books();
    check(&books, &receipts);
    format!(
        "{orders} orders, {kills} kills, {} charges; of {} requests {} failed before charging, {} after it, and {} \
         repeated a key that was charged; reproduce the choices with DUROXIDE_TEST_SEED={seed}",
        books.charges.len(),
        books.requests,
        books.refused,
        books.failed_after_charging,
        books.repeated
    )
}

fn numbers(orders: usize) -> Vec<String> {
    (1..=orders).map(|number| format!("order-{number}")).collect()
}

/// The receipt that each order ended with.
async fn receipts(client: &Client, orders: &[String]) -> BTreeMap<String, u64> {
    let mut receipts = BTreeMap::new();
    for order in orders {
        let status = client.wait_for_orchestration(order, PATIENCE).await;
        let status = status.unwrap_or_else(|error| panic!("{order}: {error}"));
        let OrchestrationStatus::Completed { output, .. } = &status else { panic!("{order}: {status:?}") };
        let receipt = output.strip_prefix(&format!("{order} reserved and shipped, receipt "));
        let receipt = receipt.and_then(|number| number.parse().ok());
        receipts.insert(order.clone(), receipt.unwrap_or_else(|| panic!("{order}: {output}")));
    }
    receipts
}

/// Every order was charged exactly once, under the receipt that it ended with.
fn check(books: &Books, receipts: &BTreeMap<String, u64>) {
    let mut by_order: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (key, charge) in &books.charges {
        by_order.entry(&charge.order).or_default().push(key);
    }
    let overcharged: Vec<_> = by_order.iter().filter(|(_, keys)| keys.len() > 1).collect();
    assert!(
        overcharged.is_empty(),
        "{} of {} orders were charged more than once: {} charges; the first: {:?}",
        overcharged.len(),
        receipts.len(),
        books.charges.len(),
        overcharged[0]
    );
    let charged: BTreeMap<String, u64> =
        books.charges.values().map(|charge| (charge.order.clone(), charge.receipt)).collect();
    assert_eq!(&charged, receipts, "every order was charged, and has the receipt of its charge");
    // Otherwise nothing would have been shown.
    assert!(
        books.refused > 0 && books.failed_after_charging > 0,
        "the service failed before and after charging"
    );
    assert!(books.repeated > 0, "charged keys were used again");
}

//! The services that the shop uses: a warehouse, a bank, a carrier. Here they live in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::model::{Charge, PayError, Receipt, StockError};

/// All services. Cheap to clone; activities reach it with `ctx.state::<World>()`.
#[derive(Debug, Clone, Default)]
pub struct World {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    stock: BTreeMap<String, u32>,
    /// What was kept, by idempotency key: a repeated request is the same request.
    reserved: BTreeMap<String, (String, u32)>,
    /// The payments by idempotency key.
    payments: BTreeMap<String, Receipt>,
    refunded: BTreeMap<String, u64>,
    parcels: BTreeMap<String, String>,
}

impl World {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts goods on the shelf.
    pub fn put(&self, sku: &str, quantity: u32) {
        *self.lock().stock.entry(sku.to_string()).or_default() += quantity;
    }

    /// How many of an article are left.
    pub fn left(&self, sku: &str) -> u32 {
        self.lock().stock.get(sku).copied().unwrap_or_default()
    }

    /// Takes goods off the shelf, once for each key.
    pub fn reserve(&self, key: &str, sku: &str, quantity: u32) -> Result<(), StockError> {
        let mut inner = self.lock();
        if inner.reserved.contains_key(key) {
            return Ok(());
        }
        let left = inner.stock.entry(sku.to_string()).or_default();
        *left = left.checked_sub(quantity).ok_or_else(|| StockError::SoldOut { sku: sku.to_string() })?;
        inner.reserved.insert(key.to_string(), (sku.to_string(), quantity));
        Ok(())
    }

    /// Puts goods back, once for each key.
    pub fn release(&self, key: &str, sku: &str, quantity: u32) {
        let released = format!("released {key}");
        let mut inner = self.lock();
        if inner.reserved.insert(released, (sku.to_string(), quantity)).is_none() {
            *inner.stock.entry(sku.to_string()).or_default() += quantity;
        }
    }

    /// Charges a card, once for each key.
    pub fn charge(&self, key: &str, charge: &Charge) -> Result<Receipt, PayError> {
        if charge.card.starts_with("declined") {
            return Err(PayError::Declined);
        }
        let receipt = Receipt { payment: format!("payment {key}"), cents: charge.cents };
        Ok(self.lock().payments.entry(key.to_string()).or_insert(receipt).clone())
    }

    /// Gives money back, once for each payment.
    pub fn refund(&self, receipt: &Receipt) {
        self.lock().refunded.insert(receipt.payment.clone(), receipt.cents);
    }

    /// What customers have paid and not got back.
    pub fn balance_cents(&self) -> u64 {
        let inner = self.lock();
        let paid = inner.payments.values().filter(|receipt| !inner.refunded.contains_key(&receipt.payment));
        paid.map(|receipt| receipt.cents).sum()
    }

    /// How many payments there were.
    pub fn payments(&self) -> usize {
        self.lock().payments.len()
    }

    /// Hands a parcel to the carrier, once for each order.
    pub fn hand_over(&self, order: &str) -> String {
        let mut inner = self.lock();
        let number = format!("parcel {}", inner.parcels.len() + 1);
        inner.parcels.entry(order.to_string()).or_insert(number).clone()
    }
}

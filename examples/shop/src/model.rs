//! What the shop sells, and what can go wrong with it.

use duroxide::prelude::*;
use serde::{Deserialize, Serialize};

/// What a customer asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Chosen by the customer's browser, so that a repeated request is the same order.
    pub id: String,
    /// The card to charge.
    pub card: String,
    /// What is bought.
    pub lines: Vec<Line>,
}

/// One article of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The article.
    pub sku: String,
    /// How many of it.
    pub quantity: u32,
    /// The price of all of them.
    pub cents: u64,
}

impl Order {
    /// What the customer pays.
    pub fn total_cents(&self) -> u64 {
        self.lines.iter().map(|line| line.cents).sum()
    }
}

/// Goods that are kept for an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// The article.
    pub sku: String,
    /// How many of it.
    pub quantity: u32,
}

/// What the bank is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charge {
    /// The card.
    pub card: String,
    /// The amount.
    pub cents: u64,
}

/// What the bank answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The bank's number of the payment.
    pub payment: String,
    /// The amount.
    pub cents: u64,
}

/// What leaves the shop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parcel {
    /// The order.
    pub order: String,
    /// The carrier's number of the parcel.
    pub tracking: String,
}

/// A person's decision about a large order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// Whose decision it is.
    pub by: String,
    /// What it is.
    pub granted: bool,
}

/// Sent to an order that waits for it.
pub const APPROVED: EventName<Approval> = EventName::new("approved");

/// Why goods cannot be reserved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum StockError {
    /// There are too few.
    #[error("{sku} is sold out")]
    SoldOut {
        /// The article.
        sku: String,
    },
}

/// Why a card cannot be charged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum PayError {
    /// The bank says no.
    #[error("the card was declined")]
    Declined,
    /// The bank says nothing. Worth another try.
    #[error("the bank cannot be reached: {0}")]
    Network(String),
}

/// Why a parcel does not leave.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum ShipError {
    /// No carrier goes there.
    #[error("no carrier takes the parcel")]
    NoCarrier,
}

/// Why an order was not fulfilled. What had been done for it is undone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum OrderError {
    /// Goods were missing.
    #[error(transparent)]
    Stock(#[from] CallError<StockError>),
    /// The payment failed.
    #[error(transparent)]
    Pay(#[from] CallError<PayError>),
    /// The shipment failed.
    #[error(transparent)]
    Ship(#[from] CallError<ShipError>),
    /// A check of the order failed.
    #[error(transparent)]
    Check(#[from] CallError<Failure>),
    /// Nobody decided in time.
    #[error("no approval within {days} days")]
    NotApproved {
        /// How long the order waited.
        days: u64,
    },
    /// A person said no.
    #[error("{by} refused the order")]
    Refused {
        /// Who.
        by: String,
    },
    /// Something that was done could not be undone: a person has to look.
    #[error("{0}")]
    NotUndone(String),
}

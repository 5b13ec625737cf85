//! What our own stores share, also those in other crates. Not part of what users can rely on.

pub use super::fetch::{one_turn, one_work};
pub use super::listing::{Place, id_cursor};
pub use super::outcome::{Placed, enqueue_and_read};
pub use super::plain_status::is_reached;
pub use super::room::{ByteRoom, HistoryRoom, HistorySize};
pub use super::send_gate::SendGate;
pub use super::status_code::Status;
pub use super::waiters::{Registration, Waiters};
pub use crate::clock::millis;

//! The test kit: virtual time, mocks, replays, golden histories, chaos.

mod chaos;
mod golden;
mod kinds;
mod mistakes;
mod refund;
mod time;
mod variables;

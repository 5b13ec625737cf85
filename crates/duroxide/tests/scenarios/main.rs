//! Whole programs, as people write them.

mod promises;
mod rolling_deployment;
mod sagas;
mod sessions;
mod shutdown;
mod time_by_hand;
mod values;

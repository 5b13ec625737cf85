//! Whole programs, as people write them.

mod cancel_with_compensation;
mod causes;
mod guards;
mod promises;
mod rolling_deployment;
mod sagas;
mod sessions;
mod shutdown;
mod stated_causes;
mod time_by_hand;
mod typed_errors;
mod values;

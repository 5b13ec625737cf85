//! Whole programs, as people write them.

mod rolling_deployment;
mod sessions;

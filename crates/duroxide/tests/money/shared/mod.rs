//! What the money tests share, whatever the store.

pub(crate) mod check;
pub(crate) mod orders;
pub(crate) mod random;
pub(crate) mod service;
pub(crate) mod worker;

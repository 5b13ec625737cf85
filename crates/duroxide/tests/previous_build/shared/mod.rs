//! What the tests of kept stores share, whatever the store.

pub(crate) mod activities;
pub(crate) mod cases;
pub(crate) mod checks;
pub(crate) mod child;
pub(crate) mod finish;
pub(crate) mod kept;
pub(crate) mod make;
pub(crate) mod phase;
pub(crate) mod programs;
pub(crate) mod replay;
pub(crate) mod resumed;
#[cfg(not(duroxide_without_types))]
pub(crate) mod together;
pub(crate) mod upgraded;

//! The pure core of duroxide: the stored model and the replay engine.
//!
//! This crate does no I/O, reads no clock, draws no random numbers and spawns nothing. Time and entropy come
//! in as arguments; what shall happen goes out as values.
//!
//! | this crate owns | its caller owns |
//! |---|---|
//! | what events, messages and errors look like when stored | storing them |
//! | the order in which messages enter a history | fetching and locking them |
//! | whether code and history agree | what to do when a handler is missing |
//! | what a turn asks for | carrying it out, in one transaction |

pub mod engine;
pub mod model;
#[doc(hidden)]
pub mod protection;

pub use engine::*;
pub use model::*;

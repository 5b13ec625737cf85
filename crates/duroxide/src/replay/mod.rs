//! Recorded histories against the code of this build. Nothing is run but the code of orchestrations, and nothing is stored.
//!
//! | file | its job |
//! |---|---|
//! | `history` | a recorded history |
//! | `check` | replays it from every prefix |
//! | `error` | why it is not replayed |

mod check;
mod error;
mod history;

pub(crate) use check::replay_all;
#[cfg(feature = "testing")]
pub(crate) use error::BLESS_VARIABLE;
pub use error::ReplayError;
pub use history::RecordedHistory;

//! A PostgreSQL server of one's own: its data directory, its port, its life.
//!
//! Tests, benchmarks and examples that need a server use the one that [`URL_VARIABLE`] names. Without it
//! [`shared`] starts one for the process. It ends with the process, however that ends: a shell that reads from
//! a pipe of the process stops the server and removes its directory when the pipe breaks.
//!
//! It uses the standard library alone, so that the chores of the workspace can use it too.

mod programs;
mod server;

use std::sync::{Mutex, PoisonError};

pub use programs::{install, is_installed, program};
pub use server::{Durability, Server};

/// Names the server to use instead of a private one. Its user must be allowed to create schemas.
pub const URL_VARIABLE: &str = "DUROXIDE_TEST_POSTGRES_URL";

/// The server of this process, if it had to start one.
static STARTED: Mutex<Option<Server>> = Mutex::new(None);

/// The URL of the server that the environment names, or of one that this process starts and keeps.
///
/// The private server does not wait for its disk: what a power cut would do to it is nobody's concern.
pub fn shared() -> Result<String, String> {
    if let Ok(url) = std::env::var(URL_VARIABLE) {
        return Ok(url);
    }
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    if started.is_none() {
        *started = Some(Server::start(Durability::Relaxed)?);
    }
    started.as_ref().map(|server| server.url().to_string()).ok_or_else(|| "no server".to_string())
}

//! A PostgreSQL server for what needs one.

use private_postgres::{Durability, Server, URL_VARIABLE, install, is_installed};

use crate::say;

/// The server that the tests use: the one that the environment names, or a private one that ends with this.
pub(crate) enum TestServer {
    /// Somebody else's.
    Named,
    /// Ours.
    Private(Server),
}

impl TestServer {
    pub(crate) fn start() -> Result<Self, String> {
        if std::env::var_os(URL_VARIABLE).is_some() {
            return Ok(Self::Named);
        }
        if !is_installed() {
            say("PostgreSQL is not installed; installing it");
            install()?;
        }
        Server::start(Durability::Relaxed).map(Self::Private)
    }

    /// What must be set for programs that use it.
    pub(crate) fn variable(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::Named => None,
            Self::Private(server) => Some((URL_VARIABLE, server.url())),
        }
    }
}

/// `cargo xtask postgres`: a server to try things with.
pub(crate) fn run() -> bool {
    match TestServer::start() {
        Ok(server) => {
            if let Some((name, url)) = server.variable() {
                say(&format!("export {name}={url}\n\nThe server runs until you press return."));
                // Any answer ends it, also the end of the input.
                drop(std::io::stdin().read_line(&mut String::new()));
            }
            true
        }
        Err(reason) => {
            say(&reason);
            false
        }
    }
}

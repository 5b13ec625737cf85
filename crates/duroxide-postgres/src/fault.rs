//! Why a call failed, before it is known which call it was.

use duroxide_provider::rules;
use duroxide_provider::{ProviderError, ProviderErrorKind};
use tokio_postgres::error::SqlState;

/// Why a call failed. The operation's name is added where the call is answered.
#[derive(Debug)]
pub(crate) enum Fault {
    /// PostgreSQL failed, or could not be reached.
    Storage(tokio_postgres::Error),
    /// No connection could be had.
    NoConnection(String),
    /// The server did not answer for so long.
    NoAnswer(std::time::Duration),
    /// The answer to COMMIT did not come.
    UnknownOutcome(String),
    /// The call itself cannot be carried out.
    Call(rules::Fault),
}

impl From<rules::Fault> for Fault {
    fn from(fault: rules::Fault) -> Self {
        Self::Call(fault)
    }
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Storage(error)
    }
}

impl From<deadpool::managed::PoolError<Fault>> for Fault {
    fn from(error: deadpool::managed::PoolError<Fault>) -> Self {
        use deadpool::managed::PoolError;
        match error {
            PoolError::Backend(fault) => fault,
            PoolError::Timeout(_) => {
                Self::NoConnection("no connection of the pool became free in time".to_string())
            }
            PoolError::Closed | PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_) => {
                Self::NoConnection("the pool of connections is closed".to_string())
            }
        }
    }
}

impl Fault {
    /// What was named does not exist.
    pub(crate) fn not_found(what: String) -> Self {
        rules::Fault::NotFound(what).into()
    }

    /// A stored row cannot be decoded.
    pub(crate) fn corrupt(text: impl Into<String>) -> Self {
        rules::Fault::Corrupt(text.into()).into()
    }

    /// The call itself is wrong.
    pub(crate) fn invalid(text: String) -> Self {
        rules::Fault::Invalid(text).into()
    }

    pub(crate) fn into_error(self, operation: &str) -> ProviderError {
        match self {
            Self::Storage(error) => storage_error(operation, error),
            Self::NoConnection(message) => ProviderError::retryable(operation, message),
            Self::NoAnswer(time) => {
                ProviderError::retryable(operation, format!("PostgreSQL did not answer for {time:?}"))
            }
            Self::UnknownOutcome(message) => ProviderError::retryable(
                operation,
                format!("the answer to the commit was lost, its outcome is unknown: {message}"),
            ),
            Self::Call(fault) => fault.into_error(operation),
        }
    }

    /// Whether the same transaction may succeed at once: another one was in its way.
    pub(crate) fn is_conflict(&self) -> bool {
        let Self::Storage(error) = self else { return false };
        error.code().is_some_and(|code| {
            *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED
        })
    }

    /// Whether a row or a table was locked by another transaction for longer than the connection waits.
    pub(crate) fn is_lock_timeout(&self) -> bool {
        let Self::Storage(error) = self else { return false };
        error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
    }

    /// Whether the values are what PostgreSQL does not accept, or cannot be sent, or a row cannot be read: again would give
    /// the same, and calls without them are not concerned.
    pub(crate) fn is_about_values(&self) -> bool {
        match self {
            Self::Storage(error) => is_about_values(error),
            Self::Call(fault) => matches!(fault, rules::Fault::Corrupt(_)),
            Self::NoConnection(_) | Self::NoAnswer(_) | Self::UnknownOutcome(_) => false,
        }
    }

    /// Whether the connection is of no use any more: it is gone, or it leads to a server that does not write.
    pub(crate) fn ends_connection(&self) -> bool {
        match self {
            Self::Storage(error) => match error.code() {
                Some(code) => {
                    *code == SqlState::READ_ONLY_SQL_TRANSACTION
                        || ["08", "57P0"].iter().any(|class| code.code().starts_with(class))
                }
                None => true,
            },
            Self::NoConnection(_) | Self::NoAnswer(_) | Self::UnknownOutcome(_) => true,
            Self::Call(_) => false,
        }
    }
}

/// PostgreSQL's error as the contract knows it. Its text names tables and columns; the detail, which may quote
/// values, is left out.
fn storage_error(operation: &str, error: tokio_postgres::Error) -> ProviderError {
    let (kind, text) = match error.as_db_error() {
        Some(database) => {
            let kind = if passes_by_itself(database.code()) {
                ProviderErrorKind::Unavailable
            } else if ["XX001", "XX002"].contains(&database.code().code()) {
                ProviderErrorKind::Corrupt
            } else if is_about_values(&error) {
                ProviderErrorKind::Invalid
            } else {
                ProviderErrorKind::Other
            };
            (kind, format!("{} ({})", database.message(), database.code().code()))
        }
        // Too large to be sent. Statements are written in pieces and fetches are bounded, so that no number of calls adds up
        // to this: it is one value, and it is as large the next time.
        None if is_about_values(&error) => (ProviderErrorKind::Invalid, describe(&error)),
        // The connection broke, or could not be made.
        None => (ProviderErrorKind::Unavailable, describe(&error)),
    };
    ProviderError::of_kind(kind, operation, format!("PostgreSQL: {text}")).with_source(error)
}

/// Data exceptions, violated constraints and limits of the server; or what the client could not encode: a message of more
/// than 2 GiB. That has no code, but its cause is an error of kind `InvalidInput` that no system call gave.
pub(crate) fn is_about_values(error: &tokio_postgres::Error) -> bool {
    if let Some(code) = error.code() {
        return ["22", "23", "54"].iter().any(|class| code.code().starts_with(class));
    }
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<std::io::Error>());
    cause.is_some_and(|cause| {
        cause.kind() == std::io::ErrorKind::InvalidInput && cause.raw_os_error().is_none()
    })
}

/// The error with its causes: the outermost text alone says little.
fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

/// Whether an operator, another server or a moment's patience may clear the cause.
fn passes_by_itself(code: &SqlState) -> bool {
    let class = code.code().get(..2).unwrap_or_default();
    match class {
        // Connections; transactions in each other's way; resources, a full disk among them; an operator's hand,
        // timeouts among them; input and output.
        "08" | "40" | "53" | "57" | "58" => true,
        _ => {
            *code == SqlState::READ_ONLY_SQL_TRANSACTION
                || *code == SqlState::LOCK_NOT_AVAILABLE
                || *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
                || *code == SqlState::IN_FAILED_SQL_TRANSACTION
                || *code == SqlState::OBJECT_IN_USE
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio_postgres::NoTls;

    use super::*;

    #[tokio::test]
    async fn what_cannot_be_sent_is_invalid_and_a_broken_connection_is_an_outage() {
        let (ours, mut server) = tokio::io::duplex(1024);
        // It needs no password and is ready.
        server.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").await.expect("there is room");
        let mut config = tokio_postgres::Config::new();
        config.user("u");
        let (client, connection) = config.connect_raw(ours, NoTls).await.expect("it is ready");
        let connection = tokio::spawn(connection);
        let kind = |error: tokio_postgres::Error| Fault::from(error).into_error("test").kind();
        // The client cannot encode a NUL, as it cannot encode a message of 2 GiB.
        let too_large = client.simple_query("\0").await.expect_err("it cannot be sent");
        assert_eq!(kind(too_large), ProviderErrorKind::Invalid);
        drop(server);
        let broken = client.simple_query("SELECT 1").await.expect_err("nobody answers");
        assert_eq!(kind(broken), ProviderErrorKind::Unavailable);
        assert!(connection.await.expect("it does not panic").is_err());
    }
}

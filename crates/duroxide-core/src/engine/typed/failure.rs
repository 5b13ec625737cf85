//! The error of a handler that has none of its own.

use std::error::Error;
use std::fmt::{Debug, Display, Formatter};
use std::ops::Deref;

use serde::{Deserialize, Serialize};

/// Any error, kept as text with its causes, so that it can be stored and read back.
///
/// Every error turns into it by `?`, and so does a text by `Failure::from`. It is the error of `Result<T>` where no other is
/// named. It is not an [`Error`] itself but derefs to one.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Failure {
    chain: Chain,
}

/// An error and what caused it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Chain {
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cause: Option<Box<Chain>>,
}

/// Deeper chains are cut: an error may name itself as its source.
const MAX_CAUSES: usize = 32;

impl Chain {
    fn of(error: &(dyn Error + 'static), room: usize) -> Self {
        let cause = error.source().filter(|_| room > 0).map(|cause| Box::new(Self::of(cause, room - 1)));
        Self { message: error.to_string(), cause }
    }
}

impl Failure {
    /// The text of the error itself, without its causes.
    pub fn message(&self) -> &str {
        &self.chain.message
    }

    /// The texts of the causes, the nearest first.
    pub fn causes(&self) -> impl Iterator<Item = &str> {
        let mut next = self.chain.cause.as_deref();
        std::iter::from_fn(move || {
            let cause = next?;
            next = cause.cause.as_deref();
            Some(cause.message.as_str())
        })
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error: Box<dyn Error + Send + Sync> = error.into();
        Self { chain: Chain::of(&*error, MAX_CAUSES) }
    }
}

impl Deref for Failure {
    type Target = dyn Error + Send + Sync + 'static;

    fn deref(&self) -> &Self::Target {
        &self.chain
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        Display::fmt(&self.chain, f)
    }
}

impl Debug for Failure {
    /// The text and its causes, as `main` prints it.
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.chain.message)?;
        for cause in self.causes() {
            write!(f, "\n  caused by: {cause}")?;
        }
        Ok(())
    }
}

impl Error for Chain {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as &(dyn Error + 'static))
    }
}

impl Display for Chain {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl Debug for Chain {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        Display::fmt(self, f)
    }
}

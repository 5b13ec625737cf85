//! The facade of a typed program: open a store, run its handlers, call orchestrations by their functions.
//!
//! | file | its job |
//! |---|---|
//! | `builder` | what a program registers, and its start |
//! | `handlers` | the handlers of a program, apart from any store |
//! | `functions` | what may be registered as a handler, and what is wrong with the rest |
//! | `activity_fn`, `orchestration_fn` | plain functions as handlers |
//! | `shared` | what handlers of one program share: names and state |
//! | `discovered` | the handlers that attributes have entered into the program's list |
//! | `expansion` | what the code that attributes make uses |
//! | `calls` | starting, raising, enqueuing by function and typed name |
//! | `run` | one instance, to wait for and to send to |
//! | `errors` | what can go wrong outside of an orchestration |
//! | `signals` | serving until the process is told to stop |

mod activity_fn;
mod builder;
mod calls;
mod discovered;
mod errors;
#[cfg(feature = "macros")]
#[doc(hidden)]
pub mod expansion;
mod functions;
mod handlers;
mod orchestration_fn;
mod run;
mod shared;
mod signals;

use std::sync::Arc;

use duroxide_core::{Failure, FunctionNames};

pub use builder::Builder;
pub use discovered::Discovered;
pub use errors::{OpenError, RunError, StartError};
pub use handlers::Handlers;
pub use run::Run;
pub(crate) use shared::States;

use crate::client::Client;
use crate::runtime::Runtime;

/// A program with its store: runs the handlers, and starts and calls orchestrations by their functions. Cheap to clone.
///
/// ```no_run
/// use duroxide::prelude::*;
///
/// async fn greet(_ctx: ActivityContext, name: String) -> Result<String> {
///     Ok(format!("Hello, {name}!"))
/// }
///
/// async fn hello(ctx: OrchestrationContext, name: String) -> Result<String> {
///     Ok(ctx.call(greet, name).await?)
/// }
///
/// # async fn run() -> Result<()> {
/// let app = Duroxide::builder("sqlite:hello.db")
///     .activity("greet", greet)
///     .orchestration("hello", hello)
///     .start()
///     .await?;
/// println!("{}", app.run(hello, "hello-1", "world".to_string()).await?);
/// app.shutdown().await
/// # }
/// ```
#[derive(Clone)]
pub struct Duroxide {
    client: Client,
    /// `None` for a client alone.
    runtime: Option<Arc<Runtime>>,
    names: Arc<FunctionNames>,
}

impl Duroxide {
    /// Opens a store and runs all handlers that attributes have entered into the program's list.
    ///
    /// `sqlite:path` and `sqlite::memory:` need the feature `sqlite`, which is on by default; `postgres://user@host/database`
    /// needs the feature `postgres`.
    pub async fn open(url: impl Into<String>) -> Result<Self, OpenError> {
        Self::builder(url).start().await
    }

    /// What runs on the store is said handler by handler.
    pub fn builder(url: impl Into<String>) -> Builder {
        Builder::new(url.into())
    }

    /// The client half alone: starts, sends and waits, and runs nothing. The handlers of the program's list are known by
    /// name.
    pub async fn client_only(url: impl Into<String>) -> Result<Self, OpenError> {
        Self::builder(url).client_only().await
    }

    /// The client of the text-based API.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The runtime; `None` for a client alone.
    pub fn runtime(&self) -> Option<&Arc<Runtime>> {
        self.runtime.as_ref()
    }

    /// Stops: what is in progress may end within a second, all else is given back to other nodes.
    pub async fn shutdown(&self) -> Result<(), Failure> {
        if let Some(runtime) = &self.runtime {
            runtime.clone().shutdown(None).await;
        }
        Ok(())
    }
}

impl std::fmt::Debug for Duroxide {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Duroxide")
            .field("client", &self.client)
            .field("runs_handlers", &self.runtime.is_some())
            .finish()
    }
}

//! Errors: what was wrong, what would be right, and the exit code.

use std::process::ExitCode;

use duroxide::ClientError;
use duroxide::providers::{ProviderError, ProviderErrorKind};

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    Error,
    Usage,
    Store,
    NotFound,
    /// The answer to the question is no.
    No,
    Timeout,
}

impl Exit {
    pub(crate) fn code(self) -> ExitCode {
        ExitCode::from(match self {
            Self::Done => 0,
            Self::Error => 1,
            Self::Usage => 2,
            Self::Store => 3,
            Self::NotFound => 4,
            Self::No => 5,
            Self::Timeout => 6,
        })
    }
}

/// What a verb gives.
pub(crate) type Outcome = Result<Exit, Failed>;

/// Why a command did not do what it was asked for.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) exit: Exit,
    pub(crate) what: String,
    /// The command or the change that helps.
    pub(crate) help: Option<String>,
}

impl Failed {
    pub(crate) fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self { exit, what: what.into(), help: None }
    }

    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::new(Exit::Usage, what)
    }

    pub(crate) fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    pub(crate) fn no_instance(id: &str) -> Self {
        Self::new(Exit::NotFound, format!("no instance has the id '{id}'"))
            .help("duroxide instance list --prefix TEXT")
    }

    /// A store that could not be opened.
    pub(crate) fn of_opening(error: &ProviderError) -> Self {
        Self::new(Exit::Store, error.message.clone()).help("duroxide store info")
    }
}

impl From<ClientError> for Failed {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Provider(error) => error.into(),
            ClientError::InstanceNotFound { instance_id } => Self::no_instance(&instance_id),
            ClientError::Timeout => Self::new(Exit::Timeout, "timed out"),
            ClientError::InvalidInput { message } => Self::new(Exit::Error, message),
            ClientError::InstanceStillRunning { instance_id } => {
                Self::new(Exit::No, format!("instance '{instance_id}' is still running"))
                    .help("duroxide instance cancel ID, or delete it with --force")
            }
            ClientError::CannotDeleteSubOrchestration { instance_id } => Self::new(
                Exit::No,
                format!("instance '{instance_id}' is a child: its root is deleted with all its children"),
            )
            .help("duroxide instance show ID names the parent"),
            error @ ClientError::ManagementNotAvailable => Self::new(Exit::Error, error.to_string()),
        }
    }
}

impl From<ProviderError> for Failed {
    fn from(error: ProviderError) -> Self {
        let exit = match error.kind() {
            ProviderErrorKind::NotFound => Exit::NotFound,
            ProviderErrorKind::Unavailable
            | ProviderErrorKind::LockLost
            | ProviderErrorKind::Corrupt
            | ProviderErrorKind::Invalid
            | ProviderErrorKind::Other => Exit::Store,
        };
        Self::new(exit, error.to_string())
    }
}

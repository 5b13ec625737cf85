//! Why a fetched turn or activity was given back instead of being run to its end.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::error_text::char_boundary_below;
use super::limits::MAX_BOUNCE_TEXT_BYTES;

/// What kept a node from running a fetched turn or activity. Stored as JSON: a kind that a later build adds is not
/// known here, and then the cause is not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum BounceCause {
    /// The node has no handler for the orchestration.
    OrchestrationNotRegistered {
        /// Its name.
        name: String,
        /// The version that is needed; `None` if the node chooses one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
    },
    /// The node has no handler for the activity.
    ActivityNotRegistered {
        /// Its name.
        name: String,
    },
    /// The node does not replay the version that the execution is pinned to.
    VersionNotReplayed {
        /// The pinned version.
        pinned: String,
        /// The versions that the node replays.
        supported: String,
    },
    /// A stored event, start or completion does not decode.
    Undecodable {
        /// Where decoding failed and why.
        error: String,
    },
    /// Neither the history nor the inbox says what the instance is.
    NoStart,
    /// The code of the node does something other than what the history says.
    Nondeterministic {
        /// What was recorded, and what the code does.
        diff: String,
    },
    /// Processing the turn panicked, outside the orchestration's own code.
    Panicked {
        /// The text of the panic. It may quote what a user sent, so it is never logged.
        message: String,
    },
    /// The program called a function that has no name on the node.
    FunctionWithoutName {
        /// Which function, and how to give it a name.
        text: String,
    },
    /// The store refused the commit of the turn because of what it holds.
    CommitRefused {
        /// What the store said. It names no values.
        error: String,
    },
}

impl BounceCause {
    /// The same with each of its texts cut to [`MAX_BOUNCE_TEXT_BYTES`]: what a store keeps.
    #[must_use]
    pub fn bounded(self) -> Self {
        match self {
            Self::OrchestrationNotRegistered { name, version } => {
                Self::OrchestrationNotRegistered { name: cut(name), version: version.map(cut) }
            }
            Self::ActivityNotRegistered { name } => Self::ActivityNotRegistered { name: cut(name) },
            Self::VersionNotReplayed { pinned, supported } => {
                Self::VersionNotReplayed { pinned: cut(pinned), supported: cut(supported) }
            }
            Self::Undecodable { error } => Self::Undecodable { error: cut(error) },
            Self::NoStart => Self::NoStart,
            Self::Nondeterministic { diff } => Self::Nondeterministic { diff: cut(diff) },
            Self::Panicked { message } => Self::Panicked { message: cut(message) },
            Self::FunctionWithoutName { text } => Self::FunctionWithoutName { text: cut(text) },
            Self::CommitRefused { error } => Self::CommitRefused { error: cut(error) },
        }
    }

    /// The stored form.
    pub fn to_stored(&self) -> String {
        serde_json::to_string(self).expect("causes hold only strings")
    }

    /// The cause behind its stored form; `None` if a later build wrote it.
    pub fn from_stored(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// What a log may say: everything but the text of a panic.
    pub fn logged(&self) -> String {
        match self {
            Self::Panicked { .. } => "processing panicked".to_string(),
            Self::OrchestrationNotRegistered { .. }
            | Self::ActivityNotRegistered { .. }
            | Self::VersionNotReplayed { .. }
            | Self::Undecodable { .. }
            | Self::NoStart
            | Self::Nondeterministic { .. }
            | Self::FunctionWithoutName { .. }
            | Self::CommitRefused { .. } => self.to_string(),
        }
    }

    /// The orchestration or activity that is not registered, if that is the cause: `orchestration Order 2.0.0`.
    pub fn missing_handler(&self) -> Option<String> {
        match self {
            Self::OrchestrationNotRegistered { name, version: Some(version) } => {
                Some(format!("orchestration {name} {version}"))
            }
            Self::OrchestrationNotRegistered { name, version: None } => Some(format!("orchestration {name}")),
            Self::ActivityNotRegistered { name } => Some(format!("activity {name}")),
            Self::VersionNotReplayed { .. }
            | Self::Undecodable { .. }
            | Self::NoStart
            | Self::Nondeterministic { .. }
            | Self::Panicked { .. }
            | Self::FunctionWithoutName { .. }
            | Self::CommitRefused { .. } => None,
        }
    }
}

impl fmt::Display for BounceCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OrchestrationNotRegistered { .. } | Self::ActivityNotRegistered { .. } => {
                let handler = self.missing_handler().unwrap_or_default();
                write!(f, "{handler} is not registered on the node that fetched it")
            }
            Self::VersionNotReplayed { pinned, supported } => {
                write!(f, "the execution is pinned to {pinned}, the node that fetched it replays {supported}")
            }
            Self::Undecodable { error } => write!(f, "stored rows cannot be decoded: {error}"),
            Self::NoStart => {
                f.write_str("neither the history nor the inbox holds the start of the execution")
            }
            Self::Nondeterministic { diff } => {
                write!(f, "the code of the node that fetched it does not fit the history: {diff}")
            }
            Self::Panicked { message } => write!(f, "processing panicked: {message}"),
            Self::FunctionWithoutName { text } => f.write_str(text),
            Self::CommitRefused { error } => {
                write!(f, "the store does not accept what the turn writes: {error}")
            }
        }
    }
}

/// Cuts a text at the limit, between two characters, and marks that.
fn cut(mut text: String) -> String {
    const MARK: &str = "…";
    if text.len() > MAX_BOUNCE_TEXT_BYTES {
        let room = MAX_BOUNCE_TEXT_BYTES - MARK.len();
        text.truncate(char_boundary_below(&text, room));
        text.push_str(MARK);
    }
    text
}

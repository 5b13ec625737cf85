//! Status words as numbers in a column.

use duroxide_core::status;

/// A status word as it stands in a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It has not ended.
    Running,
    /// It returned `Ok`.
    Completed,
    /// It failed.
    Failed,
    /// The next execution took over.
    ContinuedAsNew,
}

impl Status {
    const ALL: [Self; 4] = [Self::Running, Self::Completed, Self::Failed, Self::ContinuedAsNew];

    /// The number stored in the column. Numbers are never reused.
    pub fn code(self) -> i64 {
        match self {
            Self::Running => 1,
            Self::Completed => 2,
            Self::Failed => 3,
            Self::ContinuedAsNew => 4,
        }
    }

    /// The word that users read.
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => status::RUNNING,
            Self::Completed => status::COMPLETED,
            Self::Failed => status::FAILED,
            Self::ContinuedAsNew => status::CONTINUED_AS_NEW,
        }
    }

    /// The status behind a stored number.
    pub fn from_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.code() == code)
    }

    /// The status behind a word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.word() == word)
    }

    /// Whether it ends the instance.
    pub fn ends_instance(self) -> bool {
        match self {
            Self::Completed | Self::Failed => true,
            Self::Running | Self::ContinuedAsNew => false,
        }
    }
}

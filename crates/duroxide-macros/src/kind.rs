//! The kinds of handlers, and the words for each.

/// What a function is to become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Activity,
    Orchestration,
}

impl Kind {
    /// With its article.
    pub(crate) fn described(self) -> &'static str {
        match self {
            Self::Activity => "an activity",
            Self::Orchestration => "an orchestration",
        }
    }

    /// Its attribute, and the method of the builder.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Activity => "activity",
            Self::Orchestration => "orchestration",
        }
    }

    /// The type of its first parameter.
    pub(crate) fn context(self) -> &'static str {
        match self {
            Self::Activity => "ActivityContext",
            Self::Orchestration => "OrchestrationContext",
        }
    }

    pub(crate) fn other(self) -> Self {
        match self {
            Self::Activity => Self::Orchestration,
            Self::Orchestration => Self::Activity,
        }
    }

    /// How such a function is written.
    pub(crate) fn right_shape(self) -> String {
        let (described, context) = (self.described(), self.context());
        format!("{described} is `async fn name(ctx: {context}, input: In) -> Result<Out, E>`")
    }
}

//! Which activities a worker accepts, by tag.

use std::collections::HashSet;

use duroxide_core::AcceptedTags;
use duroxide_core::limits::MAX_WORKER_TAGS;

/// Which activities a worker accepts, by tag.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TagFilter {
    /// Activities without a tag.
    #[default]
    DefaultOnly,
    /// Activities with one of these tags.
    Tags(HashSet<String>),
    /// Activities without a tag or with one of these.
    DefaultAnd(HashSet<String>),
    /// Every activity.
    Any,
    /// No activity.
    None,
}

impl TagFilter {
    /// Activities with one of these tags.
    ///
    /// # Panics
    /// When there is no tag, or more than [`MAX_WORKER_TAGS`].
    pub fn tags<S: Into<String>>(tags: impl IntoIterator<Item = S>) -> Self {
        Self::Tags(checked_tags(tags))
    }

    /// Activities without a tag or with one of these.
    ///
    /// # Panics
    /// When there is no tag, or more than [`MAX_WORKER_TAGS`].
    pub fn default_and<S: Into<String>>(tags: impl IntoIterator<Item = S>) -> Self {
        Self::DefaultAnd(checked_tags(tags))
    }

    /// Activities without a tag.
    pub fn default_only() -> Self {
        Self::DefaultOnly
    }

    /// Every activity.
    pub fn any() -> Self {
        Self::Any
    }

    /// No activity.
    pub fn none() -> Self {
        Self::None
    }

    /// Whether an activity with this tag is accepted.
    pub fn matches(&self, tag: Option<&str>) -> bool {
        match (self, tag) {
            (Self::Any, _) | (Self::DefaultOnly | Self::DefaultAnd(_), None) => true,
            (Self::Tags(tags) | Self::DefaultAnd(tags), Some(tag)) => tags.contains(tag),
            (Self::DefaultOnly, Some(_)) | (Self::Tags(_), None) | (Self::None, _) => false,
        }
    }
}

impl From<&TagFilter> for AcceptedTags {
    fn from(filter: &TagFilter) -> Self {
        let these =
            |untagged, tags: &HashSet<String>| Self::These { untagged, tags: tags.iter().cloned().collect() };
        match filter {
            TagFilter::Any => Self::Any,
            TagFilter::DefaultOnly => these(true, &HashSet::new()),
            TagFilter::None => these(false, &HashSet::new()),
            TagFilter::Tags(tags) => these(false, tags),
            TagFilter::DefaultAnd(tags) => these(true, tags),
        }
    }
}

fn checked_tags<S: Into<String>>(tags: impl IntoIterator<Item = S>) -> HashSet<String> {
    let tags: HashSet<String> = tags.into_iter().map(Into::into).collect();
    assert!(!tags.is_empty(), "a tag filter needs at least one tag");
    assert!(
        tags.len() <= MAX_WORKER_TAGS,
        "a worker accepts at most {MAX_WORKER_TAGS} tags, got {}",
        tags.len()
    );
    tags
}

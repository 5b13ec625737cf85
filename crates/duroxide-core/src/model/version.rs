//! Build versions, the ranges a node can replay, and the filter it sends with a fetch.
//!
//! Comparison uses major, minor and patch alone: a pre-release of 1.2.0 replays what 1.2.0 replays.

use semver::Version;
use serde::{Deserialize, Serialize};

use super::{Event, EventKind};

/// The version of this build; `OrchestrationStarted` is stamped with it and pins its execution to it.
pub fn current_build_version() -> Version {
    Version::parse(env!("CARGO_PKG_VERSION"))
        .expect("cargo only builds packages whose version is valid semver")
}

/// The version that an execution is pinned to: that of the build which wrote its `OrchestrationStarted`, or the
/// earliest one that reads all of its events, if that is later.
///
/// `None` for a history that does not begin with a start, or whose stamp is no version.
pub fn pinned_version_of(history: &[Event]) -> Option<Version> {
    let started = history.first()?;
    if !matches!(started.kind, EventKind::OrchestrationStarted { .. }) {
        return None;
    }
    let begun_by = Version::parse(&started.duroxide_version).ok()?;
    raised_pin(Some(&begun_by), history).or(Some(begun_by))
}

/// The version to which a commit of `events` raises the pin of an execution, so that no node is given it that cannot
/// read them; `None` if the pin stays.
pub fn raised_pin(pinned: Option<&Version>, events: &[Event]) -> Option<Version> {
    let needed = events.iter().filter_map(|event| introduced_in(&event.kind)).max()?;
    pinned.is_none_or(|pinned| triple(pinned) < triple(&needed)).then_some(needed)
}

/// The version that introduced a kind of event. `None` for those that every build writes in every execution.
///
/// An entry is never changed: nodes of earlier builds rely on it.
pub fn introduced_in(kind: &EventKind) -> Option<Version> {
    match kind {
        EventKind::ErrorRecorded { .. }
        | EventKind::PatchMarked { .. }
        | EventKind::CancelPolicyRecorded { .. }
        | EventKind::ActivityStopped => Some(Version::new(1, 2, 0)),
        EventKind::OrchestrationStarted { .. }
        | EventKind::OrchestrationCompleted { .. }
        | EventKind::OrchestrationFailed { .. }
        | EventKind::OrchestrationContinuedAsNew { .. }
        | EventKind::OrchestrationCancelRequested { .. }
        | EventKind::OrchestrationRedriven { .. }
        | EventKind::OrchestrationRepaired { .. }
        | EventKind::OrchestrationChained { .. }
        | EventKind::ActivityScheduled { .. }
        | EventKind::ActivityDeadlinesRecorded { .. }
        | EventKind::ActivityBegun
        | EventKind::ActivityCompleted { .. }
        | EventKind::ActivityFailed { .. }
        | EventKind::ActivityCancelRequested { .. }
        | EventKind::RetryPolicyRecorded { .. }
        | EventKind::TimerCreated { .. }
        | EventKind::TimerFired { .. }
        | EventKind::TimerCancelled { .. }
        | EventKind::ExternalSubscribed { .. }
        | EventKind::ExternalEvent { .. }
        | EventKind::ExternalSubscribedCancelled { .. }
        | EventKind::QueueSubscribed { .. }
        | EventKind::QueueEventDelivered { .. }
        | EventKind::QueueSubscriptionCancelled { .. }
        | EventKind::SubOrchestrationScheduled { .. }
        | EventKind::VersionRequested { .. }
        | EventKind::SubOrchestrationCompleted { .. }
        | EventKind::SubOrchestrationFailed { .. }
        | EventKind::SubOrchestrationCancelRequested { .. }
        | EventKind::CustomStatusUpdated { .. }
        | EventKind::KeyValueSet { .. }
        | EventKind::KeyValueCleared { .. }
        | EventKind::KeyValuesCleared
        | EventKind::KeyValuesCarried { .. } => None,
    }
}

/// Packs major, minor and patch into one integer that orders like the version.
///
/// 20 bits each. A part too large for them counts as the largest, and so do the parts behind it, so that a
/// later version never packs below an earlier one. The result is never negative.
pub fn pack_version(version: &Version) -> i64 {
    const PART_BITS: u32 = 20;
    const PART_MAX: u64 = (1 << PART_BITS) - 1;
    let mut packed = 0;
    let mut overflowed = false;
    for part in [version.major, version.minor, version.patch] {
        overflowed |= part > PART_MAX;
        let part = if overflowed { PART_MAX } else { part };
        packed = (packed << PART_BITS) | i64::try_from(part).expect("20 bits fit in an i64");
    }
    packed
}

/// The version that [`pack_version`] packed; a part that was too large for it comes back as the largest.
pub fn unpack_version(packed: i64) -> Version {
    let part = |shift: u32| u64::try_from((packed >> shift) & ((1 << 20) - 1)).unwrap_or(0);
    Version::new(part(40), part(20), part(0))
}

fn triple(version: &Version) -> (u64, u64, u64) {
    (version.major, version.minor, version.patch)
}

/// The versions from `min` to `max`, both included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SemverRange {
    /// The lowest version that belongs to the range.
    pub min: Version,
    /// The highest version that belongs to the range.
    pub max: Version,
}

impl SemverRange {
    /// From `min` to `max`, both included.
    pub fn new(min: Version, max: Version) -> Self {
        Self { min, max }
    }

    /// From `min` up to, but without, `max_exclusive`.
    ///
    /// `below(1.0.0, 2.0.0)` holds every 1.x and nothing of 2.x. When nothing lies below the end
    /// (`max_exclusive` is 0.0.0 or not above `min`) the range is empty.
    pub fn below(min: Version, max_exclusive: Version) -> Self {
        let max = match triple(&max_exclusive) {
            (0, 0, 0) => return Self { min: Version::new(1, 0, 0), max: Version::new(0, 0, 0) },
            (major, 0, 0) => Version::new(major - 1, u64::MAX, u64::MAX),
            (major, minor, 0) => Version::new(major, minor - 1, u64::MAX),
            (major, minor, patch) => Version::new(major, minor, patch - 1),
        };
        Self { min, max }
    }

    /// Whether `version` lies in the range.
    pub fn contains(&self, version: &Version) -> bool {
        let version = triple(version);
        triple(&self.min) <= version && version <= triple(&self.max)
    }

    /// Everything up to this build: a newer engine replays what an older one wrote.
    pub fn default_for_current_build() -> Self {
        Self { min: Version::new(0, 0, 0), max: current_build_version() }
    }
}

impl std::fmt::Display for SemverRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, ">={}, <={}", self.min, self.max)
    }
}

/// What a node says it can process. Every range counts; an empty list matches nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DispatcherCapabilityFilter {
    /// The pinned versions that the node replays.
    pub supported_duroxide_versions: Vec<SemverRange>,
}

impl DispatcherCapabilityFilter {
    /// Whether an execution pinned to `version` may be given to the node.
    pub fn is_compatible(&self, version: &Version) -> bool {
        self.supported_duroxide_versions.iter().any(|range| range.contains(version))
    }

    /// Everything up to this build.
    pub fn default_for_current_build() -> Self {
        Self { supported_duroxide_versions: vec![SemverRange::default_for_current_build()] }
    }
}

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

/// The version that an execution is pinned to: that of the build which wrote its `OrchestrationStarted`.
///
/// `None` for a history that does not begin with one, or whose stamp is no version.
pub fn pinned_version_of(history: &[Event]) -> Option<Version> {
    let started = history.first()?;
    let is_start = matches!(started.kind, EventKind::OrchestrationStarted { .. });
    is_start.then(|| Version::parse(&started.duroxide_version).ok()).flatten()
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

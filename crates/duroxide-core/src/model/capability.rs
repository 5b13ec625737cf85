//! What work needs of a node, what a node can do, and whether the two fit.
//!
//! A store keeps the [`RoutingKey`] of every instance and the name and tag of every work item in columns, and asks
//! the functions here. It decides nothing itself.

use std::collections::{BTreeMap, BTreeSet};

use semver::Version;
use serde::{Deserialize, Serialize};

use super::{BeganAs, DispatcherCapabilityFilter, ItemKind, SemverRange, WorkItem, columns_of, pack_version};

/// Which handler the next turn of an instance needs.
///
/// It follows from three moments, and nothing else changes it:
///
/// | moment | route |
/// |---|---|
/// | a start | [`Route::new`] of the name and the version asked for |
/// | the current execution begins: `OrchestrationStarted` is appended | the recorded name and version |
/// | it continues as new | [`Route::new`] of what `ContinueAsNew` asks for, not of what ran |
///
/// [`route_after_turn`] tells the last two.
///
/// While a cancel waits in the inbox, the instance can be ended without its handler: then its key has
/// [`Route::AnyNode`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Route {
    /// No handler is needed, or none is known to be.
    AnyNode,
    /// The version that the node's policy gives to a start without one.
    Unversioned {
        /// The orchestration's name.
        name: String,
    },
    /// Exactly this version.
    Exact {
        /// The orchestration's name.
        name: String,
        /// The version as text. One that is no version fits no node.
        version: String,
    },
}

impl Route {
    /// The route of an orchestration by its name and the version known or asked for, if any. An empty version
    /// is none; an empty name is nobody's, and fits every node.
    pub fn new(name: &str, version: Option<&str>) -> Self {
        match version {
            _ if name.is_empty() => Self::AnyNode,
            None | Some("") => Self::Unversioned { name: name.to_string() },
            Some(version) => Self::Exact { name: name.to_string(), version: version.to_string() },
        }
    }

    /// The two columns that stand for it: name and version, each empty for none.
    pub fn columns(&self) -> (&str, &str) {
        match self {
            Self::AnyNode => ("", ""),
            Self::Unversioned { name } => (name, ""),
            Self::Exact { name, version } => (name, version),
        }
    }
}

/// The route of an instance after a turn of its current execution is committed; `None` leaves it as it is.
///
/// `began` is what [`state_changes`](super::state_changes) says of the appended events, `continues` whether the
/// turn ends the execution as `ContinuedAsNew`, `messages` what the turn sends.
pub fn route_after_turn<'a>(
    instance: &str,
    began: Option<BeganAs<'_>>,
    continues: bool,
    messages: impl IntoIterator<Item = &'a WorkItem>,
) -> Option<Route> {
    let next = if continues {
        messages
            .into_iter()
            .map(columns_of)
            .find(|columns| columns.kind == ItemKind::ContinueAsNew && columns.instance == instance)
    } else {
        None
    };
    match next {
        Some(next) => Some(Route::new(next.name.unwrap_or_default(), next.version)),
        None => began.map(|began| Route::new(began.name, Some(began.version))),
    }
}

/// What decides which nodes can run the next turn of an instance.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoutingKey {
    /// The packed version that the current execution is pinned to; `None` before its first turn.
    pub pinned: Option<i64>,
    /// The handler it needs.
    pub route: Route,
}

/// The versions of one orchestration that a node has.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HandlerVersions {
    /// Those that are registered.
    pub versions: BTreeSet<Version>,
    /// The one that a start without a version gets; `None` when the policy names one that is not registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unversioned: Option<Version>,
}

/// The orchestrations that a node can run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HandlerSet {
    /// By name.
    pub orchestrations: BTreeMap<String, HandlerVersions>,
}

impl HandlerSet {
    /// Whether the node has the handler.
    pub fn has(&self, route: &Route) -> bool {
        match route {
            Route::AnyNode => true,
            Route::Unversioned { name } => {
                self.orchestrations.get(name).is_some_and(|handlers| handlers.unversioned.is_some())
            }
            Route::Exact { name, version } => {
                self.orchestrations.get(name).is_some_and(|handlers| handlers.has(version))
            }
        }
    }
}

impl HandlerVersions {
    /// Whether a version with this text is registered. A fetch asks it for every key in the queue.
    fn has(&self, text: &str) -> bool {
        // Mostly there is one version, and it is plain.
        let is_latest = self.unversioned.as_ref().is_some_and(|latest| is_plain_text_of(text, latest));
        is_latest || Version::parse(text).is_ok_and(|version| self.versions.contains(&version))
    }
}

/// Whether a version is three numbers and nothing else, and the text is theirs.
fn is_plain_text_of(text: &str, version: &Version) -> bool {
    let mut read = [0_u64; 3];
    let (mut place, mut digits) = (0, 0);
    for byte in text.bytes() {
        match byte {
            // Digits enough for every version that there is; a number has no zero in front.
            b'0'..=b'9' if digits < 9 && (digits == 0 || read[place] > 0) => {
                read[place] = read[place] * 10 + u64::from(byte - b'0');
                digits += 1;
            }
            b'.' if digits > 0 && place < 2 => (place, digits) = (place + 1, 0),
            _ => return false,
        }
    }
    let is_all = place == 2 && digits > 0 && version.pre.is_empty() && version.build.is_empty();
    is_all && read == [version.major, version.minor, version.patch]
}

/// Whether a node that sends this filter can replay an execution with this packed version. One that is not pinned
/// suits every filter but an empty one; no filter suits all.
pub fn can_replay(filter: Option<&DispatcherCapabilityFilter>, pinned: Option<i64>) -> bool {
    filter.is_none_or(|filter| in_ranges(&filter.supported_duroxide_versions, pinned))
}

/// Whether a fetch with this filter and these handlers may take an instance. No handlers means that the node does
/// not route by them.
pub fn may_fetch(
    filter: Option<&DispatcherCapabilityFilter>,
    handlers: Option<&HandlerSet>,
    key: &RoutingKey,
) -> bool {
    can_replay(filter, key.pinned) && handlers.is_none_or(|handlers| handlers.has(&key.route))
}

pub(super) fn in_ranges(ranges: &[SemverRange], pinned: Option<i64>) -> bool {
    ranges.iter().any(|range| {
        pinned.is_none_or(|pinned| pack_version(&range.min) <= pinned && pinned <= pack_version(&range.max))
    })
}

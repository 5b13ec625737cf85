//! What depends on the build that began an execution.
//!
//! A history replays by the rules under which it was recorded, also on a later build, and also while builds before
//! it still take part. The stamp of `OrchestrationStarted` tells which rules those are. A rule that changes what is
//! recorded gets a method here with the version that introduced it; neither is ever changed.

use std::fmt::{self, Display};

use semver::Version;
use serde::de::DeserializeOwned;

use crate::model::{Event, decode_as, decode_before_1_1, kv_from_json, kv_from_json_before_1_1};

/// What an output is of, for the error of one that does not decode. Most do: the text is made only where it is shown.
pub(super) struct OutputOf<N> {
    what: &'static str,
    name: N,
}

impl<N> OutputOf<N> {
    pub(super) fn activity(name: N) -> Self {
        Self { what: "activity", name }
    }

    pub(super) fn child(name: N) -> Self {
        Self { what: "sub-orchestration", name }
    }
}

impl<N: Display> Display for OutputOf<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "output of {} '{}'", self.what, self.name)
    }
}

/// The rules of one execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Behaviour {
    /// Major, minor and patch of the build that wrote the start; zeros for a stamp that is no version.
    begun_by: (u64, u64, u64),
}

impl Behaviour {
    pub(super) fn of(started: &Event) -> Self {
        let begun_by = Version::parse(&started.duroxide_version)
            .map_or((0, 0, 0), |version| (version.major, version.minor, version.patch));
        Self { begun_by }
    }

    /// A retried call schedules its first attempt when it is made. Before 1.1.0: when it is first polled.
    pub(super) fn retries_schedule_when_called(self) -> bool {
        self.begun_by >= (1, 1, 0)
    }

    /// The schedule of a later attempt names the first one as its source. Before 1.1.0: nothing links them.
    pub(super) fn later_attempts_name_the_first(self) -> bool {
        self.begun_by >= (1, 1, 0)
    }

    /// A text that parses as JSON is stored JSON-encoded. Before 1.1.0: bare, so that it came back changed.
    pub(super) fn values_come_back_as_they_were(self) -> bool {
        self.begun_by >= (1, 1, 0)
    }

    /// The generated id of a child is recorded without its parent's. Before 1.1.0: in full.
    pub(super) fn generated_child_ids_are_short(self) -> bool {
        self.begun_by >= (1, 1, 0)
    }

    /// The error of a value that does not decode names the value and what is wrong. Before 1.1.0: another text. A
    /// program may have recorded it, as the input of an activity for example.
    fn errors_name_the_value(self) -> bool {
        self.begun_by >= (1, 1, 0)
    }

    /// A typed value. `what` says which it is, such as `output of activity 'Charge'`.
    pub(super) fn decode<T: DeserializeOwned>(self, what: impl Display, text: &str) -> Result<T, String> {
        if self.errors_name_the_value() { decode_as(what, text) } else { decode_before_1_1(text) }
    }

    /// A typed value of a KV store.
    pub(super) fn decode_kv<T: DeserializeOwned>(self, json: &str) -> Result<T, String> {
        if self.errors_name_the_value() { kv_from_json(json) } else { kv_from_json_before_1_1(json) }
    }
}

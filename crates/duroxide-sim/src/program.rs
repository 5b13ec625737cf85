//! Programs as data: one generic orchestration interprets them, and the expectation is computed from them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The name of the generic orchestration.
pub(crate) const ORCHESTRATION: &str = "program";
/// The name of the generic activity.
pub(crate) const ACTIVITY: &str = "act";
/// The same, where only upgraded nodes have it.
pub(crate) const NEW_ACTIVITY: &str = "act of the new release";
/// The versions of the orchestration, oldest first. Nodes before the upgrade lack the last.
pub(crate) const VERSIONS: [&str; 3] = ["1.0.0", "2.0.0", "3.0.0"];
/// How many of them a node has before the upgrade.
pub(crate) const OLD_VERSIONS: usize = 2;
/// The tag that only some nodes accept.
pub(crate) const TAG: &str = "gpu";

/// A program by its place in the simulation's list; inputs stay small that way.
pub(crate) type ProgramId = usize;

/// What one instance does, over all its executions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Program {
    /// The version it is started with; without one, the latest.
    pub(crate) version: Option<String>,
    /// What each execution does; between them it continues as new.
    pub(crate) executions: Vec<Part>,
    pub(crate) end: End,
}

/// One execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(crate) steps: Vec<Step>,
    /// The version that the next execution is asked for.
    pub(crate) next_version: Option<String>,
}

/// How the last execution ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum End {
    Return,
    Fail(String),
    Panic(String),
    /// With an output that the store does not accept.
    ReturnAtLength,
    /// It does not: it continues as new without waiting for anything, until it is cancelled.
    Spin,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Step {
    Activity(Act),
    All(Vec<Step>),
    /// The first wins, the other is dropped.
    First(Box<Step>, Box<Step>),
    Timer {
        ms: u64,
    },
    Wait {
        event: String,
    },
    /// Reads the queue until so many different messages have been seen in all.
    Dequeue {
        queue: String,
        upto: usize,
    },
    Child {
        id: Option<String>,
        program: ProgramId,
    },
    Detached {
        id: String,
        program: ProgramId,
    },
    Guid,
    Now,
    /// An activity that fails at first, under a policy of so many attempts.
    Retry {
        act: Act,
        attempts: u32,
    },
    /// An activity with deadlines.
    Within {
        act: Act,
        to_start_ms: Option<u64>,
        to_close_ms: Option<u64>,
    },
    /// Sets a key and reads it again.
    KvSet {
        key: String,
        value: String,
    },
    KvClear {
        key: String,
    },
    /// Reads a key that an earlier step, perhaps of an earlier execution, has set or cleared.
    KvGet {
        key: String,
        value: Option<String>,
    },
    /// Reads a key of another instance.
    KvOf {
        instance: String,
        key: String,
        value: String,
    },
    /// Sets the custom status and reads it again.
    Status {
        text: String,
    },
    /// Schedules more than one turn may write.
    TooLarge,
    /// A turn that kills its process, whenever it is run.
    KillTurn,
    /// The same, but not on a node that is upgraded: the new release has the fix.
    KillTurnUntilFixed,
    /// An activity that a node schedules otherwise when it replays, unless it is upgraded.
    ReplayedWrongUntilFixed(Act),
}

/// What an activity does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Act {
    pub(crate) tag: String,
    pub(crate) does: Does,
    /// How long it takes.
    pub(crate) ms: u64,
    /// How many of its schedules fail before one ends as it is to.
    pub(crate) fails_first: u32,
    pub(crate) session: Option<String>,
    /// Whether it carries [`TAG`].
    pub(crate) tagged: bool,
    /// Whether it is [`NEW_ACTIVITY`].
    pub(crate) new: bool,
}

impl Act {
    pub(crate) fn plain(tag: String, does: Does, ms: u64) -> Self {
        Self { tag, does, ms, fails_first: 0, session: None, tagged: false, new: false }
    }
}

/// How an activity ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Does {
    Succeed,
    /// With a result that the store does not accept.
    SucceedAtLength,
    /// It never ends, and does not care whether anybody waits for it.
    Hang,
    Fail,
    Panic,
    /// It kills its process, whenever it is run.
    Kill,
    /// The same, but on an upgraded node it succeeds.
    KillUntilFixed,
}

/// The input of an execution: the program and what the executions before left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Input {
    pub(crate) program: ProgramId,
    pub(crate) at: usize,
    pub(crate) results: Vec<Value>,
    /// The different messages seen in each queue, in their order.
    pub(crate) seen: BTreeMap<String, Vec<String>>,
}

impl Input {
    pub(crate) fn first(program: ProgramId) -> Self {
        Self { program, at: 0, results: Vec::new(), seen: BTreeMap::new() }
    }

    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("programs hold only strings and numbers")
    }
}

/// The text of the nth message of a queue.
pub(crate) fn queue_message(queue: &str, n: usize) -> String {
    format!("{queue}#{n}")
}

/// The data of an event.
pub(crate) fn event_data(event: &str) -> String {
    format!("data of {event}")
}

/// The panics that are part of the plan say so.
pub(crate) const PANIC_MARK: &str = "simulated panic";

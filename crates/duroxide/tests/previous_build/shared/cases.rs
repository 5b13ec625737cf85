//! The instances: how each is started, what is sent to it and when, and where it must stand when the store is kept.

use crate::shared::programs::MESSAGES;

/// One instance.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) instance: String,
    pub(crate) orchestration: &'static str,
    pub(crate) version: Option<&'static str>,
    pub(crate) input: String,
    pub(crate) until: Until,
}

/// Where an instance must stand before the process is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// Its history has ended.
    Ended,
    /// An activity of it, or of a child of it, holds still.
    Begun,
    /// In this execution the last event is of this type.
    Last { execution: u64, event: &'static str },
    /// It is between this execution and the next.
    After { execution: u64 },
}

/// What is sent to an instance.
#[derive(Debug, Clone)]
pub(crate) enum Sent {
    Event { name: &'static str, data: String },
    Message { queue: &'static str, data: String },
    Cancel,
}

fn case(instance: impl Into<String>, orchestration: &'static str, input: &str, until: Until) -> Case {
    Case { instance: instance.into(), orchestration, version: None, input: input.to_string(), until }
}

const WAITS: Until = Until::Last { execution: 1, event: "ExternalSubscribed" };

/// Those that the faulty code ends. They run in a process of their own, before all others.
pub(crate) fn faulty() -> Vec<Case> {
    let drifts = Until::Last { execution: 1, event: "ExternalSubscribed" };
    vec![
        case("drifted", "Drifts", "", drifts),
        case("drifted-redriven", "Drifts", "", drifts),
        case("exploded", "Explodes", "", Until::Ended),
        case("exploded-redriven", "Explodes", "", Until::Ended),
        case("fused", "CallsFuse", "", Until::Ended),
        case("fused-redriven", "CallsFuse", "", Until::Ended),
        case("guardian", "Guardian", "", WAITS),
    ]
}

/// The instances that faulty code ended and that go on while version 1.0.0 still runs.
pub(crate) const REDRIVEN_BEFORE: [&str; 3] = ["drifted-redriven", "exploded-redriven", "fused-redriven"];
/// The others, which go on afterwards.
pub(crate) const REDRIVEN_AFTER: [&str; 4] = ["drifted", "exploded", "fused", "guardian::sub::2"];

/// Those that stand somewhere when the process is ended.
pub(crate) fn healthy() -> Vec<Case> {
    let last = |execution, event| Until::Last { execution, event };
    let mut cases = retries();
    cases.extend([
        case("lazy", "Lazy", "", Until::Begun),
        case("side-by-side", "RetriesSideBySide", "", Until::Begun),
        case("values-done", "Values", "", Until::Ended),
        case("values-held", "ValuesHeld", "", Until::Begun),
        case("typed", "Typed", "\"quoted\"", last(1, "ExternalSubscribed")),
        case("typed-half", "Typed", "123", last(1, "ExternalSubscribedPersistent")),
        case("rounds", "Rounds", r#"{"number":1,"text":"\"quoted\""}"#, Until::Begun),
        case("text-rounds", "TextRounds", "\"7\"", Until::Begun),
        case("finished", "Finished", "", WAITS),
        case("running", "Running", "", Until::Begun),
        case("cancelling", "Cancelling", "", WAITS),
        case("nested", "Nested", "3", Until::Begun),
        case("later", "LaterChildren", "x", Until::Begun),
        case("of-versions", "OfVersions", "", Until::Begun),
        case("detaches", "Detaches", "", Until::Begun),
        case("chain", "Chain", "1", Until::Begun),
        case("hop", "Hop", "x", Until::After { execution: 1 }),
        case("waits", "Waits", "", last(1, "ExternalSubscribedPersistent")),
        case("unread", "Waits", "", last(1, "ExternalSubscribedPersistent")),
        case("malformed", "Malformed", "", Until::Begun),
        case("starts-in-time", "StartsInTime", "later", last(1, "TimerCreated")),
        case("ends-in-time", "EndsInTime", "", Until::Begun),
        case("on-session", "OnSession", "", Until::Begun),
        case("state", "State", "", Until::Begun),
        case("returns-ok", "Returns", "ok fine", Until::Ended),
        case("returns-error", "Returns", "error bad", Until::Ended),
        case("returns-panic", "Returns", "panic worse", Until::Ended),
        case("holds-open", "HoldsOpen", "", last(2, "ActivityCompleted")),
        case("cancelled", "Running", "", Until::Begun),
        case("to-be-cancelled", "Nested", "1", Until::Begun),
        Case { version: Some("1.0.0"), ..case("first-version", "Versioned", "x", Until::Begun) },
        case("latest-version", "Versioned", "x", Until::Ended),
    ]);
    cases
}

fn retries() -> Vec<Case> {
    let mut cases = Vec::new();
    for form in FORMS {
        for position in ["first", "second", "done", "exhausted"] {
            cases.push(retry(form, position));
        }
    }
    cases
}

const FORMS: [&str; 5] = ["plain", "typed", "session", "session_typed", "timeout"];

/// Those whose second attempt must be queued. They are started when all others stand where they must, because the
/// process must end before their backoff does.
pub(crate) fn queued() -> Vec<Case> {
    FORMS.map(|form| retry(form, "queued")).into()
}

/// Those whose timers must not be due when the store is kept. They are started last.
pub(crate) fn timely() -> Vec<Case> {
    let timer = Until::Last { execution: 1, event: "TimerCreated" };
    let mut cases: Vec<Case> = FORMS.map(|form| retry(form, "backoff")).into();
    cases.extend([
        retry("timeout", "elapses"),
        case("sleeps", "Sleeps", "", timer),
        case("starts-too-late", "StartsTooLate", "", timer),
    ]);
    cases
}

fn retry(form: &str, position: &str) -> Case {
    let until = match position {
        "first" | "second" => Until::Begun,
        "done" | "exhausted" => Until::Ended,
        "elapses" => Until::Last { execution: 1, event: "TimerCreated" },
        "backoff" | "queued" => Until::Last { execution: 1, event: "TimerCreated" },
        _ => panic!("there is no position '{position}'"),
    };
    case(format!("retry-{form}-{position}"), "Retry", &format!("{form}/{position}"), until)
}

fn event(name: &'static str, data: &str) -> Sent {
    Sent::Event { name, data: data.to_string() }
}

fn message(queue: &'static str, data: &str) -> Sent {
    Sent::Message { queue, data: data.to_string() }
}

fn all(list: Vec<(&'static str, Vec<Sent>)>) -> Vec<(String, Sent)> {
    let each = |(instance, sent): (&str, Vec<Sent>)| {
        sent.into_iter().map(move |one| (instance.to_string(), one)).collect::<Vec<_>>()
    };
    list.into_iter().flat_map(each).collect()
}

/// Sent before anything is started.
pub(crate) fn sent_early() -> Vec<(String, Sent)> {
    let numbered = (0..MESSAGES).map(|number| message("queue", &format!("m{number}")));
    let unwaited = [event("later", "e1"), event("later", "e2")];
    all(vec![
        ("waits", vec![event("early", "e"), message("early", "m")]),
        ("unread", vec![event("early", "\"e\""), message("early", "{}"), event("unwaited", "u")]),
        ("chain", numbered.chain(unwaited).collect()),
        ("typed-half", vec![event("event", "\"7\"")]),
        ("malformed", vec![event("number", "seven")]),
        ("never-started", vec![event("go", "kept")]),
    ])
}

/// Sent while the process runs.
pub(crate) fn sent_meanwhile() -> Vec<(String, Sent)> {
    all(vec![("cancelled", vec![Sent::Cancel])])
}

/// Sent when no process runs any more: nothing has read it when the store is kept.
pub(crate) fn sent_at_last() -> Vec<(String, Sent)> {
    all(vec![
        ("unread", vec![event("go", "g1"), message("queue", "q"), event("go", "g2")]),
        ("finished", vec![event("go", "null")]),
        ("to-be-cancelled", vec![Sent::Cancel]),
        ("hop", vec![message("landed", "\"softly\"")]),
    ])
}

/// Started when no process runs any more.
pub(crate) fn started_at_last() -> Vec<Case> {
    vec![
        case("unread-start", "Retry", "plain/unread", Until::Ended),
        case("unread-values", "MeasureChild", "\"quoted\"", Until::Ended),
    ]
}

/// Sent to let everything end.
pub(crate) fn sent_to_finish() -> Vec<(String, Sent)> {
    let go = || vec![event("go", "gone")];
    all(vec![
        ("waits", vec![event("go", "g1"), event("go", "g2"), message("queue", "q"), event("unwaited", "u")]),
        ("typed", vec![event("event", "\"quoted\""), message("queue", "null")]),
        ("typed-half", vec![message("queue", "\"null\"")]),
        ("running::sub::2", go()),
        ("running-own", go()),
        ("cancelling", go()),
        ("detaches-waiter", go()),
        ("holds-open::sub::2_3", go()),
        ("drifted", go()),
        ("drifted::sub::2", go()),
        ("drifted-redriven", go()),
        ("drifted-redriven::sub::2", go()),
        ("exploded", go()),
        ("exploded-redriven", go()),
        ("fused", go()),
        ("fused-redriven", go()),
        ("guardian", go()),
        ("guardian::sub::2", go()),
    ])
}

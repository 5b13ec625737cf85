//! What a program must give, computed from the program alone.

use serde_json::{Value, json};

use crate::program::{
    Act, Does, End, OLD_VERSIONS, PANIC_MARK, Program, ProgramId, Step, VERSIONS, event_data, queue_message,
};

/// How the error begins where the store does not accept what was to be stored.
const NOT_ACCEPTED: &str = "infrastructure:";

/// A value, as far as it is known.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expect {
    Exactly(Value),
    /// An array of these.
    Each(Vec<Expect>),
    /// `{"ok": ..}` with this inside.
    Ok(Box<Expect>),
    AnyOf(Vec<Expect>),
    /// `{"err": text}` that begins so.
    ErrorBegins(String),
    Guid,
    Now,
}

/// What is known about an instance id besides its program.
pub(crate) trait Neighbours {
    /// The reasons that clients gave when they cancelled this id.
    fn cancel_reasons(&self, id: &str) -> Vec<String>;

    /// A program by its place.
    fn program(&self, id: ProgramId) -> &Program;
}

impl Expect {
    pub(crate) fn accepts(&self, value: &Value) -> bool {
        match self {
            Self::Exactly(expected) => expected == value,
            Self::Each(expected) => value.as_array().is_some_and(|values| {
                values.len() == expected.len()
                    && expected.iter().zip(values).all(|(expected, value)| expected.accepts(value))
            }),
            Self::Ok(expected) => value.get("ok").is_some_and(|value| expected.accepts(value)),
            Self::AnyOf(expected) => expected.iter().any(|expected| expected.accepts(value)),
            Self::ErrorBegins(text) => error_of(value).is_some_and(|error| error.starts_with(text)),
            Self::Guid => {
                let guid = value.get("ok").and_then(Value::as_str).unwrap_or_default();
                guid.len() == 36 && guid.as_bytes()[14] == b'4'
            }
            Self::Now => value.get("now").is_some_and(Value::is_u64),
        }
    }
}

fn error_of(value: &Value) -> Option<&str> {
    value.get("err").and_then(Value::as_str)
}

/// What an instance that nobody cancels gives.
pub(crate) fn of_program(program: &Program, neighbours: &dyn Neighbours) -> Expect {
    let mut results = Vec::new();
    let mut version = program.version.clone();
    for part in &program.executions {
        results.push(of_version(version.as_deref()));
        for step in &part.steps {
            if kills(step) {
                return Expect::ErrorBegins("poison: ".to_string());
            }
            if *step == Step::TooLarge {
                return Expect::ErrorBegins("the turn writes ".to_string());
            }
            results.push(of_step(step, neighbours));
        }
        version = part.next_version.clone();
    }
    match &program.end {
        End::Return => Expect::Ok(Box::new(Expect::Each(results))),
        End::Fail(text) => error(text),
        End::Panic(text) => error(&format!("orchestration panicked: {PANIC_MARK} {text}")),
        End::ReturnAtLength => Expect::ErrorBegins(NOT_ACCEPTED.to_string()),
        // Only a cancel ends it.
        End::Spin => Expect::AnyOf(Vec::new()),
    }
}

/// Whether the step ends its execution as poison: it, or an activity of its own, kills the process.
fn kills(step: &Step) -> bool {
    match step {
        Step::Activity(act) => act.does == Does::Kill,
        Step::All(steps) => steps.iter().any(kills),
        Step::First(one, other) => kills(one) || kills(other),
        Step::KillTurn => true,
        Step::Timer { .. }
        | Step::Wait { .. }
        | Step::Dequeue { .. }
        | Step::Child { .. }
        | Step::Detached { .. }
        | Step::Guid
        | Step::Now
        | Step::Retry { .. }
        | Step::Within { .. }
        | Step::KvSet { .. }
        | Step::KvClear { .. }
        | Step::KvGet { .. }
        | Step::KvOf { .. }
        | Step::Status { .. }
        | Step::TooLarge
        | Step::KillTurnUntilFixed
        | Step::ReplayedWrongUntilFixed(_) => false,
    }
}

/// Without a version the latest of the node that runs the first turn, which may be upgraded or not.
fn of_version(asked: Option<&str>) -> Expect {
    let is = |version: &str| Expect::Exactly(json!({ "version": version }));
    match asked {
        Some(version) => is(version),
        None => Expect::AnyOf(vec![is(VERSIONS[VERSIONS.len() - 1]), is(VERSIONS[OLD_VERSIONS - 1])]),
    }
}

fn of_step(step: &Step, neighbours: &dyn Neighbours) -> Expect {
    match step {
        Step::Activity(act) | Step::ReplayedWrongUntilFixed(act) => of_activity(act),
        Step::KillTurnUntilFixed => Expect::Exactly(json!({ "ok": "fixed" })),
        Step::All(steps) => Expect::Each(steps.iter().map(|step| of_step(step, neighbours)).collect()),
        Step::First(one, other) => Expect::AnyOf(vec![of_step(one, neighbours), of_step(other, neighbours)]),
        Step::Timer { .. } => Expect::Exactly(json!({ "ok": "timer" })),
        Step::Wait { event } => Expect::Exactly(json!({ "ok": event_data(event) })),
        Step::Dequeue { queue, upto } => {
            let messages: Vec<String> = (0..*upto).map(|n| queue_message(queue, n)).collect();
            Expect::Exactly(json!({ "ok": messages }))
        }
        Step::Child { id, program } => {
            let mut expected = vec![of_program(neighbours.program(*program), neighbours)];
            if let Some(id) = id {
                expected.push(error(&format!("sub-orchestration instance id '{id}' already exists")));
                let reasons = neighbours.cancel_reasons(id);
                expected.extend(reasons.iter().map(|reason| cancelled(reason)));
            }
            Expect::AnyOf(expected)
        }
        Step::Detached { .. } => Expect::Exactly(json!({ "ok": "detached" })),
        Step::Guid => Expect::Guid,
        Step::Now => Expect::Now,
        // Ends its program.
        Step::TooLarge => Expect::AnyOf(Vec::new()),
        Step::KillTurn => Expect::ErrorBegins("poison: ".to_string()),
        Step::Retry { act, attempts } if act.fails_first >= *attempts => error(&failed(act)),
        Step::Retry { act, .. } => of_activity(act),
        Step::Within { act, .. } => {
            Expect::AnyOf(vec![of_activity(act), Expect::ErrorBegins("timeout: ".to_string())])
        }
        Step::KvSet { value, .. } => Expect::Exactly(json!({ "ok": value })),
        Step::KvClear { .. } => Expect::Exactly(json!({ "ok": Value::Null })),
        Step::KvGet { value, .. } => Expect::Exactly(json!({ "ok": value })),
        Step::KvOf { value, .. } => Expect::AnyOf(vec![
            Expect::Exactly(json!({ "ok": Value::Null })),
            Expect::Exactly(json!({ "ok": value })),
        ]),
        Step::Status { text } => Expect::Exactly(json!({ "ok": text })),
    }
}

fn of_activity(act: &Act) -> Expect {
    match act.does {
        Does::Succeed | Does::KillUntilFixed => Expect::Exactly(json!({ "ok": succeeded(act) })),
        Does::SucceedAtLength => Expect::ErrorBegins(NOT_ACCEPTED.to_string()),
        // Only a cancel ends its program.
        Does::Hang => Expect::AnyOf(Vec::new()),
        Does::Fail => error(&failed(act)),
        Does::Panic => error(&format!("activity panicked: {PANIC_MARK} {}", act.tag)),
        Does::Kill => Expect::ErrorBegins("poison: ".to_string()),
    }
}

/// What a cancelled instance gives.
pub(crate) fn cancelled(reason: &str) -> Expect {
    error(&format!("canceled: {reason}"))
}

fn error(text: &str) -> Expect {
    Expect::Exactly(json!({ "err": text }))
}

/// What an activity that succeeds returns.
pub(crate) fn succeeded(act: &Act) -> String {
    format!("done {}", act.tag)
}

/// The error of an activity that fails.
pub(crate) fn failed(act: &Act) -> String {
    format!("failed {}", act.tag)
}

//! An activity that takes an hour: nothing else may wait for it.

use crate::generate::{CLIENT_TIME_MS, Call, Send, Workload};
use crate::program::{Act, Does, End, Input, Part, Program, Step};
use crate::rng::Rng;

/// How the ids of such instances begin.
const PREFIX: &str = "hour-";
/// How long the activity takes.
pub(crate) const LONG_MS: u64 = 60 * 60 * 1_000;

/// Whether the instance has such an activity.
pub(crate) fn is_long(instance: &str) -> bool {
    instance.starts_with(PREFIX)
}

impl Workload {
    pub(crate) fn add_long(&mut self, rng: &mut Rng) {
        let id = self.name(PREFIX);
        let steps = vec![Step::Activity(Act::plain(self.name("long "), Does::Succeed, LONG_MS))];
        let part = Part { steps, next_version: None };
        let program = Program { version: None, executions: vec![part], end: End::Return };
        let input = Input::first(self.add_program(program)).to_json();
        let what = Send::Start { version: None, input };
        self.calls.push(Call { at_ms: rng.range(0, CLIENT_TIME_MS), instance: id, what });
    }
}

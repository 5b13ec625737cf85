//! A program that never waits: it continues as new again and again, until a client cancels it.

use crate::generate::{CLIENT_TIME_MS, Call, Send, Workload};
use crate::program::{End, Input, Part, Program};
use crate::rng::Rng;

/// How long after its start it is cancelled at most. A turn takes some ten milliseconds.
const CANCELLED_WITHIN_MS: u64 = 300;

impl Workload {
    pub(crate) fn add_spinner(&mut self, rng: &mut Rng) {
        let id = self.name("spinner-");
        let part = Part { steps: Vec::new(), next_version: None };
        let program = Program { version: None, executions: vec![part], end: End::Spin };
        let input = Input::first(self.add_program(program)).to_json();
        let started_ms = rng.range(0, CLIENT_TIME_MS);
        let cancelled_ms = started_ms + rng.range(0, CANCELLED_WITHIN_MS);
        let reason = self.name("spun enough ");
        let calls =
            [(started_ms, Send::Start { version: None, input }), (cancelled_ms, Send::Cancel { reason })];
        for (at_ms, what) in calls {
            self.calls.push(Call { at_ms, instance: id.clone(), what });
        }
    }
}

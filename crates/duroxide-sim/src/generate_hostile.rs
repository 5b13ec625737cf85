//! Programs that ask for what is never given: a handler that hangs, a turn that is too large, rows that the store does not
//! accept. Each ends as it must, and nothing else waits for it.

use crate::generate::{CLIENT_TIME_MS, Call, Send, Workload};
use crate::program::{Act, Does, End, Input, Part, Program, Step};
use crate::rng::Rng;

/// How the ids of instances begin of which the store accepts no row above [`REFUSED_ABOVE_BYTES`].
const REFUSED: &str = "refused-";
/// Larger than every event and message of a small program.
pub(crate) const REFUSED_ABOVE_BYTES: usize = 4_000;
/// How long after its start an instance whose activity hangs is cancelled at most.
const CANCELLED_WITHIN_MS: u64 = 60_000;

impl Workload {
    pub(crate) fn add_hostile(&mut self, rng: &mut Rng) {
        match rng.range(0, 10) {
            // Costs tenths of a second.
            0 => {
                let id = self.name("too-large-");
                self.start_hostile(rng, id, Step::TooLarge, End::Return);
            }
            1..=4 => self.add_hung(rng),
            5..=7 => {
                let id = self.name(REFUSED);
                let act = Act::plain(self.name("verbose "), Does::SucceedAtLength, rng.range(1, 500));
                self.start_hostile(rng, id.clone(), Step::Activity(act), End::Return);
                self.refused.push(id);
            }
            _ => {
                let id = self.name(REFUSED);
                let act = Act::plain(self.name("before it "), Does::Succeed, rng.range(1, 500));
                self.start_hostile(rng, id.clone(), Step::Activity(act), End::ReturnAtLength);
                self.refused.push(id);
            }
        }
    }

    fn add_hung(&mut self, rng: &mut Rng) {
        let id = self.name("hung-");
        let act = Act::plain(self.name("hangs "), Does::Hang, 0);
        let started_ms = self.start_hostile(rng, id.clone(), Step::Activity(act), End::Return);
        let reason = self.name("hung for too long ");
        let at_ms = started_ms + rng.range(0, CANCELLED_WITHIN_MS);
        self.calls.push(Call { at_ms, instance: id, what: Send::Cancel { reason } });
    }

    fn start_hostile(&mut self, rng: &mut Rng, id: String, step: Step, end: End) -> u64 {
        let part = Part { steps: vec![step], next_version: None };
        let program = Program { version: None, executions: vec![part], end };
        let input = Input::first(self.add_program(program)).to_json();
        let at_ms = rng.range(0, CLIENT_TIME_MS);
        self.calls.push(Call { at_ms, instance: id, what: Send::Start { version: None, input } });
        at_ms
    }
}

//! Programs that fail until the nodes are upgraded, for clients that let them go on.

use crate::generate::{Call, Reach, Send, Workload};
use crate::program::{Act, Does, End, Input, Part, Program, Step, VERSIONS, event_data, queue_message};
use crate::rng::Rng;

/// From when on they are started, and until when.
const STARTED_FROM_MS: u64 = 5_000;
const STARTED_BY_MS: u64 = 15_000;
/// Until when clients send to them, if not before they are started.
const SENT_BY_MS: u64 = 60_000;

impl Workload {
    /// Roots that fail of a mistake in the old release.
    pub(crate) fn add_mended(&mut self, rng: &mut Rng) {
        for _ in 0..rng.range(1, 4) {
            let id = self.name("mended-");
            let kills = !self.kills && rng.one_in(3);
            self.kills |= kills;
            let program = self.mended_program(rng, &id, kills);
            let at_ms = rng.range(STARTED_FROM_MS, STARTED_BY_MS);
            let version = program.version.clone();
            let input = Input::first(self.add_program(program)).to_json();
            self.calls.push(Call { at_ms, instance: id.clone(), what: Send::Start { version, input } });
            self.mended.push(id);
        }
    }

    fn mended_program(&mut self, rng: &mut Rng, id: &str, kills: bool) -> Program {
        let queue = self.name("queue-");
        let (mut read, mut sent_at_ms) = (0, 0);
        let executions = if rng.one_in(3) { 2 } else { 1 };
        let mistaken = rng.range(0, executions);
        let mut parts = Vec::new();
        for at in 0..executions {
            let mut steps: Vec<Step> =
                (0..rng.range(0, 3)).map(|_| self.step(rng, Reach::Generated, 1)).collect();
            if at == mistaken {
                let mistake = self.mistake(rng, kills);
                steps.push(self.among(rng, mistake));
            }
            if rng.one_in(2) {
                steps.push(self.wait_for_client(rng, id));
            }
            if rng.one_in(2) {
                read += 1;
                // What is read in order is sent in order.
                sent_at_ms = sent_at_ms.max(at_any_time(rng));
                let what = Send::Enqueue { queue: queue.clone(), data: queue_message(&queue, read - 1) };
                self.calls.push(Call { at_ms: sent_at_ms, instance: id.to_string(), what });
                steps.push(Step::Dequeue { queue: queue.clone(), upto: read });
            }
            steps.push(self.activity(rng));
            parts.push(Part { steps, next_version: None });
        }
        // Or of nothing else than a version that the old release does not have.
        let version = (!kills && rng.one_in(3)).then(|| VERSIONS[VERSIONS.len() - 1].to_string());
        Program { version, executions: parts, end: End::Return }
    }

    /// A step that fails its execution on a node of the old release.
    fn mistake(&mut self, rng: &mut Rng, kills: bool) -> Step {
        let mut act = Act::plain(self.name("a"), Does::Succeed, rng.range(0, 2_000));
        match (kills, rng.one_in(2)) {
            (true, true) => Step::KillTurnUntilFixed,
            (true, false) => {
                act.does = Does::KillUntilFixed;
                Step::Activity(act)
            }
            (false, true) => Step::ReplayedWrongUntilFixed(act),
            (false, false) => {
                act.new = true;
                Step::Activity(act)
            }
        }
    }

    /// With others at the same time, which the failure cuts off.
    fn among(&mut self, rng: &mut Rng, mistake: Step) -> Step {
        if rng.one_in(3) {
            return mistake;
        }
        let mut steps: Vec<Step> =
            (0..rng.range(1, 5)).map(|_| self.leaf(rng, Reach::Generated, 1)).collect();
        if rng.one_in(2) {
            steps.push(self.waiting_child(rng));
        }
        let at = usize::try_from(rng.next()).unwrap_or(0) % (steps.len() + 1);
        steps.insert(at, mistake);
        Step::All(steps)
    }

    /// A child that does a little before it reads what it has got.
    fn waiting_child(&mut self, rng: &mut Rng) -> Step {
        let id = self.name("mended-child-");
        let mut steps = vec![self.activity(rng), self.activity(rng)];
        steps.push(self.wait_for_client(rng, &id));
        steps.push(self.activity(rng));
        let part = Part { steps, next_version: None };
        let program = Program { version: None, executions: vec![part], end: End::Return };
        Step::Child { id: Some(id), program: self.add_program(program) }
    }

    /// An event that comes before the instance does, while it runs, or after it has failed.
    fn wait_for_client(&mut self, rng: &mut Rng, id: &str) -> Step {
        let event = self.name("event-");
        let what = Send::Raise { name: event.clone(), data: event_data(&event) };
        self.calls.push(Call { at_ms: at_any_time(rng), instance: id.to_string(), what });
        Step::Wait { event }
    }
}

/// Before the instance is started, or any time.
fn at_any_time(rng: &mut Rng) -> u64 {
    if rng.one_in(2) { 0 } else { rng.range(0, SENT_BY_MS) }
}

//! The workload of a seed: programs, and what clients do with them and when.

use crate::program::{Act, Does, End, Input, Part, Program, Step, VERSIONS, event_data, queue_message};
use crate::rng::Rng;

/// How long clients go on sending, in virtual milliseconds.
const CLIENT_TIME_MS: u64 = 30_000;
/// How deep children nest.
const MAX_DEPTH: u32 = 2;

/// What clients do, in the order of its time for each instance.
#[derive(Debug, Clone, Default)]
pub(crate) struct Workload {
    pub(crate) calls: Vec<Call>,
    /// Ids that clients and programs know, whoever starts them.
    known_ids: Vec<String>,
    /// Whether something among it kills processes.
    pub(crate) kills: bool,
    numbered: u64,
}

/// One call of a client.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) at_ms: u64,
    pub(crate) instance: String,
    pub(crate) what: Send,
}

/// What a client sends.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Send {
    Start { version: Option<String>, input: String },
    Raise { name: String, data: String },
    Enqueue { queue: String, data: String },
    Cancel { reason: String },
}

/// Whether clients know the instance's id and can send to it.
#[derive(Clone, Copy)]
enum Reach<'a> {
    Known(&'a str),
    Generated,
}

impl Workload {
    pub(crate) fn of(rng: &mut Rng) -> Self {
        let mut workload = Self::default();
        for _ in 0..rng.range(3, 9) {
            workload.add_root(rng);
        }
        if rng.one_in(8) {
            workload.add_killer(rng);
        }
        let ids = workload.known_ids.clone();
        for id in ids {
            if rng.one_in(5) {
                let reason = workload.name("cancelled by client ");
                let at_ms = rng.range(0, CLIENT_TIME_MS);
                workload.calls.push(Call { at_ms, instance: id, what: Send::Cancel { reason } });
            }
        }
        // A stable order: the order of generation decides among equal times.
        workload.calls.sort_by_key(|call| call.at_ms);
        workload
    }

    fn name(&mut self, prefix: &str) -> String {
        self.numbered += 1;
        format!("{prefix}{}", self.numbered)
    }

    fn add_root(&mut self, rng: &mut Rng) {
        let id = self.new_id("root-");
        let program = self.program(rng, Reach::Known(&id), 0);
        self.start(rng, &id, program);
    }

    fn start(&mut self, rng: &mut Rng, id: &str, program: Program) {
        let at_ms = rng.range(0, CLIENT_TIME_MS / 2);
        let version = program.version.clone();
        let input = Input::first(program).to_json();
        self.calls.push(Call { at_ms, instance: id.to_string(), what: Send::Start { version, input } });
    }

    /// A program that kills every process that runs it, until it is poisoned.
    fn add_killer(&mut self, rng: &mut Rng) {
        self.kills = true;
        let id = self.new_id("killer-");
        let kill = if rng.one_in(2) {
            Step::Activity(Act { tag: "kill".to_string(), does: Does::Kill, ms: rng.range(0, 50) })
        } else {
            Step::KillTurn
        };
        let steps = vec![self.activity(rng), kill];
        let part = Part { steps, next_version: None };
        let program = Program { version: None, executions: vec![part], end: End::Return };
        let program = if rng.one_in(2) {
            let steps = vec![Step::Child { id: None, program: Box::new(program) }];
            Program { version: None, executions: vec![Part { steps, next_version: None }], end: End::Return }
        } else {
            program
        };
        self.start(rng, &id, program);
    }

    fn new_id(&mut self, prefix: &str) -> String {
        let id = self.name(prefix);
        self.known_ids.push(id.clone());
        id
    }

    fn program(&mut self, rng: &mut Rng, reach: Reach<'_>, depth: u32) -> Program {
        let executions = if rng.one_in(3) { rng.range(2, 5) } else { 1 };
        let queue = self.name("queue-");
        let mut read = 0;
        let mut parts = Vec::new();
        for _ in 0..executions {
            let mut steps = Vec::new();
            for _ in 0..rng.range(1, 6) {
                steps.push(self.step(rng, reach, depth));
                if let Reach::Known(_) = reach
                    && rng.one_in(4)
                {
                    read += usize::from(rng.one_in(2)) + 1;
                    steps.push(self.dequeue(rng, &queue, read));
                }
            }
            parts.push(Part { steps, next_version: version(rng) });
        }
        if let Reach::Known(id) = reach {
            self.fill_queue(rng, id, &queue, read);
        }
        let end = match rng.range(0, 10) {
            0 => End::Fail(self.name("program failed ")),
            1 => End::Panic(self.name("of program ")),
            _ => End::Return,
        };
        Program { version: version(rng), executions: parts, end }
    }

    /// More messages than are read: the rest stays unread from execution to execution.
    fn fill_queue(&mut self, rng: &mut Rng, id: &str, queue: &str, read: usize) {
        let mut times: Vec<u64> = (0..read).map(|_| rng.range(0, CLIENT_TIME_MS)).collect();
        if read > 0 && rng.one_in(3) {
            times.extend((0..rng.range(1, 120)).map(|_| rng.range(0, CLIENT_TIME_MS / 3)));
        }
        times.sort_unstable();
        for (n, at_ms) in times.into_iter().enumerate() {
            let what = Send::Enqueue { queue: queue.to_string(), data: queue_message(queue, n) };
            self.calls.push(Call { at_ms, instance: id.to_string(), what });
        }
    }

    fn dequeue(&mut self, rng: &mut Rng, queue: &str, upto: usize) -> Step {
        let dequeue = Step::Dequeue { queue: queue.to_string(), upto };
        if rng.one_in(4) { self.first(rng, dequeue) } else { dequeue }
    }

    /// Against a timer or an activity, before or behind it.
    fn first(&mut self, rng: &mut Rng, step: Step) -> Step {
        let other = if rng.one_in(2) { timer(rng) } else { self.activity(rng) };
        let (one, other) = if rng.one_in(2) { (step, other) } else { (other, step) };
        Step::First(Box::new(one), Box::new(other))
    }

    fn step(&mut self, rng: &mut Rng, reach: Reach<'_>, depth: u32) -> Step {
        match rng.range(0, 21) {
            0..5 => self.activity(rng),
            5..7 => timer(rng),
            7 => Step::Guid,
            8 => Step::Now,
            9..11 => self.wait(rng, reach),
            11..13 => {
                let steps = (0..rng.range(2, 6)).map(|_| self.leaf(rng, reach, depth)).collect();
                Step::All(steps)
            }
            13 => Step::All((0..rng.range(5, 40)).map(|_| self.activity(rng)).collect()),
            14..16 => {
                let step = self.leaf(rng, reach, depth);
                self.first(rng, step)
            }
            16..19 => self.child(rng, depth),
            19 => self.taken_child(rng, depth),
            _ => self.detached(rng, depth),
        }
    }

    fn leaf(&mut self, rng: &mut Rng, reach: Reach<'_>, depth: u32) -> Step {
        match rng.range(0, 8) {
            0..4 => self.activity(rng),
            4 => timer(rng),
            5 => self.wait(rng, reach),
            6 => self.child(rng, depth),
            _ => Step::Guid,
        }
    }

    fn activity(&mut self, rng: &mut Rng) -> Step {
        let does = match rng.range(0, 8) {
            0 => Does::Fail,
            1 => Does::Panic,
            _ => Does::Succeed,
        };
        let ms = match rng.range(0, 8) {
            0..4 => 0,
            4..7 => rng.range(1, 2_000),
            // Longer than a lock lasts without renewal.
            _ => rng.range(2_000, 20_000),
        };
        Step::Activity(Act { tag: self.name("a"), does, ms })
    }

    fn wait(&mut self, rng: &mut Rng, reach: Reach<'_>) -> Step {
        let Reach::Known(id) = reach else { return timer(rng) };
        let event = self.name("event-");
        let what = Send::Raise { name: event.clone(), data: event_data(&event) };
        let at_ms = rng.range(0, CLIENT_TIME_MS);
        self.calls.push(Call { at_ms, instance: id.to_string(), what });
        Step::Wait { event }
    }

    fn child(&mut self, rng: &mut Rng, depth: u32) -> Step {
        if depth >= MAX_DEPTH {
            return self.activity(rng);
        }
        let id = match rng.range(0, 6) {
            0..3 => None,
            3..5 => Some(self.new_id("child-")),
            // Somebody else's id: one of the two starts loses.
            _ => Some(rng.pick(&self.known_ids).clone()),
        };
        let reach = id.as_deref().map_or(Reach::Generated, Reach::Known);
        let program = Box::new(self.program(rng, reach, depth + 1));
        Step::Child { id, program }
    }

    /// A child with an id that is probably taken, given up at about the time when the answer comes.
    fn taken_child(&mut self, rng: &mut Rng, depth: u32) -> Step {
        if depth >= MAX_DEPTH {
            return self.activity(rng);
        }
        let id = rng.pick(&self.known_ids).clone();
        let program = Box::new(self.program(rng, Reach::Known(&id), MAX_DEPTH));
        let ms = if rng.one_in(2) { 0 } else { rng.range(0, 20) };
        let other = if rng.one_in(3) { Step::Now } else { Step::Timer { ms } };
        let child = Step::Child { id: Some(id), program };
        Step::First(Box::new(child), Box::new(other))
    }

    fn detached(&mut self, rng: &mut Rng, depth: u32) -> Step {
        if depth >= MAX_DEPTH {
            return timer(rng);
        }
        let id = if rng.one_in(5) { rng.pick(&self.known_ids).clone() } else { self.new_id("detached-") };
        let program = Box::new(self.program(rng, Reach::Known(&id), depth + 1));
        Step::Detached { id, program }
    }
}

fn timer(rng: &mut Rng) -> Step {
    Step::Timer { ms: if rng.one_in(4) { rng.range(0, 20) } else { rng.range(20, 15_000) } }
}

fn version(rng: &mut Rng) -> Option<String> {
    rng.one_in(3).then(|| (*rng.pick(&VERSIONS)).to_string())
}

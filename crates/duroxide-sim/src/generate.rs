//! The workload of a seed: programs, and what clients do with them and when.

use crate::program::{
    Act, Does, End, Input, OLD_VERSIONS, Part, Program, ProgramId, Step, VERSIONS, event_data, queue_message,
};
use crate::rng::Rng;

/// How long clients go on sending, in virtual milliseconds.
pub(crate) const CLIENT_TIME_MS: u64 = 30_000;
/// One simulation in so many has instances that fail until an upgrade.
const MENDED_ONE_IN: u64 = 6;
/// One simulation in so many has a program that never waits.
const SPINNER_ONE_IN: u64 = 8;
/// One simulation in so many has an activity that takes an hour.
const LONG_ONE_IN: u64 = 8;
/// One simulation in so many has a program that asks for what is never given.
const HOSTILE_ONE_IN: u64 = 6;
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
    /// All programs; the others name them by their place.
    pub(crate) programs: Vec<Program>,
    /// Keys that some instance may set, with the instance.
    shared_keys: Vec<(String, String)>,
    /// How what is generated now may name instances.
    naming: Naming,
    /// Instances that fail until the nodes are upgraded, and that clients let go on. Then nothing else needs the new
    /// release.
    pub(crate) mended: Vec<String>,
    old_release: bool,
    /// Instances of which the store does not accept everything.
    pub(crate) refused: Vec<String>,
}

/// What decides about the special programs of a workload: sequences of their own, so that the one does not shift what the
/// other gives.
pub(crate) struct Besides {
    pub(crate) mended: Rng,
    pub(crate) spinner: Rng,
    pub(crate) long: Rng,
    pub(crate) hostile: Rng,
}

/// How a program names the instances that it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Naming {
    /// By new ids and by those of others.
    #[default]
    Free,
    /// By new ids only: they end more than once, and nobody else waits for such an end.
    New,
    /// Not at all: they will be deleted with it.
    None,
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
    Start {
        version: Option<String>,
        input: String,
    },
    Raise {
        name: String,
        data: String,
    },
    Enqueue {
        queue: String,
        data: String,
    },
    Cancel {
        reason: String,
    },
    /// By force, whatever it does.
    Delete,
    /// With the call that deletes what has finished.
    DeleteFinished,
    /// Of old executions.
    Prune,
}

/// Whether clients know the instance's id and can send to it.
#[derive(Clone, Copy)]
pub(crate) enum Reach<'a> {
    Known(&'a str),
    Generated,
}

impl Workload {
    pub(crate) fn of(rng: &mut Rng, besides: &mut Besides) -> Self {
        let Besides { mended, spinner, long, hostile } = besides;
        let mut workload = Self { old_release: mended.one_in(MENDED_ONE_IN), ..Self::default() };
        for _ in 0..rng.range(2, 6) {
            workload.add_root(rng);
        }
        if rng.one_in(8) {
            workload.add_killer(rng);
        }
        if rng.one_in(3) {
            workload.add_doomed(rng);
        }
        if rng.one_in(3) {
            workload.add_finishing(rng);
        }
        let ids = workload.known_ids.clone();
        for id in ids {
            if rng.one_in(5) {
                let reason = workload.name("cancelled by client ");
                let at_ms = rng.range(0, CLIENT_TIME_MS);
                workload.calls.push(Call { at_ms, instance: id.clone(), what: Send::Cancel { reason } });
            }
            if rng.one_in(10) {
                let at_ms = rng.range(0, CLIENT_TIME_MS);
                workload.calls.push(Call { at_ms, instance: id, what: Send::Prune });
            }
        }
        if workload.old_release {
            workload.naming = Naming::New;
            workload.add_mended(mended);
            workload.naming = Naming::Free;
        }
        if spinner.one_in(SPINNER_ONE_IN) {
            workload.add_spinner(spinner);
        }
        if long.one_in(LONG_ONE_IN) {
            workload.add_long(long);
        }
        if hostile.one_in(HOSTILE_ONE_IN) {
            workload.add_hostile(hostile);
        }
        // A stable order: the order of generation decides among equal times.
        workload.calls.sort_by_key(|call| call.at_ms);
        workload
    }

    /// The instances that clients start, in the order of their first start.
    pub(crate) fn roots(&self) -> Vec<String> {
        let mut roots: Vec<String> = Vec::new();
        for call in &self.calls {
            if matches!(call.what, Send::Start { .. }) && !roots.contains(&call.instance) {
                roots.push(call.instance.clone());
            }
        }
        roots
    }

    /// Leaves out all calls about these roots.
    pub(crate) fn leave_out(&mut self, places: &[usize]) {
        let roots = self.roots();
        let left_out: Vec<&String> = places.iter().filter_map(|place| roots.get(*place)).collect();
        self.calls.retain(|call| !left_out.contains(&&call.instance));
    }

    pub(crate) fn name(&mut self, prefix: &str) -> String {
        self.numbered += 1;
        format!("{prefix}{}", self.numbered)
    }

    fn add_root(&mut self, rng: &mut Rng) {
        let id = self.new_id("root-");
        let program = self.program(rng, Reach::Known(&id), 0);
        self.start(rng, &id, program);
    }

    fn start(&mut self, rng: &mut Rng, id: &str, program: Program) {
        self.start_by(rng, id, program, CLIENT_TIME_MS / 2);
    }

    fn start_by(&mut self, rng: &mut Rng, id: &str, program: Program, by_ms: u64) {
        let at_ms = rng.range(0, by_ms);
        let version = program.version.clone();
        let input = Input::first(self.add_program(program)).to_json();
        self.calls.push(Call { at_ms, instance: id.to_string(), what: Send::Start { version, input } });
    }

    pub(crate) fn add_program(&mut self, program: Program) -> ProgramId {
        self.programs.push(program);
        self.programs.len() - 1
    }

    /// A program that kills every process that runs it, until it is poisoned.
    fn add_killer(&mut self, rng: &mut Rng) {
        self.kills = true;
        let id = self.new_id("killer-");
        let kill = if rng.one_in(2) {
            Step::Activity(Act::plain("kill".to_string(), Does::Kill, rng.range(0, 50)))
        } else {
            Step::KillTurn
        };
        let steps = vec![self.activity(rng), kill];
        let part = Part { steps, next_version: None };
        let program = Program { version: None, executions: vec![part], end: End::Return };
        let program = if rng.one_in(2) {
            let steps = vec![Step::Child { id: None, program: self.add_program(program) }];
            Program { version: None, executions: vec![Part { steps, next_version: None }], end: End::Return }
        } else {
            program
        };
        self.start(rng, &id, program);
    }

    /// A root that is deleted by force at any time, and perhaps started again under the same id.
    fn add_doomed(&mut self, rng: &mut Rng) {
        let id = self.name("doomed-");
        self.naming = Naming::None;
        for _ in 0..rng.range(1, 4) {
            let program = self.program(rng, Reach::Generated, 1);
            self.start_by(rng, &id, program, CLIENT_TIME_MS);
            let at_ms = rng.range(0, CLIENT_TIME_MS);
            self.calls.push(Call { at_ms, instance: id.clone(), what: Send::Delete });
        }
        self.naming = Naming::Free;
    }

    /// A root of many executions that is deleted once it has finished, asked for again and again.
    fn add_finishing(&mut self, rng: &mut Rng) {
        let id = self.name("finishing-");
        let parts =
            (0..rng.range(2, 8)).map(|_| Part { steps: vec![self.activity(rng)], next_version: None });
        let program = Program { version: None, executions: parts.collect(), end: End::Return };
        self.start_by(rng, &id, program, CLIENT_TIME_MS / 4);
        for _ in 0..rng.range(10, 60) {
            let at_ms = rng.range(0, CLIENT_TIME_MS);
            self.calls.push(Call { at_ms, instance: id.clone(), what: Send::DeleteFinished });
        }
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
        let mut kv: Vec<(String, Option<String>)> = Vec::new();
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
                if rng.one_in(4) {
                    steps.push(self.state_step(rng, reach, &mut kv));
                }
            }
            parts.push(Part { steps, next_version: self.version(rng) });
        }
        if let (Reach::Known(_), Some(part), true) = (reach, parts.last_mut(), rng.one_in(40)) {
            // More than a hundred that wait already, in one turn.
            read += 150;
            part.steps.push(Step::Dequeue { queue: queue.clone(), upto: read });
        }
        if let Reach::Known(id) = reach {
            self.fill_queue(rng, id, &queue, read);
        }
        let end = match rng.range(0, 10) {
            0 => End::Fail(self.name("program failed ")),
            1 => End::Panic(self.name("of program ")),
            _ => End::Return,
        };
        Program { version: self.version(rng), executions: parts, end }
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

    /// A step about the instance's own state, or another's. `kv` is what the store must hold by now.
    fn state_step(
        &mut self,
        rng: &mut Rng,
        reach: Reach<'_>,
        kv: &mut Vec<(String, Option<String>)>,
    ) -> Step {
        match rng.range(0, 6) {
            0 if !kv.is_empty() => {
                let at = usize::try_from(rng.next()).unwrap_or(0) % kv.len();
                kv[at].1 = None;
                Step::KvClear { key: kv[at].0.clone() }
            }
            1..3 if !kv.is_empty() => {
                let (key, value) = rng.pick(kv).clone();
                Step::KvGet { key, value }
            }
            3 => Step::Status { text: self.name("status ") },
            4 if !self.shared_keys.is_empty() => {
                let (instance, key) = rng.pick(&self.shared_keys).clone();
                Step::KvOf { value: format!("value of {key}"), instance, key }
            }
            _ => {
                let key = self.name("key ");
                let value = format!("value of {key}");
                kv.push((key.clone(), Some(value.clone())));
                if let Reach::Known(id) = reach {
                    self.shared_keys.push((id.to_string(), key.clone()));
                }
                Step::KvSet { key, value }
            }
        }
    }

    pub(crate) fn step(&mut self, rng: &mut Rng, reach: Reach<'_>, depth: u32) -> Step {
        match rng.range(0, 25) {
            21..23 => self.retry(rng),
            23..25 => self.within(rng),
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

    pub(crate) fn leaf(&mut self, rng: &mut Rng, reach: Reach<'_>, depth: u32) -> Step {
        match rng.range(0, 8) {
            0..4 => self.activity(rng),
            4 => timer(rng),
            5 => self.wait(rng, reach),
            6 => self.child(rng, depth),
            _ => Step::Guid,
        }
    }

    pub(crate) fn activity(&mut self, rng: &mut Rng) -> Step {
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
        let mut act = Act::plain(self.name("a"), does, ms);
        match rng.range(0, 12) {
            0 | 1 => act.session = Some(format!("session {}", rng.range(0, 3))),
            2 => act.tagged = true,
            3 => act.new = !self.old_release,
            _ => {}
        }
        Step::Activity(act)
    }

    fn retry(&mut self, rng: &mut Rng) -> Step {
        let mut act = Act::plain(self.name("a"), Does::Succeed, rng.range(0, 300));
        act.fails_first = u32::try_from(rng.range(0, 4)).unwrap_or(0);
        Step::Retry { act, attempts: u32::try_from(rng.range(1, 5)).unwrap_or(1) }
    }

    /// With deadlines that pass about as often as not.
    fn within(&mut self, rng: &mut Rng) -> Step {
        let act = Act::plain(self.name("a"), Does::Succeed, rng.range(0, 6_000));
        let to_start_ms = rng.one_in(2).then(|| rng.range(1, 2_000));
        let to_close_ms = (to_start_ms.is_none() || rng.one_in(2)).then(|| rng.range(1, 6_000));
        Step::Within { act, to_start_ms, to_close_ms }
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
            _ if self.naming == Naming::None => None,
            0..3 => None,
            // Somebody else's id: one of the two starts loses.
            5 if self.naming == Naming::Free => Some(rng.pick(&self.known_ids).clone()),
            _ => Some(self.new_id("child-")),
        };
        let reach = id.as_deref().map_or(Reach::Generated, Reach::Known);
        let program = self.program(rng, reach, depth + 1);
        let program = self.add_program(program);
        Step::Child { id, program }
    }

    /// A child with an id that is probably taken, given up at about the time when the answer comes.
    fn taken_child(&mut self, rng: &mut Rng, depth: u32) -> Step {
        if depth >= MAX_DEPTH || self.naming != Naming::Free {
            return self.activity(rng);
        }
        let id = rng.pick(&self.known_ids).clone();
        let program = self.program(rng, Reach::Known(&id), MAX_DEPTH);
        let program = self.add_program(program);
        let ms = if rng.one_in(2) { 0 } else { rng.range(0, 20) };
        let other = if rng.one_in(3) { Step::Now } else { Step::Timer { ms } };
        let child = Step::Child { id: Some(id), program };
        Step::First(Box::new(child), Box::new(other))
    }

    fn version(&self, rng: &mut Rng) -> Option<String> {
        let version = rng.one_in(3).then(|| *rng.pick(&VERSIONS))?;
        let is_old = VERSIONS[..OLD_VERSIONS].contains(&version);
        Some(if self.old_release && !is_old { VERSIONS[OLD_VERSIONS - 1] } else { version }.to_string())
    }

    fn detached(&mut self, rng: &mut Rng, depth: u32) -> Step {
        if depth >= MAX_DEPTH || self.naming == Naming::None {
            return timer(rng);
        }
        let taken = rng.one_in(5) && self.naming == Naming::Free;
        let id = if taken { rng.pick(&self.known_ids).clone() } else { self.new_id("detached-") };
        let program = self.program(rng, Reach::Known(&id), depth + 1);
        let program = self.add_program(program);
        Step::Detached { id, program }
    }
}

fn timer(rng: &mut Rng) -> Step {
    Step::Timer { ms: if rng.one_in(4) { rng.range(0, 20) } else { rng.range(20, 15_000) } }
}

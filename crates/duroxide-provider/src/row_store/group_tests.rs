//! Random calls on random rows: what a call that fails leaves behind, and what a group does that its calls do alone.
//!
//! The rules keep no rows, so that these tests need a store; this one has no other parts that could go wrong.

use std::collections::BTreeMap;
use std::time::Duration;

use duroxide_core::{
    AppErrorKind, BounceCause, ErrorDetails, Event, EventKind, ExecutionMetadata, ItemKind,
    ScheduledActivityIdentifier, WorkItem, limits, status,
};

use super::fetch::Found;
use super::tables::{Tables, mix};
use crate::fetch::{one_turn, one_work};
use crate::rules::values::{Ms, count};
use crate::rules::{
    Answer, Call, EncodedEvents, EncodedItem, EncodedRedrive, EncodedRepair, Fault, Rows, Stop, Token,
    TurnCommit, Wanted, Wish,
};
use crate::{GiveBack, RedriveInstance, RepairInstance, SessionFetchConfig, TagFilter};

const BEGIN: Ms = 1_700_000_000_000;
const LOCK: Duration = Duration::from_secs(30);
const INSTANCES: u64 = 4;
/// Sequences that a run tries. All of them take seconds in a debug build.
const SEEDS: u64 = 150;
const STEPS: usize = 60;

/// Draws numbers from a seed.
struct Rng {
    seed: u64,
    drawn: u64,
}

impl Rng {
    fn below(&mut self, bound: u64) -> u64 {
        self.drawn += 1;
        mix(self.seed, self.drawn) % bound
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn delay(&mut self) -> Option<Duration> {
        self.one_in(4).then(|| Duration::from_millis(self.below(2_000)))
    }
}

/// Rows, a time, and what the callers of the store know.
struct World {
    tables: Tables,
    now: Ms,
    rng: Rng,
    turns: Vec<Token>,
    work: Vec<Token>,
    happened: BTreeMap<String, u64>,
}

impl World {
    fn new(seed: u64) -> Self {
        let rng = Rng { seed: seed ^ 0x5EED, drawn: 0 };
        let tables = Tables { seed, now: Ms::MIN, ..Tables::default() };
        Self { tables, now: BEGIN, rng, turns: Vec::new(), work: Vec::new(), happened: BTreeMap::new() }
    }

    fn instance(&mut self) -> String {
        format!("i{}", self.rng.below(INSTANCES))
    }

    /// Time passes, and now and then the clock is set back.
    fn pass_time(&mut self) {
        let by = i64::try_from(self.rng.below(3_000)).expect("it is small");
        self.now = match self.rng.below(12) {
            0 => self.now - by,
            1 => self.now + by + 31_000,
            2..6 => self.now + by,
            _ => self.now,
        };
        self.tables.look_at_clock(self.now);
    }

    /// Locks something, as a fetch does.
    fn fetch(&mut self) {
        if self.rng.one_in(2) {
            let mut request = one_turn(LOCK, Duration::ZERO, None);
            request.max_items = 2;
            if let Found::Items(turns) = self.tables.fetch_turns(self.now, &request) {
                self.turns.extend(turns.iter().filter_map(|turn| Token::parse(&turn.lock_token).ok()));
            }
        } else {
            let session = SessionFetchConfig { owner_id: "o".to_string(), lock_timeout: LOCK };
            let mut request = one_work(LOCK, Duration::ZERO, Some(&session), &TagFilter::Any);
            request.max_items = 3;
            if let Found::Items(work) = self.tables.fetch_work(self.now, &request) {
                self.work.extend(work.iter().filter_map(|work| Token::parse(&work.lock_token).ok()));
            }
        }
    }

    fn turn_token(&mut self) -> Token {
        let place = self.turns.len().checked_sub(1 + usize::from(self.rng.one_in(5)));
        place.and_then(|place| self.turns.get(place).copied()).unwrap_or(Token { key: 1, nonce: 1 })
    }

    fn work_token(&mut self) -> Token {
        let place = self.work.len().checked_sub(1 + usize::from(self.rng.one_in(5)));
        place.and_then(|place| self.work.get(place).copied()).unwrap_or(Token { key: 1, nonce: 1 })
    }

    fn start(&mut self) -> WorkItem {
        let parent = self.rng.one_in(3).then(|| self.instance());
        let by_parent = parent.is_some();
        WorkItem::StartOrchestration {
            instance: self.instance(),
            orchestration: "O".to_string(),
            input: self.rng.below(2).to_string(),
            version: None,
            parent_id: by_parent.then(|| 2 + self.rng.below(3)),
            parent_execution_id: by_parent.then_some(1),
            parent_instance: parent,
            execution_id: 1,
        }
    }

    fn activity(&mut self) -> WorkItem {
        WorkItem::ActivityExecute {
            instance: self.instance(),
            execution_id: 1,
            id: 2 + self.rng.below(6),
            name: "A".to_string(),
            input: String::new(),
            session_id: self.rng.one_in(3).then(|| "s".to_string()),
            tag: None,
        }
    }

    fn message(&mut self) -> WorkItem {
        let instance = self.instance();
        match self.rng.below(7) {
            0 => self.start(),
            1 => WorkItem::CancelInstance { instance, reason: String::new() },
            2 => {
                let id = 2 + self.rng.below(6);
                WorkItem::ActivityCompleted { instance, execution_id: 1, id, result: String::new() }
            }
            3 => {
                let fire_at_ms = self.now.cast_unsigned() + self.rng.below(5_000);
                WorkItem::TimerFired { instance, execution_id: 1, id: 2 + self.rng.below(6), fire_at_ms }
            }
            4 => {
                let data = self.rng.below(1_000).to_string();
                WorkItem::ExternalRaised { instance, name: "E".to_string(), data }
            }
            _ => {
                let data = self.rng.below(1_000).to_string();
                WorkItem::QueueMessage { instance, name: "Q".to_string(), data }
            }
        }
    }

    fn encoded(item: WorkItem) -> EncodedItem {
        EncodedItem::new(item).expect("it has a stored form")
    }

    fn event(&mut self, instance: &str, event_id: u64) -> Event {
        let kind = match self.rng.below(5) {
            0 => EventKind::CustomStatusUpdated { status: Some("s".to_string()) },
            1 => EventKind::KeyValueSet {
                key: self.rng.below(2).to_string(),
                value: "v".to_string(),
                last_updated_at_ms: 1,
            },
            2 => EventKind::TimerCancelled { reason: String::new() },
            _ => EventKind::ActivityScheduled {
                name: "A".to_string(),
                input: String::new(),
                session_id: None,
                tag: None,
            },
        };
        let source = 2 + self.rng.below(6);
        Event::with_event_id(event_id, instance, 1, Some(source), kind)
    }

    fn commit(&mut self, token: Token) -> TurnCommit {
        let found = self.tables.instances.get(&token.key);
        let instance = found.map_or_else(|| "i0".to_string(), |one| one.row.instance.clone());
        let execution_id = found.map_or(1, |one| one.row.current_execution_id);
        let last = found.and_then(|one| one.current()).map_or(0, |one| one.row.last_event_id);
        // Now and then an event that is stored already.
        let first = last + 1 - u64::from(last > 0 && self.rng.one_in(10));
        let mut events: Vec<Event> =
            (first..first + self.rng.below(4)).map(|id| self.event(&instance, id)).collect();
        let mut metadata = ExecutionMetadata::default();
        match self.rng.below(8) {
            0 => metadata.status = Some(status::COMPLETED.to_string()),
            1 | 2 => {
                metadata.status = Some(status::FAILED.to_string());
                let details = ErrorDetails::Application {
                    kind: AppErrorKind::OrchestrationFailed,
                    message: String::new(),
                    retryable: false,
                };
                let details = if self.rng.one_in(2) { details } else { poison(&instance) };
                let next = events.last().map_or(first, |event| event.event_id + 1);
                let kind = EventKind::OrchestrationFailed { details };
                events.push(Event::with_event_id(next, &instance, execution_id, None, kind));
            }
            3 => metadata.status = Some(status::CONTINUED_AS_NEW.to_string()),
            _ => {}
        }
        let messages = (0..self.rng.below(4)).map(|_| self.message()).collect();
        let work = (0..self.rng.below(3)).map(|_| self.activity()).collect();
        let cancelled = (0..self.rng.below(3)).map(|_| ScheduledActivityIdentifier {
            instance: format!("i{}", self.rng.below(INSTANCES)),
            execution_id: 1,
            activity_id: 2 + self.rng.below(6),
        });
        let cancelled = cancelled.collect();
        TurnCommit::new(execution_id, events, work, messages, metadata, cancelled)
            .expect("it is right by itself")
    }

    fn give_back(&mut self) -> GiveBack {
        let cause = self.rng.one_in(3).then(|| BounceCause::ActivityNotRegistered { name: "A".to_string() });
        GiveBack { delay: self.rng.delay(), ignore_attempt: self.rng.one_in(2), cause }
    }

    fn redrive(&mut self) -> Call {
        let instance = self.instance();
        let found = self.tables.by_id(&instance);
        let failed_execution_id = found.map_or(1, |one| one.row.current_execution_id);
        let last_event_id = found.and_then(|one| one.current()).map_or(0, |one| one.row.last_event_id);
        let kept = found.map_or(0, |one| one.kept.len());
        let one = RedriveInstance {
            failed_execution_id,
            last_event_id,
            events: Vec::new(),
            pinned: None,
            activities: vec![self.activity()],
            messages: vec![self.message()],
            kept_seen: kept.saturating_sub(usize::from(self.rng.one_in(2))),
            instance,
        };
        Call::Redrive(vec![EncodedRedrive::new(one).expect("it is right by itself")])
    }

    fn repair(&mut self) -> Call {
        let instance = self.instance();
        // What a repair puts back names its schedule.
        let (execution_id, id, fire_at_ms) = (1, 2 + self.rng.below(6), self.now.cast_unsigned());
        let message = WorkItem::TimerFired { instance: instance.clone(), execution_id, id, fire_at_ms };
        let found = self.tables.by_id(&instance);
        let request = RepairInstance {
            execution_id: found.map_or(1, |one| one.row.current_execution_id),
            last_event_id: found.and_then(|one| one.current()).map_or(0, |one| one.row.last_event_id),
            activities: vec![self.activity()],
            messages: vec![message],
            note: WorkItem::QueueMessage {
                instance: instance.clone(),
                name: "note".to_string(),
                data: String::new(),
            },
            instance,
        };
        Call::Repair(Box::new(EncodedRepair::new(request).expect("it is right by itself")))
    }

    fn call(&mut self) -> Call {
        match self.rng.below(20) {
            0..=3 => {
                let token = self.turn_token();
                Call::AckTurn { token, commit: Box::new(self.commit(token)) }
            }
            4 => Call::GiveBackTurn { token: self.turn_token(), give_back: self.give_back() },
            5 => Call::RenewTurn { token: self.turn_token(), extend_for: LOCK },
            6 => {
                let completion = Self::encoded(WorkItem::ActivityCompleted {
                    instance: self.instance(),
                    execution_id: 1,
                    id: 2,
                    result: String::new(),
                });
                Call::AckWork { token: self.work_token(), completion: Some(completion) }
            }
            7 => Call::GiveBackWork { token: self.work_token(), give_back: self.give_back() },
            8 => Call::RenewWork { token: self.work_token(), extend_for: LOCK },
            9 => Call::Progress { token: self.work_token(), details: self.rng.below(9).to_string() },
            10 => Call::ForgiveAttempt { token: self.work_token() },
            11 => Call::EnqueueWork { item: Self::encoded(self.activity()) },
            12 => {
                let instance = self.instance();
                let last = self.tables.by_id(&instance).and_then(|one| one.current());
                let last = last.map_or(0, |execution| execution.row.last_event_id);
                let id = if self.rng.one_in(2) { 0 } else { last + 1 };
                let delta = EncodedEvents::new(vec![self.event(&instance, id)]).expect("a stored form");
                Call::Append { instance, execution_id: 1, delta }
            }
            13 => self.redrive(),
            14 => self.repair(),
            15 | 16 => Call::Enqueue { item: Self::encoded(self.start()), delay: None, answer: Wish::Told },
            _ => {
                let (item, delay) = (Self::encoded(self.message()), self.rng.delay());
                Call::Enqueue { item, delay, answer: Wish::Told }
            }
        }
    }

    fn count(&mut self, call: &Call, answer: &Result<Answer, Fault>) {
        let text = format!("{call:?}");
        let name = text.split([' ', '(']).next().unwrap_or_default();
        let how = if answer.is_ok() { "applied" } else { "failed" };
        *self.happened.entry(format!("{name} {how}")).or_default() += 1;
    }
}

fn poison(instance: &str) -> ErrorDetails {
    ErrorDetails::Poison {
        attempt_count: 11,
        max_attempts: 10,
        message_type: duroxide_core::PoisonMessageType::Orchestration {
            instance: instance.to_string(),
            execution_id: 1,
        },
        message: String::new(),
    }
}

/// Everything of the rows that must not change by a call that is not applied. The number of the call is left out.
fn state_of(rows: &Rows) -> String {
    let text = format!("{rows:?}");
    let mut state = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("changed_by: ") {
        state += before;
        rest = after.trim_start_matches(|digit: char| digit.is_ascii_digit());
    }
    let rest = state + rest;
    let (before, after) = rest.split_once("call_number: ").expect("rows count their calls");
    before.to_string() + after.trim_start_matches(|digit: char| digit.is_ascii_digit())
}

/// Applies a call, and looks at the rows around each attempt that is not applied.
fn apply_checked(
    tables: &Tables,
    rows: &mut Rows,
    call: &Call,
    last_key: &mut i64,
    seed: u64,
) -> Result<Answer, Fault> {
    for _ in 0..1_000 {
        let before = state_of(rows);
        match rows.apply(call) {
            Ok(answer) => return Ok(answer),
            Err(stop) => {
                let after = state_of(rows);
                assert_eq!(sorted(&before), sorted(&after), "seed {seed}: {stop:?} of {call:?}");
                match stop {
                    Stop::Fault(fault) => return Err(fault),
                    Stop::Need(need) => tables.tell(rows, need, last_key)?,
                }
            }
        }
    }
    panic!("seed {seed}: {call:?} asks for ever");
}

/// The parts of the text in an order of their own: hash maps have none.
fn sorted(text: &str) -> Vec<&str> {
    let mut parts: Vec<&str> = text.split([',', '{', '}', '[', ']', '(', ')']).map(str::trim).collect();
    parts.sort_unstable();
    parts
}

/// Tries random sequences; what happened in all of them.
fn try_all(step: impl Fn(&mut World, u64)) {
    let mut happened: BTreeMap<String, u64> = BTreeMap::new();
    for seed in 1..=SEEDS {
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            world.pass_time();
            world.fetch();
            step(&mut world, seed);
        }
        for (what, times) in world.happened {
            *happened.entry(what).or_default() += times;
        }
    }
    for call in [
        "AckTurn",
        "GiveBackTurn",
        "RenewTurn",
        "AckWork",
        "GiveBackWork",
        "RenewWork",
        "Progress",
        "ForgiveAttempt",
        "Append",
        "Redrive",
        "Repair",
        "Enqueue",
        "EnqueueWork",
    ] {
        assert!(happened.contains_key(&format!("{call} applied")), "{call} was never applied: {happened:#?}");
    }
    for call in ["AckTurn", "AckWork", "Append", "Redrive", "Repair"] {
        assert!(happened.contains_key(&format!("{call} failed")), "{call} never failed: {happened:#?}");
    }
}

#[test]
fn a_call_that_is_not_applied_leaves_the_rows_as_they_were() {
    try_all(|world, seed| {
        let calls: Vec<Call> = (0..=world.rng.below(3)).map(|_| world.call()).collect();
        // Of what a call asks for in advance, only what it would take for absent is told: everything else is a need.
        let mut rows = Rows::new(world.now);
        let mut wanted = Wanted::default();
        calls.iter().for_each(|call| call.wants(&mut wanted));
        wanted.ids.clear();
        wanted.reserved.clear();
        wanted.starts = 0;
        let mut last_key = world.tables.last_key;
        world.tables.load(&mut rows, &wanted, &mut last_key);
        for call in &calls {
            let answer = apply_checked(&world.tables, &mut rows, call, &mut last_key, seed);
            world.count(call, &answer);
        }
        world.tables.apply(world.now, &calls);
    });
}

/// The rows as text. Work items have numbers in their order: one that is queued and cancelled in a group never has one.
fn renumbered(tables: &Tables) -> String {
    let mut tables = tables.clone();
    let numbers: BTreeMap<i64, i64> = tables.work.keys().copied().zip(1..).collect();
    let work = std::mem::take(&mut tables.work).into_values().map(|mut work| {
        work.row.id = numbers[&work.row.id];
        (work.row.id, work)
    });
    tables.work = work.collect();
    tables.queued.values_mut().for_each(|id| *id = numbers[id]);
    tables.last_work = 0;
    format!("{tables:#?}")
}

/// Applies calls one by one and in a group, and compares the answers and the rows; the answers.
fn compare(tables: &mut Tables, now: Ms, calls: &[Call], name: &str) -> Vec<Result<Answer, Fault>> {
    let mut alone = tables.clone();
    let answers: Vec<_> =
        calls.iter().flat_map(|call| alone.apply(now, std::slice::from_ref(call))).collect();
    let together = tables.apply(now, calls);
    assert_eq!(answers, together, "{name}: {calls:#?}");
    alone.take_effects();
    tables.take_effects();
    let (alone, together) = (renumbered(&alone), renumbered(tables));
    if alone != together {
        let differs = alone.lines().zip(together.lines()).filter(|(one, other)| one != other);
        let differs: Vec<_> = differs.take(12).collect();
        panic!("{name}: {calls:#?}\n(one by one, in a group): {differs:#?}");
    }
    answers
}

#[test]
fn a_group_does_what_its_calls_do_one_by_one() {
    try_all(|world, seed| {
        let calls: Vec<Call> = (0..=world.rng.below(4)).map(|_| world.call()).collect();
        let answers = compare(&mut world.tables, world.now, &calls, &format!("seed {seed}"));
        for (call, answer) in calls.iter().zip(&answers) {
            world.count(call, answer);
        }
    });
}

fn start_of(instance: &str) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: instance.to_string(),
        orchestration: "O".to_string(),
        input: String::new(),
        version: None,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    }
}

fn event_for(instance: &str, data: &str) -> WorkItem {
    let (name, data) = ("E".to_string(), data.to_string());
    WorkItem::ExternalRaised { instance: instance.to_string(), name, data }
}

fn send(item: WorkItem) -> Call {
    Call::Enqueue { item: World::encoded(item), delay: None, answer: Wish::Told }
}

#[test]
fn an_early_message_and_its_start_in_one_group_reach_the_inbox() {
    let mut tables = Tables::default();
    tables.apply(BEGIN, &[send(event_for("i", "stored"))]);
    let group = [send(event_for("i", "new")), send(start_of("i")), send(event_for("i", "late"))];
    compare(&mut tables, BEGIN + 5, &group, "early");
    let inbox = &tables.by_id("i").expect("it was started").inbox;
    let kinds: Vec<_> = inbox.values().map(|message| message.kind).collect();
    assert_eq!(kinds, [ItemKind::Start, ItemKind::Event, ItemKind::Event, ItemKind::Event]);
    assert!(tables.early.is_empty());
}

#[test]
fn a_cancel_of_the_same_group_goes_ahead_of_a_deep_inbox() {
    let mut tables = Tables::default();
    tables.apply(BEGIN, &[send(start_of("i"))]);
    let fill: Vec<Call> = (0..limits::MAX_MESSAGES_PER_FETCH / 2).map(|_| send(event_for("i", ""))).collect();
    tables.apply(BEGIN + 1, &fill);
    let cancel = WorkItem::CancelInstance { instance: "i".to_string(), reason: String::new() };
    let mut group = fill;
    group.push(send(cancel));
    tables.apply(BEGIN + 2, &group);
    let instance = tables.by_id("i").expect("it was started");
    let first = instance.inbox.values().next().expect("much is in the inbox");
    assert_eq!(first.kind, ItemKind::Cancel);
    assert_eq!(instance.row.inbox_count, count(instance.inbox.len()));
}

#[test]
fn messages_that_came_while_the_clock_was_ahead_are_ready_when_a_turn_is_given_back() {
    let mut tables = Tables::default();
    tables.apply(BEGIN + 60_000, &[send(start_of("i")), send(event_for("i", "1"))]);
    let request = one_turn(LOCK, Duration::ZERO, None);
    let Found::Items(turns) = tables.fetch_turns(BEGIN + 60_000, &request) else { panic!("it is ready") };
    let token = Token::parse(&turns[0].lock_token).expect("a fetch gives tokens");
    tables.apply(BEGIN + 60_000, &[send(event_for("i", "2"))]);
    // The clock is set back by a minute.
    let give_back = GiveBack { delay: None, ignore_attempt: true, cause: None };
    let group = [send(event_for("i", "3")), Call::GiveBackTurn { token, give_back }];
    compare(&mut tables, BEGIN, &group, "set back");
    let row = &tables.by_id("i").expect("it was started").row;
    assert_eq!((row.ready_at, row.last_arrival), (Some(BEGIN), BEGIN));
    let Found::Items(turns) = tables.fetch_turns(BEGIN, &request) else { panic!("it is ready again") };
    let data: Vec<_> = turns[0].item.messages.iter().skip(1).cloned().collect();
    assert_eq!(data, [event_for("i", "1"), event_for("i", "2"), event_for("i", "3")]);
}

#[test]
fn an_event_that_the_group_kept_for_a_failed_instance_is_in_its_inbox_after_the_redrive() {
    let mut tables = Tables::default();
    tables.apply(BEGIN, &[send(start_of("i"))]);
    let request = one_turn(LOCK, Duration::ZERO, None);
    let Found::Items(turns) = tables.fetch_turns(BEGIN, &request) else { panic!("it is ready") };
    let token = Token::parse(&turns[0].lock_token).expect("a fetch gives tokens");
    let failed = EventKind::OrchestrationFailed { details: poison("i") };
    let metadata = ExecutionMetadata { status: Some(status::FAILED.to_string()), ..Default::default() };
    let events = vec![Event::with_event_id(1, "i", 1, None, failed)];
    let commit = TurnCommit::new(1, events, Vec::new(), Vec::new(), metadata, Vec::new()).expect("right");
    tables.apply(BEGIN, &[Call::AckTurn { token, commit: Box::new(commit) }]);
    let kept = tables.by_id("i").expect("it was started").kept.len();
    let redrive = RedriveInstance {
        instance: "i".to_string(),
        failed_execution_id: 1,
        last_event_id: 1,
        events: Vec::new(),
        pinned: None,
        activities: Vec::new(),
        messages: vec![start_of("i")],
        kept_seen: kept,
    };
    let redrive = Call::Redrive(vec![EncodedRedrive::new(redrive).expect("right")]);
    compare(&mut tables, BEGIN, &[send(event_for("i", "since")), redrive], "redrive");
    let inbox = &tables.by_id("i").expect("it was started").inbox;
    assert!(inbox.values().any(|message| message.json.contains("since")), "{inbox:?}");
}

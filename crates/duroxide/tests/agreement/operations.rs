//! The calls that a sequence is made of.

use proptest::collection::vec;
use proptest::prelude::*;

/// One call, or something done to both stores. Small numbers name instances, tokens and the like.
#[derive(Debug, Clone)]
pub(crate) enum Operation {
    Start { instance: u8, parent: Option<u8>, version: bool, delay: Option<u16> },
    Send { message: Message, delay: Option<u16> },
    Turn(TurnCall),
    Work(WorkCall),
    Node(NodeCall),
    Unlocked(UnlockedCall),
    Disturb(Disturbance),
    Look,
}

/// A call about turns.
#[derive(Debug, Clone)]
pub(crate) enum TurnCall {
    Fetch { lock: u16, filter: u8, handlers: Option<u8>, max_items: usize, suspects: usize, holding: bool },
    FetchPlain { lock: u16, filter: u8 },
    Ack { token: Which, commit: Commit },
    Abandon { token: Which, delay: Option<u16>, ignore_attempt: bool, cause: u8 },
    Renew { token: Which, extend: u16 },
}

/// A call about work items and their sessions.
#[derive(Debug, Clone)]
pub(crate) enum WorkCall {
    Queue {
        work: Work,
    },
    Fetch {
        lock: u16,
        session: Option<(u8, u16)>,
        limits: (u8, bool),
        tags: u8,
        activities: Option<u8>,
        max_items: usize,
        suspects: usize,
    },
    Ack {
        token: Which,
        completion: Completion,
    },
    Abandon {
        token: Which,
        delay: Option<u16>,
        ignore_attempt: bool,
        cause: u8,
    },
    Renew {
        token: Which,
        extend: u16,
    },
    Progress {
        token: Which,
        details: u8,
    },
    Forgive {
        token: Which,
    },
    Lost,
    RenewSessions {
        owners: Vec<u8>,
        extend: u16,
        idle: u16,
    },
    CleanupSessions,
}

/// A call about nodes.
#[derive(Debug, Clone)]
pub(crate) enum NodeCall {
    Beat { node: u8, start: u8, handlers: u8, filter: u8, heartbeat: u16 },
    Leave { node: u8 },
    SweepTurns { lock: u16, end_after: u16, max_items: usize },
    SweepWork { lock: u16, end_after: u16, max_items: usize },
}

/// A call that needs no lock.
#[derive(Debug, Clone)]
pub(crate) enum UnlockedCall {
    Append { instance: u8, execution_id: u64, events: Vec<Happening>, numbered: bool },
    DeleteInstance { instance: u8, force: bool },
    DeleteSeveral { instances: Vec<u8>, force: bool },
    DeleteBulk { filter: Filter },
    Prune { instance: u8, keep_last: Option<u32>, before: Option<u16> },
    PruneBulk { filter: Filter, keep_last: Option<u32>, before: Option<u16> },
    Redrive { instances: Vec<Redrive> },
}

/// One instance that is to go on.
#[derive(Debug, Clone)]
pub(crate) struct Redrive {
    pub(crate) of: RedriveOf,
    pub(crate) seen: Seen,
    pub(crate) anew: bool,
    pub(crate) pinned: bool,
    pub(crate) work: Vec<Work>,
    /// How many of the kept messages came after the caller had looked.
    pub(crate) unseen: usize,
}

/// Which instance is to go on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RedriveOf {
    Named(u8),
    /// One of those that have failed, if there are any.
    Failed(u8),
}

/// What the caller has seen of it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Seen {
    AsItIs,
    /// Refused.
    Otherwise,
}

/// What no provider method does: damage, time, a new process.
#[derive(Debug, Clone)]
pub(crate) enum Disturbance {
    CorruptHistory { instance: u8 },
    CorruptMessages { instance: u8, kind: u8 },
    CorruptWork { instance: u8 },
    Advance { ms: u32 },
    Reopen,
}

/// Which of the tokens given out so far, stale ones included.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Which {
    Latest,
    Any(u8),
    Nonsense,
}

/// A message of any kind but a start.
#[derive(Debug, Clone)]
pub(crate) enum Message {
    Event {
        instance: u8,
        data: u8,
    },
    Queue {
        instance: u8,
        data: u8,
    },
    Cancel {
        instance: u8,
    },
    Completed {
        instance: u8,
        execution_id: u64,
        id: u64,
    },
    ChildFailed {
        instance: u8,
        id: u64,
    },
    Timer {
        instance: u8,
        id: u64,
        due_in: i32,
    },
    /// Refused.
    Activity {
        instance: u8,
    },
    /// Refused.
    Nameless,
}

#[derive(Debug, Clone)]
pub(crate) struct Work {
    pub(crate) instance: u8,
    pub(crate) id: u64,
    pub(crate) session: Option<u8>,
    pub(crate) tag: Option<u8>,
    /// Whether the program gave it a deadline.
    pub(crate) within: bool,
}

/// An event that a turn may append.
#[derive(Debug, Clone)]
pub(crate) enum Happening {
    /// What began, or that it is something that nobody has.
    Started(Option<u8>),
    Scheduled,
    CustomStatus(Option<u8>),
    Set(u8, u8),
    Clear(u8),
    ClearAll,
    TimerCancelled(u64),
    TimerCreated,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Silent,
    Running,
    Completed,
    Failed,
    /// A failure after which the instance may go on.
    Poisoned,
    ContinuedAsNew,
    /// Refused.
    Unknown,
}

#[derive(Debug, Clone)]
pub(crate) struct Commit {
    pub(crate) happenings: Vec<Happening>,
    /// Begins with an event that is stored already, if there is one.
    pub(crate) repeats: bool,
    pub(crate) work: Vec<Work>,
    pub(crate) messages: Vec<Message>,
    pub(crate) puts_back: u8,
    pub(crate) starts: Vec<(u8, bool)>,
    pub(crate) outcome: Outcome,
    pub(crate) pinned: Option<u8>,
    pub(crate) parent: Option<u8>,
    pub(crate) cancelled: Vec<(u8, u64)>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Completion {
    None,
    Right,
    ForAnother(u8),
    /// Refused.
    Wrong,
}

#[derive(Debug, Clone)]
pub(crate) struct Filter {
    pub(crate) instances: Option<Vec<u8>>,
    pub(crate) before: Option<u16>,
    pub(crate) limit: Option<u32>,
}

/// How many instances there are.
pub(crate) const INSTANCES: u8 = 5;

fn instance() -> impl Strategy<Value = u8> {
    0..INSTANCES
}

fn delay() -> impl Strategy<Value = Option<u16>> {
    prop_oneof![4 => Just(None), 1 => (0_u16..60).prop_map(Some)]
}

fn which() -> impl Strategy<Value = Which> {
    prop_oneof![8 => Just(Which::Latest), 5 => any::<u8>().prop_map(Which::Any), 1 => Just(Which::Nonsense)]
}

fn id() -> impl Strategy<Value = u64> {
    2_u64..7
}

fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        6 => (instance(), any::<u8>()).prop_map(|(instance, data)| Message::Event { instance, data }),
        4 => (instance(), any::<u8>()).prop_map(|(instance, data)| Message::Queue { instance, data }),
        2 => instance().prop_map(|instance| Message::Cancel { instance }),
        3 => (instance(), 1_u64..3, id())
            .prop_map(|(instance, execution_id, id)| Message::Completed { instance, execution_id, id }),
        1 => (instance(), id()).prop_map(|(instance, id)| Message::ChildFailed { instance, id }),
        4 => (instance(), id(), -20_i32..60)
            .prop_map(|(instance, id, due_in)| Message::Timer { instance, id, due_in }),
    ]
}

fn refused_too() -> impl Strategy<Value = Message> {
    prop_oneof![
        30 => message(),
        1 => instance().prop_map(|instance| Message::Activity { instance }),
        1 => Just(Message::Nameless),
    ]
}

fn work() -> impl Strategy<Value = Work> {
    let route = (proptest::option::weighted(0.6, 0_u8..3), proptest::option::weighted(0.2, 0_u8..2));
    (instance(), id(), route, proptest::bool::weighted(0.3))
        .prop_map(|(instance, id, (session, tag), within)| Work { instance, id, session, tag, within })
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        2 => proptest::option::weighted(0.8, instance()).prop_map(Happening::Started),
        4 => Just(Happening::Scheduled),
        2 => proptest::option::weighted(0.8, any::<u8>()).prop_map(Happening::CustomStatus),
        3 => (0_u8..3, any::<u8>()).prop_map(|(key, value)| Happening::Set(key, value)),
        1 => (0_u8..3).prop_map(Happening::Clear),
        1 => Just(Happening::ClearAll),
        2 => id().prop_map(Happening::TimerCancelled),
        2 => Just(Happening::TimerCreated),
    ]
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        8 => Just(Outcome::Silent),
        8 => Just(Outcome::Running),
        2 => Just(Outcome::Completed),
        2 => Just(Outcome::Failed),
        3 => Just(Outcome::Poisoned),
        4 => Just(Outcome::ContinuedAsNew),
    ]
}

fn commit() -> impl Strategy<Value = Commit> {
    let sends = (
        vec(work(), 0..3),
        vec(message(), 0..3),
        prop_oneof![3 => Just(0_u8), 1 => 1_u8..4],
        vec((instance(), any::<bool>()), 0..2),
    );
    let metadata = (
        outcome(),
        proptest::option::weighted(0.4, 0_u8..4),
        proptest::option::weighted(0.03, instance()),
        vec((instance(), id()), 0..2),
    );
    (vec(happening(), 0..4), sends, metadata).prop_map(
        |(happenings, (work, messages, puts_back, starts), (outcome, pinned, parent, cancelled))| Commit {
            happenings,
            repeats: false,
            work,
            messages,
            puts_back,
            starts,
            outcome,
            pinned,
            parent,
            cancelled,
        },
    )
}

/// A commit that is refused for one of its parts.
fn wrong_commit() -> impl Strategy<Value = Commit> {
    (commit(), 0_u8..3).prop_map(|(mut commit, fault)| {
        match fault {
            0 => commit.repeats = true,
            1 => commit.messages.push(Message::Nameless),
            _ => commit.outcome = Outcome::Unknown,
        }
        commit
    })
}

fn filter() -> impl Strategy<Value = Filter> {
    let instances = proptest::option::weighted(0.5, vec(0..INSTANCES + 1, 0..4));
    let limit = proptest::option::weighted(0.4, 0_u32..3);
    (instances, proptest::option::weighted(0.3, 0_u16..100), limit)
        .prop_map(|(instances, before, limit)| Filter { instances, before, limit })
}

fn some_handlers() -> impl Strategy<Value = Option<u8>> {
    proptest::option::weighted(0.4, any::<u8>())
}

fn node_call() -> impl Strategy<Value = NodeCall> {
    let beat = (0_u8..4, 0_u8..2, any::<u8>(), 0_u8..6, 0_u16..40);
    prop_oneof![
        4 => beat.prop_map(|(node, start, handlers, filter, heartbeat)| NodeCall::Beat {
            node, start, handlers, filter, heartbeat
        }),
        1 => (0_u8..4).prop_map(|node| NodeCall::Leave { node }),
        3 => (1_u16..150, 0_u16..15, 1_usize..4).prop_map(|(lock, end_after, max_items)| {
            NodeCall::SweepTurns { lock, end_after, max_items }
        }),
        2 => (1_u16..150, 0_u16..15, 1_usize..4).prop_map(|(lock, end_after, max_items)| {
            NodeCall::SweepWork { lock, end_after, max_items }
        }),
    ]
}

fn turn_call() -> impl Strategy<Value = TurnCall> {
    let fetch = (1_u16..150, 0_u8..9, some_handlers(), 1_usize..4, 0_usize..4, any::<bool>());
    prop_oneof![
        10 => fetch.prop_map(|(lock, filter, handlers, max_items, suspects, holding)| TurnCall::Fetch {
            lock, filter, handlers, max_items, suspects, holding
        }),
        4 => (1_u16..150, 0_u8..9).prop_map(|(lock, filter)| TurnCall::FetchPlain { lock, filter }),
        12 => (which(), commit()).prop_map(|(token, commit)| TurnCall::Ack { token, commit }),
        2 => (which(), wrong_commit()).prop_map(|(token, commit)| TurnCall::Ack { token, commit }),
        4 => (which(), delay(), any::<bool>(), 0_u8..8)
            .prop_map(|(token, delay, ignore_attempt, cause)| TurnCall::Abandon { token, delay, ignore_attempt, cause }),
        2 => (which(), 1_u16..60).prop_map(|(token, extend)| TurnCall::Renew { token, extend }),
    ]
}

fn work_call() -> impl Strategy<Value = WorkCall> {
    let session = proptest::option::weighted(0.8, (0_u8..2, 1_u16..80));
    let limits = (0_u8..5, any::<bool>());
    let routing = (0_u8..6, some_handlers());
    let fetch = (1_u16..150, session, limits, routing, 1_usize..4, 0_usize..4);
    let completion = prop_oneof![
        1 => Just(Completion::None),
        6 => Just(Completion::Right),
        1 => instance().prop_map(Completion::ForAnother),
        2 => Just(Completion::Wrong),
    ];
    prop_oneof![
        5 => work().prop_map(|work| WorkCall::Queue { work }),
        8 => fetch.prop_map(|(lock, session, limits, (tags, activities), max_items, suspects)| WorkCall::Fetch {
            lock, session, limits, tags, activities, max_items, suspects
        }),
        4 => (which(), completion).prop_map(|(token, completion)| WorkCall::Ack { token, completion }),
        3 => (which(), delay(), any::<bool>(), 0_u8..8)
            .prop_map(|(token, delay, ignore_attempt, cause)| WorkCall::Abandon { token, delay, ignore_attempt, cause }),
        2 => (which(), 1_u16..60).prop_map(|(token, extend)| WorkCall::Renew { token, extend }),
        3 => (which(), any::<u8>()).prop_map(|(token, details)| WorkCall::Progress { token, details }),
        2 => which().prop_map(|token| WorkCall::Forgive { token }),
        1 => Just(WorkCall::Lost),
        2 => (vec(0_u8..3, 0..3), 1_u16..80, 0_u16..60)
            .prop_map(|(owners, extend, idle)| WorkCall::RenewSessions { owners, extend, idle }),
        1 => Just(WorkCall::CleanupSessions),
    ]
}

/// Mostly of one that has failed and is as it was seen.
fn redrive() -> impl Strategy<Value = Redrive> {
    let of = prop_oneof![
        3 => (0..INSTANCES).prop_map(RedriveOf::Failed),
        1 => (0..INSTANCES + 1).prop_map(RedriveOf::Named),
    ];
    let seen = prop_oneof![9 => Just(Seen::AsItIs), 1 => Just(Seen::Otherwise)];
    let unseen = prop_oneof![2 => Just(0), 1 => 1_usize..3];
    (of, seen, proptest::bool::weighted(0.3), any::<bool>(), vec(work(), 0..2), unseen)
        .prop_map(|(of, seen, anew, pinned, work, unseen)| Redrive { of, seen, anew, pinned, work, unseen })
}

fn unlocked_call() -> impl Strategy<Value = UnlockedCall> {
    let keep = || proptest::option::weighted(0.5, 0_u32..3);
    let before = || proptest::option::weighted(0.3, 0_u16..100);
    let some = || 0..INSTANCES + 1;
    let force = || proptest::bool::weighted(0.7);
    prop_oneof![
        3 => (instance(), 1_u64..4, vec(happening(), 0..3), any::<bool>()).prop_map(
            |(instance, execution_id, events, numbered)| {
                UnlockedCall::Append { instance, execution_id, events, numbered }
            }
        ),
        2 => (some(), force()).prop_map(|(instance, force)| UnlockedCall::DeleteInstance { instance, force }),
        2 => (vec(some(), 0..4), force())
            .prop_map(|(instances, force)| UnlockedCall::DeleteSeveral { instances, force }),
        1 => filter().prop_map(|filter| UnlockedCall::DeleteBulk { filter }),
        2 => (some(), keep(), before())
            .prop_map(|(instance, keep_last, before)| UnlockedCall::Prune { instance, keep_last, before }),
        1 => (filter(), keep(), before())
            .prop_map(|(filter, keep_last, before)| UnlockedCall::PruneBulk { filter, keep_last, before }),
        8 => prop_oneof![8 => vec(redrive(), 1..2), 1 => vec(redrive(), 2..4)]
            .prop_map(|instances| UnlockedCall::Redrive { instances }),
    ]
}

fn disturbance() -> impl Strategy<Value = Disturbance> {
    // Mostly moments; now and then so long that early messages expire.
    let time = prop_oneof![20 => 0_u32..40, 1 => Just(604_800_001_u32)];
    prop_oneof![
        12 => time.prop_map(|ms| Disturbance::Advance { ms }),
        2 => instance().prop_map(|instance| Disturbance::CorruptHistory { instance }),
        4 => (instance(), 1_u8..8)
            .prop_map(|(instance, kind)| Disturbance::CorruptMessages { instance, kind }),
        1 => instance().prop_map(|instance| Disturbance::CorruptWork { instance }),
        1 => Just(Disturbance::Reopen),
    ]
}

/// `work` is how often a call about work items comes among the others.
fn operation(work: u32) -> impl Strategy<Value = Operation> {
    let start = (instance(), proptest::option::weighted(0.4, instance()), any::<bool>(), delay());
    prop_oneof![
        6 => start.prop_map(|(instance, parent, version, delay)| {
            Operation::Start { instance, parent, version, delay }
        }),
        12 => (refused_too(), delay()).prop_map(|(message, delay)| Operation::Send { message, delay }),
        26 => turn_call().prop_map(Operation::Turn),
        work => work_call().prop_map(Operation::Work),
        6 => unlocked_call().prop_map(Operation::Unlocked),
        6 => node_call().prop_map(Operation::Node),
        10 => disturbance().prop_map(Operation::Disturb),
        1 => Just(Operation::Look),
    ]
}

/// A sequence of calls. Every third is mostly about work items: sessions need many calls to become interesting.
pub(crate) fn sequence() -> impl Strategy<Value = Vec<Operation>> {
    prop_oneof![2 => vec(operation(12), 1..250), 1 => vec(operation(150), 1..250)]
}

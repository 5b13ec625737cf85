//! Runs a program turn by turn, and every turn twice: on the execution held in memory and on a replay from the
//! first event. Both must give the same turn.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

use duroxide_core::{
    Before, Event, EventKind, Execution, KvAnswer, KvChange, KvEntry, KvQuestion, OrchestrationHandler,
    Outcome, Turn, TurnInput, TurnResult, WorkItem, run_turn, run_turn_with, state_changes,
};

use crate::build::{INSTANCE, VERSION};

/// Which execution goes on after a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// The one that has been in memory since the first turn.
    Live,
    /// The one that was just replayed.
    Replayed,
    /// None: the next turn has to replay.
    Nothing,
}

pub(crate) struct Driver {
    handler: Arc<dyn OrchestrationHandler>,
    execution_id: u64,
    held: Option<Box<Execution>>,
    pub(crate) history: Vec<Event>,
    pub(crate) turns: Vec<Turn>,
    /// Every message so far, in order.
    sent: Vec<WorkItem>,
    now_ms: u64,
    /// What the store's KV table would hold.
    pub(crate) kv: BTreeMap<String, KvEntry>,
    /// The same before the first turn.
    kv_before: BTreeMap<String, KvEntry>,
    answer: fn(&KvQuestion) -> KvAnswer,
}

impl Driver {
    pub(crate) fn new(handler: Arc<dyn OrchestrationHandler>) -> Self {
        Self {
            handler,
            execution_id: 1,
            held: None,
            history: Vec::new(),
            turns: Vec::new(),
            sent: Vec::new(),
            now_ms: 1_000,
            kv: BTreeMap::new(),
            kv_before: BTreeMap::new(),
            answer: |_| Ok(None),
        }
    }

    /// Answers what the program asks about other instances.
    pub(crate) fn answering(mut self, answer: fn(&KvQuestion) -> KvAnswer) -> Self {
        self.answer = answer;
        self
    }

    /// The next execution of the same instance, with an empty history.
    pub(crate) fn next_execution(&self) -> Self {
        let mut next = Self::new(self.handler.clone());
        next.execution_id = self.execution_id + 1;
        next.now_ms = self.now_ms;
        next.kv.clone_from(&self.kv);
        next.kv_before.clone_from(&self.kv);
        next.answer = self.answer;
        next
    }

    /// The same under other code.
    pub(crate) fn with_handler(mut self, handler: Arc<dyn OrchestrationHandler>) -> Self {
        self.handler = handler;
        self
    }

    /// The next turn has to replay.
    pub(crate) fn forget(&mut self) {
        self.held = None;
    }

    /// Starts from a history written by hand.
    pub(crate) fn with_history(mut self, history: Vec<Event>) -> Self {
        self.history = history;
        self
    }

    fn input(&self, messages: Vec<WorkItem>) -> TurnInput {
        TurnInput {
            instance: INSTANCE.to_string(),
            execution_id: self.execution_id,
            now_ms: self.now_ms,
            entropy: u128::from(self.now_ms) * 0x9e37_79b9,
            messages,
            kv: self.kv.clone(),
        }
    }

    fn replay(&self, messages: Vec<WorkItem>) -> TurnResult {
        let before = Before::Stored {
            handler: self.handler.clone(),
            version: VERSION.to_string(),
            history: &self.history,
        };
        run_turn_with(before, self.input(messages), self.answer)
    }

    /// One turn at the time given, which may also lie in the past.
    pub(crate) fn turn_at(&mut self, now_ms: u64, messages: Vec<WorkItem>, keep: Keep) -> &Turn {
        self.now_ms = now_ms;
        // In the order in which they count: the first cancel comes before whatever is fetched with it.
        let cancel = messages.iter().position(is_cancel);
        self.sent.extend(cancel.map(|index| messages[index].clone()));
        let others = messages.iter().enumerate().filter(|(index, _)| Some(*index) != cancel);
        self.sent.extend(others.map(|(_, message)| message.clone()));
        let replayed = self.replay(messages.clone());
        let live = match self.held.take() {
            Some(held) => run_turn_with(Before::Held(held), self.input(messages), self.answer),
            None => self.replay(messages),
        };
        assert_eq!(live.turn, replayed.turn, "a live execution and a replay differ");
        assert_eq!(live.execution.is_some(), live.turn.outcome == Outcome::Waiting);
        self.history.extend(live.turn.events.iter().cloned());
        self.apply_kv(&live.turn);
        if let Some(execution) = &live.execution {
            assert_eq!(Some(execution.last_event_id()), self.history.last().map(Event::event_id));
        }
        self.held = match keep {
            Keep::Live => live.execution,
            Keep::Replayed => replayed.execution,
            Keep::Nothing => None,
        };
        check_history(&self.history);
        self.turns.push(live.turn);
        self.turns.last().expect("a turn was just pushed")
    }

    /// What a store does with the events of a turn.
    fn apply_kv(&mut self, turn: &Turn) {
        for change in state_changes(&turn.events).kv {
            match change {
                KvChange::Set { key, value, last_updated_at_ms } => {
                    let entry = KvEntry { value: value.to_string(), last_updated_at_ms };
                    self.kv.insert(key.to_string(), entry);
                }
                KvChange::Clear { key } => {
                    self.kv.remove(key);
                }
                KvChange::ClearAll => self.kv.clear(),
            }
        }
    }

    pub(crate) fn turn(&mut self, messages: Vec<WorkItem>) -> &Turn {
        self.turn_at(self.now_ms + 1_000, messages, Keep::Live)
    }

    /// One turn per message.
    pub(crate) fn send(&mut self, messages: Vec<WorkItem>) -> &Turn {
        for message in messages {
            self.turn(vec![message]);
        }
        self.last()
    }

    pub(crate) fn last(&self) -> &Turn {
        self.turns.last().expect("a turn has been run")
    }

    pub(crate) fn worker_items(&self) -> Vec<&WorkItem> {
        self.turns.iter().flat_map(|turn| &turn.worker_items).collect()
    }

    pub(crate) fn orchestrator_items(&self) -> Vec<&WorkItem> {
        self.turns.iter().flat_map(|turn| &turn.orchestrator_items).collect()
    }

    /// All messages in one turn give the same events in the same order. A cancel begins a turn of its own: it comes
    /// before whatever is fetched with it.
    pub(crate) fn check_batching(&self) {
        let mut all = Self::new(self.handler.clone());
        all.execution_id = self.execution_id;
        all.kv.clone_from(&self.kv_before);
        all.answer = self.answer;
        let cancel = self.sent.iter().position(is_cancel).unwrap_or(self.sent.len());
        for batch in [&self.sent[..cancel], &self.sent[cancel..]] {
            if !batch.is_empty() {
                all.turn(batch.to_vec());
            }
        }
        assert_eq!(timeless(&all.history), timeless(&self.history), "the history depends on the batches");
        let mut single = Self::new(self.handler.clone());
        single.execution_id = self.execution_id;
        single.kv.clone_from(&self.kv_before);
        single.answer = self.answer;
        for message in &self.sent {
            single.turn_at(1_000, vec![message.clone()], Keep::Nothing);
        }
        assert_eq!(timeless(&single.history), timeless(&self.history), "the history depends on the batches");
    }

    pub(crate) fn render_history(&self) -> String {
        render_events(&self.history)
    }
}

fn is_cancel(message: &WorkItem) -> bool {
    matches!(message, WorkItem::CancelInstance { .. })
}

/// One line per event, without what is the same in all of them.
pub(crate) fn render_events(events: &[Event]) -> String {
    let mut text = String::new();
    for event in events {
        let source = event.source_event_id.map_or(String::new(), |id| format!(" <- {id}"));
        let mut kind = format!("{:?}", event.kind);
        if let EventKind::OrchestrationStarted { input, .. } = &event.kind {
            kind = format!("OrchestrationStarted {{ input: {input:?} }}");
        }
        writeln!(text, "{}{source} {kind}", event.event_id).expect("a string takes everything");
    }
    text
}

/// The events without the times and random values of their turns.
fn timeless(events: &[Event]) -> Vec<(Option<u64>, EventKind)> {
    let is_syscall = |id: Option<u64>| {
        let asked = id.and_then(|id| events.get(usize::try_from(id - 1).expect("ids are small")));
        asked.is_some_and(|event| {
            matches!(&event.kind, EventKind::ActivityScheduled { name, .. } if name.starts_with("__duroxide"))
        })
    };
    let reads_time = events.iter().any(|event| is_syscall(Some(event.event_id)));
    let timeless_kind = |event: &Event| {
        let mut kind = event.kind.clone();
        if let EventKind::TimerCreated { fire_at_ms } = &mut kind {
            *fire_at_ms = 0;
        } else if let EventKind::KeyValueSet { last_updated_at_ms, .. } = &mut kind {
            *last_updated_at_ms = 0;
        } else if let EventKind::ActivityCompleted { result } = &mut kind
            && is_syscall(event.source_event_id)
        {
            result.clear();
        } else if let EventKind::OrchestrationCompleted { output } = &mut kind
            && reads_time
        {
            output.clear();
        }
        kind
    };
    events.iter().map(|event| (event.source_event_id, timeless_kind(event))).collect()
}

/// What holds for every history.
pub(crate) fn check_history(history: &[Event]) {
    let mut answered = BTreeSet::new();
    let mut last_timestamp = 0;
    for (position, event) in (1..).zip(history) {
        assert_eq!(event.event_id, position, "event ids are dense from 1");
        assert!(event.timestamp_ms >= last_timestamp, "timestamps never decrease");
        last_timestamp = event.timestamp_ms;
        let is_last = position == u64::try_from(history.len()).expect("a length fits");
        assert!(!event.is_terminal() || is_last, "the one terminal event is the last event");
        let is_completion = matches!(
            event.kind,
            EventKind::ActivityCompleted { .. }
                | EventKind::ActivityFailed { .. }
                | EventKind::TimerFired { .. }
                | EventKind::SubOrchestrationCompleted { .. }
                | EventKind::SubOrchestrationFailed { .. }
        );
        if is_completion {
            let source = event.source_event_id.expect("a completion answers an event");
            assert!(source < event.event_id, "a completion follows its schedule");
            assert!(answered.insert(source), "one completion per schedule");
        }
    }
}

/// One turn from a stored history, without the driver's checks.
pub(crate) fn run_once(
    handler: Arc<dyn OrchestrationHandler>,
    history: &[Event],
    messages: Vec<WorkItem>,
) -> TurnResult {
    let input = TurnInput {
        instance: INSTANCE.to_string(),
        execution_id: 1,
        now_ms: 1,
        entropy: 1,
        messages,
        kv: BTreeMap::new(),
    };
    run_turn(Before::Stored { handler, version: VERSION.to_string(), history }, input)
}

/// Runs the messages one per turn after a start, checks batching, and gives the driver.
pub(crate) fn run(handler: Arc<dyn OrchestrationHandler>, messages: Vec<WorkItem>) -> Driver {
    let mut driver = Driver::new(handler);
    driver.send(std::iter::once(crate::build::start("")).chain(messages).collect());
    driver.check_batching();
    driver
}

/// The same, and compares the whole history.
pub(crate) fn check(
    handler: Arc<dyn OrchestrationHandler>,
    messages: Vec<WorkItem>,
    history: expect_test::Expect,
) -> Driver {
    let driver = run(handler, messages);
    history.assert_eq(&driver.render_history());
    driver
}

pub(crate) fn output(turn: &Turn) -> &str {
    let Outcome::Completed { output } = &turn.outcome else {
        panic!("the execution has not completed: {:?}", turn.outcome)
    };
    output
}

pub(crate) fn failure(turn: &Turn) -> String {
    let Outcome::Failed { details } = &turn.outcome else {
        panic!("the execution has not failed: {:?}", turn.outcome)
    };
    details.display_message()
}

//! One client's calls on a store, with answers as texts that two stores share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{
    ExecutionMetadata, FetchedTurn, FetchedWork, HandlerSet, HandlerVersions, NothingHeld, Provider,
    ProviderError, SessionLimits, SessionOverlap, Suspects, TagFilter, TurnRequest, WorkItem, WorkRequest,
};
use duroxide::{Event, EventKind, OrchestrationStatus};
use semver::Version;

use super::calls::{Call, TurnEnd};

/// What one client knows.
pub(crate) struct Session {
    client: usize,
    store: Arc<dyn Provider>,
    turn: Option<FetchedTurn>,
    work: Option<FetchedWork>,
    /// Activities that this client has scheduled.
    scheduled: u64,
}

/// What a fetch may take: anything, or one thing alone.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Takes<'a> {
    Anything,
    /// Whatever the handler of this name runs: one instance, or one activity.
    Only(&'a str),
}

pub(crate) fn instance_name(instance: u64) -> String {
    format!("instance {instance}")
}

impl Session {
    pub(crate) fn new(client: usize, store: Arc<dyn Provider>) -> Self {
        Self { client, store, turn: None, work: None, scheduled: 0 }
    }

    pub(crate) async fn make(&mut self, call: &Call) -> String {
        self.make_taking(call, Takes::Anything).await
    }

    /// Makes the call. A fetch takes only what it may.
    pub(crate) async fn make_taking(&mut self, call: &Call, takes: Takes<'_>) -> String {
        match call {
            Call::Start { instance } => self.send(start(*instance)).await,
            Call::Raise { instance, data } => self.send(event(*instance, *data)).await,
            Call::Cancel { instance } => {
                let instance = instance_name(*instance);
                self.send(WorkItem::CancelInstance { instance, reason: "enough".to_string() }).await
            }
            Call::FetchTurn => self.fetch_turn(takes).await,
            Call::AckTurn(end) => self.ack_turn(*end).await,
            Call::AbandonTurn => {
                let token = self.turn.take().map_or("none".to_string(), |turn| turn.lock_token);
                in_words(&self.store.abandon_orchestration_item(&token, None, false).await)
            }
            Call::FetchWork => self.fetch_work(takes).await,
            Call::AckWork { data } => self.ack_work(*data).await,
            Call::AbandonWork => {
                let token = self.work.take().map_or("none".to_string(), |work| work.lock_token);
                in_words(&self.store.abandon_work_item(&token, None, false).await)
            }
            Call::ReadStatus { instance } => {
                let status = self.store.orchestration_status(&instance_name(*instance)).await;
                in_words(&status.map(without_times))
            }
            Call::ReadHistory { instance } => {
                let history = self.store.read(&instance_name(*instance)).await;
                in_words(&history.map(|events| events.iter().map(event_text).collect::<Vec<_>>()))
            }
            Call::ReadValue { instance } => {
                in_words(&self.store.get_kv_value(&instance_name(*instance), "key").await)
            }
            Call::Delete { instance } => {
                let admin = self.store.as_management_capability().expect("it has management calls");
                let deleted = admin.delete_instance(&instance_name(*instance), true).await;
                in_words(&deleted.map(|_| ()))
            }
            Call::List => {
                let admin = self.store.as_management_capability().expect("it has management calls");
                let all = admin.list_instances().await;
                in_words(&all.map(|all| all.into_iter().collect::<BTreeSet<_>>()))
            }
        }
    }

    async fn send(&self, item: WorkItem) -> String {
        in_words(&self.store.enqueue_checked(item, None).await)
    }

    async fn fetch_turn(&mut self, takes: Takes<'_>) -> String {
        // A cancelled instance suits every node, whatever it has handlers for: it may come besides.
        let (handlers, max_items) = match takes {
            Takes::Anything => (None, 1),
            Takes::Only(name) => (Some(Arc::new(handlers_of(name))), usize::MAX),
        };
        let request = TurnRequest {
            lock_timeout: Duration::from_secs(60),
            poll_timeout: Duration::ZERO,
            filter: None,
            handlers,
            max_items,
            suspects: Suspects::AtMost(1),
            holder: duroxide::providers::LockHolder::UNKNOWN,
            held: Arc::new(NothingHeld),
        };
        match self.store.fetch_turns(request).await {
            Err(error) => in_words::<()>(&Err(error)),
            Ok(turns) => match self.keep_one(turns, takes).await {
                None => "nothing".to_string(),
                Some(turn) => {
                    let text = turn_text(&turn);
                    self.turn = Some(turn);
                    text
                }
            },
        }
    }

    /// The turn that was asked for. What came besides is given back as if it had not been fetched.
    async fn keep_one(&self, turns: Vec<FetchedTurn>, takes: Takes<'_>) -> Option<FetchedTurn> {
        let mut kept = None;
        for turn in turns {
            let asked_for = match takes {
                Takes::Anything => true,
                Takes::Only(name) => turn.item.orchestration_name == name,
            };
            if asked_for {
                kept = Some(turn);
            } else {
                let given_back = self.store.abandon_orchestration_item(&turn.lock_token, None, true).await;
                given_back.expect("the lock was taken just now");
            }
        }
        kept
    }

    async fn ack_turn(&mut self, end: TurnEnd) -> String {
        let Some(turn) = self.turn.take() else {
            let none = ExecutionMetadata::default();
            let ack = self.store.ack_orchestration_item("none", 1, vec![], vec![], vec![], none, vec![]);
            return in_words(&ack.await);
        };
        let commit = commit(self.client, &mut self.scheduled, &turn, end);
        let ack = self.store.ack_orchestration_item(
            &turn.lock_token,
            turn.item.execution_id,
            commit.events,
            commit.work,
            commit.messages,
            commit.metadata,
            vec![],
        );
        in_words(&ack.await)
    }

    async fn fetch_work(&mut self, takes: Takes<'_>) -> String {
        let request = WorkRequest {
            lock_timeout: Duration::from_secs(60),
            poll_timeout: Duration::ZERO,
            session: None,
            session_limits: SessionLimits { max_running: usize::MAX, overlap: SessionOverlap::Parallel },
            tags: TagFilter::Any,
            activities: match takes {
                Takes::Anything => None,
                Takes::Only(name) => Some(Arc::new(BTreeSet::from([name.to_string()]))),
            },
            max_items: 1,
            suspects: Suspects::AtMost(1),
            holder: duroxide::providers::LockHolder::UNKNOWN,
        };
        match self.store.fetch_work(request).await {
            Err(error) => in_words::<()>(&Err(error)),
            Ok(work) => match work.into_iter().next() {
                None => "nothing".to_string(),
                Some(work) => {
                    let text = work_text(&work);
                    self.work = Some(work);
                    text
                }
            },
        }
    }

    async fn ack_work(&mut self, data: u64) -> String {
        let Some(work) = self.work.take() else {
            return in_words(&self.store.ack_work_item("none", None).await);
        };
        let WorkItem::ActivityExecute { instance, execution_id, id, .. } = work.item else {
            return format!("not an activity of this test: {:?}", work.item);
        };
        let result = data.to_string();
        let done = WorkItem::ActivityCompleted { instance, execution_id, id, result };
        in_words(&self.store.ack_work_item(&work.lock_token, Some(done)).await)
    }
}

struct Commit {
    events: Vec<Event>,
    work: Vec<WorkItem>,
    messages: Vec<WorkItem>,
    metadata: ExecutionMetadata,
}

/// What a turn commits, from what was fetched and how it goes on.
fn commit(client: usize, scheduled: &mut u64, turn: &FetchedTurn, end: TurnEnd) -> Commit {
    let instance = turn.item.instance.clone();
    let execution_id = turn.item.execution_id;
    let mut commit = Commit {
        events: Vec::new(),
        work: Vec::new(),
        messages: Vec::new(),
        metadata: ExecutionMetadata::default(),
    };
    let mut next_id = turn.item.history.last().map_or(0, |event| event.event_id);
    let mut record = |events: &mut Vec<Event>, kind: EventKind| {
        next_id += 1;
        events.push(Event::with_event_id(next_id, instance.clone(), execution_id, None, kind));
        next_id
    };
    if turn.item.history.is_empty() {
        record(&mut commit.events, started(&turn.item.orchestration_name));
    }
    match end {
        TurnEnd::GoesOn { data } => {
            // A name of its own, so that a fetch can be told to take this one alone.
            *scheduled += 1;
            let name = format!("Activity {client}.{scheduled}");
            let kind = EventKind::ActivityScheduled {
                name: name.clone(),
                input: String::new(),
                session_id: None,
                tag: None,
            };
            let id = record(&mut commit.events, kind);
            let (key, value) = ("key".to_string(), data.to_string());
            record(&mut commit.events, EventKind::KeyValueSet { key, value, last_updated_at_ms: 0 });
            commit.work.push(WorkItem::ActivityExecute {
                instance: instance.clone(),
                execution_id,
                id,
                name,
                input: String::new(),
                session_id: None,
                tag: None,
            });
            commit.messages.push(event(data % 3, data));
        }
        TurnEnd::Completes => {
            let output = "done".to_string();
            record(&mut commit.events, EventKind::OrchestrationCompleted { output: output.clone() });
            commit.metadata.status = Some("Completed".to_string());
            commit.metadata.output = Some(output);
        }
        TurnEnd::ContinuesAsNew => {
            record(&mut commit.events, EventKind::OrchestrationContinuedAsNew { input: String::new() });
            commit.metadata.status = Some("ContinuedAsNew".to_string());
            commit.messages.push(continued(&instance, &turn.item.orchestration_name));
        }
    }
    commit
}

fn handlers_of(name: &str) -> HandlerSet {
    let version = Version::new(1, 0, 0);
    let versions =
        HandlerVersions { versions: BTreeSet::from([version.clone()]), unversioned: Some(version) };
    HandlerSet { orchestrations: BTreeMap::from([(name.to_string(), versions)]) }
}

/// The orchestration of an instance: each has its own.
pub(crate) fn orchestration_of(instance: &str) -> String {
    format!("Orchestration of {instance}")
}

pub(crate) fn start(instance: u64) -> WorkItem {
    let instance = instance_name(instance);
    WorkItem::StartOrchestration {
        orchestration: orchestration_of(&instance),
        instance,
        input: String::new(),
        version: None,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    }
}

fn started(name: &str) -> EventKind {
    EventKind::OrchestrationStarted {
        name: name.to_string(),
        version: "1.0.0".to_string(),
        input: String::new(),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        carry_forward_events: None,
        initial_custom_status: None,
    }
}

fn continued(instance: &str, name: &str) -> WorkItem {
    WorkItem::ContinueAsNew {
        instance: instance.to_string(),
        orchestration: name.to_string(),
        input: String::new(),
        version: None,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        carry_forward_events: Vec::new(),
        initial_custom_status: None,
    }
}

fn event(instance: u64, data: u64) -> WorkItem {
    WorkItem::ExternalRaised {
        instance: instance_name(instance),
        name: "Event".to_string(),
        data: data.to_string(),
    }
}

/// A failure by its kind, since texts are free.
fn in_words<T: std::fmt::Debug>(answer: &Result<T, ProviderError>) -> String {
    match answer {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("Err({:?})", error.kind()),
    }
}

fn event_text(event: &Event) -> String {
    format!("{}/{} {:?}", event.execution_id, event.event_id, event.kind)
}

/// A turn, without what two stores may choose: its token and its incarnation.
fn turn_text(turn: &FetchedTurn) -> String {
    let history: Vec<String> = turn.item.history.iter().map(event_text).collect();
    let values: BTreeMap<_, _> =
        turn.item.kv_snapshot.iter().map(|(key, entry)| (key, &entry.value)).collect();
    format!(
        "{} of execution {} of {}, attempt {}: {:?} after {history:?} with {values:?}",
        orchestration_of(&turn.item.instance),
        turn.item.execution_id,
        turn.item.instance,
        turn.attempts,
        turn.item.messages,
    )
}

fn work_text(work: &FetchedWork) -> String {
    format!("{:?}, attempt {}", work.item, work.attempts)
}

fn without_times(status: OrchestrationStatus) -> String {
    match status {
        OrchestrationStatus::NotFound => "not found".to_string(),
        OrchestrationStatus::Running { custom_status, .. } => format!("running {custom_status:?}"),
        OrchestrationStatus::Completed { output, .. } => format!("completed {output}"),
        OrchestrationStatus::Failed { details, .. } => format!("failed {details:?}"),
    }
}

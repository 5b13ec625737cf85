//! The words that the validations are written in.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::{DispatcherCapabilityFilter, ErrorDetails, ItemKind, SemverRange, status};
use semver::Version;

use super::ProviderFactory;
use crate::{Event, EventKind};
use crate::{
    ExecutionMetadata, OrchestrationItem, Provider, ProviderAdmin, ProviderError, ProviderErrorKind,
    ScheduledActivityIdentifier, TagFilter, WorkItem,
};

/// Longer than any validation runs: a fetch that waits this long was not woken.
pub(super) const LONG: Duration = Duration::from_secs(20);

/// A store under validation.
pub(super) struct Store<'a> {
    pub(super) factory: &'a dyn ProviderFactory,
    pub(super) provider: Arc<dyn Provider>,
    pub(super) lock: Duration,
}

/// A locked instance.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) item: OrchestrationItem,
    pub(super) token: String,
    pub(super) attempts: u32,
}

/// A locked work item.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) item: WorkItem,
    pub(super) token: String,
    pub(super) attempts: u32,
}

/// What a turn commits.
#[derive(Debug, Clone, Default)]
pub(super) struct Commit {
    pub(super) execution_id: u64,
    pub(super) events: Vec<Event>,
    pub(super) work: Vec<WorkItem>,
    pub(super) messages: Vec<WorkItem>,
    pub(super) metadata: ExecutionMetadata,
    pub(super) cancelled: Vec<ScheduledActivityIdentifier>,
}

impl Commit {
    /// Nothing but the end of the turn.
    pub(super) fn of(turn: &Turn) -> Self {
        Self { execution_id: turn.item.execution_id, ..Self::default() }
    }

    pub(super) fn events(mut self, events: impl IntoIterator<Item = Event>) -> Self {
        self.events.extend(events);
        self
    }

    pub(super) fn work(mut self, items: impl IntoIterator<Item = WorkItem>) -> Self {
        self.work.extend(items);
        self
    }

    pub(super) fn messages(mut self, items: impl IntoIterator<Item = WorkItem>) -> Self {
        self.messages.extend(items);
        self
    }

    pub(super) fn cancels(
        mut self,
        activities: impl IntoIterator<Item = ScheduledActivityIdentifier>,
    ) -> Self {
        self.cancelled.extend(activities);
        self
    }

    pub(super) fn pinned(mut self, version: &str) -> Self {
        self.metadata.pinned_duroxide_version = Some(semver(version));
        self
    }

    pub(super) fn completes(mut self, output: &str) -> Self {
        self.metadata.status = Some(status::COMPLETED.to_string());
        self.metadata.output = Some(output.to_string());
        self
    }

    pub(super) fn fails(mut self, text: &str) -> Self {
        self.metadata.status = Some(status::FAILED.to_string());
        self.metadata.output = Some(text.to_string());
        self
    }

    pub(super) fn continues_as_new(self, instance: &str) -> Self {
        self.continues_as_new_with(instance, Vec::new())
    }

    /// Continues as new with queue messages that the execution has not read, as (queue, data).
    pub(super) fn continues_as_new_with(mut self, instance: &str, carried: Vec<(String, String)>) -> Self {
        self.metadata.status = Some(status::CONTINUED_AS_NEW.to_string());
        self.metadata.output = Some("next".to_string());
        self.messages([continue_as_new(instance, carried)])
    }
}

impl<'a> Store<'a> {
    pub(super) async fn new(factory: &'a dyn ProviderFactory) -> Self {
        Self { factory, provider: factory.create_provider().await, lock: factory.lock_timeout() }
    }

    pub(super) fn admin(&self) -> &dyn ProviderAdmin {
        self.provider.as_management_capability().expect("the store has the management calls")
    }

    /// Lets every lock taken so far with the usual timeout expire.
    pub(super) async fn expire_locks(&self) {
        self.factory.advance(self.lock).await;
    }

    pub(super) async fn send(&self, item: WorkItem) {
        self.try_send(item).await.expect("the message is taken");
    }

    pub(super) async fn send_all(&self, items: impl IntoIterator<Item = WorkItem>) {
        for item in items {
            self.send(item).await;
        }
    }

    pub(super) async fn try_send(&self, item: WorkItem) -> Result<(), ProviderError> {
        self.provider.enqueue_for_orchestrator(item, None).await
    }

    pub(super) async fn send_after(&self, item: WorkItem, delay: Duration) {
        self.provider.enqueue_for_orchestrator(item, Some(delay)).await.expect("the message is taken");
    }

    pub(super) async fn fetch(&self) -> Option<Turn> {
        self.fetch_matching(None).await
    }

    pub(super) async fn fetch_matching(&self, filter: Option<&DispatcherCapabilityFilter>) -> Option<Turn> {
        let fetched = self.provider.fetch_orchestration_item(self.lock, Duration::ZERO, filter).await;
        let (item, token, attempts) = fetched.expect("a fetch does not fail")?;
        Some(Turn { item, token, attempts })
    }

    /// Fetches, and insists that it is this instance.
    pub(super) async fn turn_of(&self, instance: &str) -> Turn {
        let turn = self.fetch().await.unwrap_or_else(|| panic!("'{instance}' is ready"));
        assert_eq!(turn.item.instance, instance, "the instance that is ready");
        turn
    }

    pub(super) async fn expect_no_turn(&self) {
        if let Some(turn) = self.fetch().await {
            panic!("nothing is ready, but got {turn:?}");
        }
    }

    pub(super) async fn try_commit(&self, turn: &Turn, commit: Commit) -> Result<(), ProviderError> {
        let Commit { execution_id, events, work, messages, metadata, cancelled } = commit;
        self.provider
            .ack_orchestration_item(&turn.token, execution_id, events, work, messages, metadata, cancelled)
            .await
    }

    pub(super) async fn commit(&self, turn: &Turn, commit: Commit) {
        self.try_commit(turn, commit).await.expect("the turn is committed");
    }

    /// Ends the turn without doing anything in it.
    pub(super) async fn pass(&self, turn: &Turn) {
        self.commit(turn, Commit::of(turn)).await;
    }

    pub(super) async fn abandon(&self, turn: &Turn, delay: Option<Duration>) {
        self.provider
            .abandon_orchestration_item(&turn.token, delay, false)
            .await
            .expect("the turn is given back");
    }

    pub(super) async fn abandon_uncounted(&self, turn: &Turn) {
        self.provider
            .abandon_orchestration_item(&turn.token, None, true)
            .await
            .expect("the turn is given back");
    }

    /// Starts an instance and commits its first turn, which only records the start.
    pub(super) async fn begin(&self, instance: &str) {
        self.begin_with(instance, |commit| commit).await;
    }

    pub(super) async fn begin_with(&self, instance: &str, more: impl FnOnce(Commit) -> Commit) {
        self.send(start(instance)).await;
        let turn = self.turn_of(instance).await;
        let commit = Commit::of(&turn).events([started(instance, turn.item.execution_id)]);
        self.commit(&turn, more(commit)).await;
    }

    /// Starts an instance that is pinned to a version, with a message waiting for it.
    pub(super) async fn begin_pinned(&self, instance: &str, version: &str) {
        self.begin_with(instance, |commit| commit.pinned(version)).await;
        self.send(event(instance, "go")).await;
    }

    /// Starts an instance and ends it.
    pub(super) async fn finish(&self, instance: &str) {
        self.begin_with(instance, |commit| {
            commit.events([completed_event(2, instance, 1, "done")]).completes("done")
        })
        .await;
    }

    pub(super) async fn queue_work(&self, item: WorkItem) {
        self.provider.enqueue_for_worker(item).await.expect("the work item is taken");
    }

    pub(super) async fn fetch_work(&self) -> Option<Work> {
        self.fetch_tagged(&TagFilter::DefaultOnly).await
    }

    pub(super) async fn fetch_tagged(&self, tags: &TagFilter) -> Option<Work> {
        let fetched = self.provider.fetch_work_item(self.lock, Duration::ZERO, None, tags).await;
        let (item, token, attempts) = fetched.expect("a fetch does not fail")?;
        Some(Work { item, token, attempts })
    }

    pub(super) async fn work(&self) -> Work {
        self.fetch_work().await.expect("a work item is ready")
    }

    pub(super) async fn expect_no_work(&self) {
        if let Some(work) = self.fetch_work().await {
            panic!("no work is ready, but got {work:?}");
        }
    }

    pub(super) async fn complete(&self, work: &Work) {
        let completion = completion_of(&work.item);
        self.provider.ack_work_item(&work.token, Some(completion)).await.expect("the activity is completed");
    }

    pub(super) async fn abandon_work(&self, work: &Work, delay: Option<Duration>, ignore_attempt: bool) {
        self.provider
            .abandon_work_item(&work.token, delay, ignore_attempt)
            .await
            .expect("the work is given back");
    }

    pub(super) async fn history(&self, instance: &str) -> Vec<Event> {
        self.provider.read(instance).await.expect("the history is read")
    }

    pub(super) async fn max_attempts(&self, instance: &str) -> u32 {
        self.factory.get_max_attempt_count(instance).await
    }

    /// Makes messages undecodable; false when this store cannot be made to.
    pub(super) async fn corrupt_messages(&self, instance: &str, kind: ItemKind) -> bool {
        self.factory.corrupt_message(instance, kind).await.is_some()
    }
}

/// Insists that a call failed in a given way.
#[track_caller]
pub(super) fn expect_kind<T: std::fmt::Debug>(result: Result<T, ProviderError>, kind: ProviderErrorKind) {
    let error = result.expect_err("the call is refused");
    assert_eq!(error.kind(), kind, "{error}");
    assert!(!error.is_retryable(), "{error}");
}

#[track_caller]
pub(super) fn expect_lock_lost<T: std::fmt::Debug>(result: Result<T, ProviderError>) {
    let error = result.expect_err("the lock is lost");
    assert!(error.message.contains("Invalid lock token"), "the text of a lost lock: {error}");
    expect_kind::<T>(Err(error), ProviderErrorKind::LockLost);
}

#[track_caller]
pub(super) fn expect_invalid<T: std::fmt::Debug>(result: Result<T, ProviderError>) {
    expect_kind(result, ProviderErrorKind::Invalid);
}

/// Insists that a call failed because something is unknown, and says so.
#[track_caller]
pub(super) fn expect_not_found<T: std::fmt::Debug>(result: Result<T, ProviderError>) {
    let error = result.expect_err("what was named does not exist");
    assert_eq!(error.kind(), ProviderErrorKind::NotFound, "{error}");
    assert!(!error.is_retryable() && error.to_string().contains("not found"), "{error}");
}

pub(super) fn semver(version: &str) -> Version {
    Version::parse(version).expect("a version of the validations is valid")
}

pub(super) fn range(min: &str, max: &str) -> SemverRange {
    SemverRange::new(semver(min), semver(max))
}

pub(super) fn filter(ranges: impl IntoIterator<Item = SemverRange>) -> DispatcherCapabilityFilter {
    DispatcherCapabilityFilter { supported_duroxide_versions: ranges.into_iter().collect() }
}

/// A filter for the versions from `min` up to, but without, `max`.
pub(super) fn below(min: &str, max: &str) -> DispatcherCapabilityFilter {
    filter([SemverRange::below(semver(min), semver(max))])
}

pub(super) fn start(instance: &str) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: instance.to_string(),
        orchestration: "Validate".to_string(),
        input: "in".to_string(),
        version: None,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    }
}

pub(super) fn start_child(instance: &str, parent: &str, parent_event_id: u64) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: instance.to_string(),
        orchestration: "Child".to_string(),
        input: "in".to_string(),
        version: Some("2.0.0".to_string()),
        parent_instance: Some(parent.to_string()),
        parent_id: Some(parent_event_id),
        parent_execution_id: Some(1),
        execution_id: 1,
    }
}

fn continue_as_new(instance: &str, carry_forward_events: Vec<(String, String)>) -> WorkItem {
    WorkItem::ContinueAsNew {
        instance: instance.to_string(),
        orchestration: "Validate".to_string(),
        input: "next".to_string(),
        version: None,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        carry_forward_events,
        initial_custom_status: None,
    }
}

pub(super) fn event(instance: &str, data: &str) -> WorkItem {
    WorkItem::ExternalRaised {
        instance: instance.to_string(),
        name: "Event".to_string(),
        data: data.to_string(),
    }
}

pub(super) fn queue_message(instance: &str, data: &str) -> WorkItem {
    WorkItem::QueueMessage {
        instance: instance.to_string(),
        name: "Queue".to_string(),
        data: data.to_string(),
    }
}

pub(super) fn cancel(instance: &str) -> WorkItem {
    WorkItem::CancelInstance { instance: instance.to_string(), reason: "enough".to_string() }
}

pub(super) fn timer(instance: &str, id: u64, fire_at_ms: u64) -> WorkItem {
    WorkItem::TimerFired { instance: instance.to_string(), execution_id: 1, id, fire_at_ms }
}

pub(super) fn activity(instance: &str, id: u64) -> WorkItem {
    routed_activity(instance, id, None, None)
}

pub(super) fn routed_activity(instance: &str, id: u64, session: Option<&str>, tag: Option<&str>) -> WorkItem {
    WorkItem::ActivityExecute {
        instance: instance.to_string(),
        execution_id: 1,
        id,
        name: "Act".to_string(),
        input: format!("input {id}"),
        session_id: session.map(str::to_string),
        tag: tag.map(str::to_string),
    }
}

pub(super) fn completed(instance: &str, id: u64) -> WorkItem {
    WorkItem::ActivityCompleted {
        instance: instance.to_string(),
        execution_id: 1,
        id,
        result: format!("result {id}"),
    }
}

/// What a worker answers to an activity.
pub(super) fn completion_of(item: &WorkItem) -> WorkItem {
    let columns = duroxide_core::columns_of(item);
    completed(columns.instance, columns.event_id.expect("an activity has an id"))
}

pub(super) fn child_failed(parent: &str, parent_event_id: u64, text: &str) -> WorkItem {
    WorkItem::SubOrchFailed {
        parent_instance: parent.to_string(),
        parent_execution_id: 1,
        parent_id: parent_event_id,
        details: ErrorDetails::orchestration_failed(text),
    }
}

pub(super) fn named(instance: &str, activity_id: u64) -> ScheduledActivityIdentifier {
    ScheduledActivityIdentifier { instance: instance.to_string(), execution_id: 1, activity_id }
}

pub(super) fn happened(event_id: u64, instance: &str, kind: EventKind) -> Event {
    Event::with_event_id(event_id, instance, 1, None, kind)
}

pub(super) fn started(instance: &str, execution_id: u64) -> Event {
    let kind = EventKind::OrchestrationStarted {
        name: "Validate".to_string(),
        version: "1.0.0".to_string(),
        input: "in".to_string(),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        carry_forward_events: None,
        initial_custom_status: None,
    };
    Event::with_event_id(1, instance, execution_id, None, kind)
}

pub(super) fn completed_event(event_id: u64, instance: &str, execution_id: u64, output: &str) -> Event {
    let kind = EventKind::OrchestrationCompleted { output: output.to_string() };
    Event::with_event_id(event_id, instance, execution_id, None, kind)
}

pub(super) fn failed_event(event_id: u64, instance: &str, details: &ErrorDetails) -> Event {
    happened(event_id, instance, EventKind::OrchestrationFailed { details: details.clone() })
}

pub(super) fn scheduled(event_id: u64, instance: &str) -> Event {
    let kind = EventKind::ActivityScheduled {
        name: "Act".to_string(),
        input: format!("input {event_id}"),
        session_id: None,
        tag: None,
    };
    happened(event_id, instance, kind)
}

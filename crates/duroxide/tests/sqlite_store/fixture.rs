//! What the tests of the SQLite store begin with.

use std::sync::Arc;
use std::time::Duration;

use duroxide::clock::ManualClock;
use duroxide::providers::sqlite::{SqliteOptions, SqliteProvider};
use duroxide::providers::{
    ExecutionMetadata, FetchedTurn, NothingHeld, OrchestrationItem, Provider, ProviderError,
    ProviderErrorKind, SessionLimits, Suspects, TagFilter, TurnRequest, WorkItem, WorkRequest,
};
use duroxide::{Event, EventKind};

/// Long enough that no test ever sees it end.
pub(crate) const LONG: Duration = Duration::from_secs(60);
/// No waiting.
pub(crate) const NOW: Duration = Duration::ZERO;

/// A directory with a store in it.
pub(crate) struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.directory.path().join("store.db")
    }

    pub(crate) fn url(&self) -> String {
        format!("sqlite:{}", self.path().display())
    }

    pub(crate) async fn open(&self) -> SqliteProvider {
        self.open_with(SqliteOptions::default()).await
    }

    pub(crate) async fn open_with(&self, options: SqliteOptions) -> SqliteProvider {
        SqliteProvider::new(&self.url(), Some(options)).await.unwrap()
    }

    /// A connection of somebody else.
    pub(crate) fn raw(&self) -> rusqlite::Connection {
        let raw = rusqlite::Connection::open(self.path()).unwrap();
        raw.busy_timeout(Duration::from_secs(5)).unwrap();
        raw
    }
}

/// A store in memory whose clock stands still at 1,000,000.
pub(crate) async fn in_memory() -> (SqliteProvider, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(1_000_000));
    let options = SqliteOptions { clock: clock.clone(), ..Default::default() };
    (SqliteProvider::new_in_memory_with_options(Some(options)).await.unwrap(), clock)
}

pub(crate) fn start(instance: &str) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: instance.to_string(),
        orchestration: "Flow".to_string(),
        input: "in".to_string(),
        version: None,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    }
}

pub(crate) fn activity(instance: &str, id: u64) -> WorkItem {
    WorkItem::ActivityExecute {
        instance: instance.to_string(),
        execution_id: 1,
        id,
        name: "Step".to_string(),
        input: "x".to_string(),
        session_id: None,
        tag: None,
    }
}

pub(crate) fn completed(instance: &str, id: u64) -> WorkItem {
    WorkItem::ActivityCompleted {
        instance: instance.to_string(),
        execution_id: 1,
        id,
        result: "y".to_string(),
    }
}

pub(crate) fn raised(instance: &str, data: &str) -> WorkItem {
    WorkItem::ExternalRaised {
        instance: instance.to_string(),
        name: "go".to_string(),
        data: data.to_string(),
    }
}

pub(crate) fn timer(instance: &str, id: u64, fire_at_ms: u64) -> WorkItem {
    WorkItem::TimerFired { instance: instance.to_string(), execution_id: 1, id, fire_at_ms }
}

pub(crate) fn event(instance: &str, id: u64, source: Option<u64>, kind: EventKind) -> Event {
    Event::with_event_id(id, instance, 1, source, kind)
}

pub(crate) fn scheduled(instance: &str, id: u64) -> Event {
    let kind = EventKind::ActivityScheduled {
        name: "Step".to_string(),
        input: "x".to_string(),
        session_id: None,
        tag: None,
    };
    event(instance, id, None, kind)
}

pub(crate) async fn enqueue(store: &SqliteProvider, item: WorkItem) {
    store.enqueue_for_orchestrator(item, None).await.unwrap();
}

/// Fetches an instance that must be ready.
pub(crate) async fn fetch(store: &SqliteProvider) -> (OrchestrationItem, String, u32) {
    store.fetch_orchestration_item(LONG, NOW, None).await.unwrap().expect("an instance is ready")
}

pub(crate) async fn fetch_nothing(store: &SqliteProvider) {
    let fetched = store.fetch_orchestration_item(LONG, NOW, None).await.unwrap();
    assert!(fetched.is_none(), "nothing should be ready: {fetched:?}");
}

pub(crate) fn turn_request(max_items: usize, poll_timeout: Duration) -> TurnRequest {
    TurnRequest {
        lock_timeout: LONG,
        poll_timeout,
        filter: None,
        handlers: None,
        max_items,
        suspects: Suspects::AtMost(1),
        holder: duroxide::providers::LockHolder::UNKNOWN,
        held: Arc::new(NothingHeld),
    }
}

pub(crate) fn work_request(max_items: usize, poll_timeout: Duration) -> WorkRequest {
    WorkRequest {
        lock_timeout: LONG,
        poll_timeout,
        session: None,
        session_limits: SessionLimits::NONE,
        tags: TagFilter::DefaultOnly,
        activities: None,
        max_items,
        suspects: Suspects::AtMost(1),
        holder: duroxide::providers::LockHolder::UNKNOWN,
    }
}

pub(crate) async fn fetch_turn(store: &SqliteProvider) -> FetchedTurn {
    let mut turns = store.fetch_turns(turn_request(1, NOW)).await.unwrap();
    turns.pop().expect("an instance is ready")
}

/// What a turn commits; everything but what a test names is empty.
#[derive(Default)]
pub(crate) struct Ack {
    pub(crate) events: Vec<Event>,
    pub(crate) work: Vec<WorkItem>,
    pub(crate) messages: Vec<WorkItem>,
    pub(crate) metadata: ExecutionMetadata,
}

impl Ack {
    pub(crate) fn status(mut self, status: &str) -> Self {
        self.metadata.status = Some(status.to_string());
        self
    }

    pub(crate) async fn commit(self, store: &SqliteProvider, token: &str) -> Result<(), ProviderError> {
        let Self { events, work, messages, metadata } = self;
        store.ack_orchestration_item(token, 1, events, work, messages, metadata, Vec::new()).await
    }
}

pub(crate) fn assert_kind<T: std::fmt::Debug>(
    outcome: Result<T, ProviderError>,
    kind: ProviderErrorKind,
    part: &str,
) {
    let error = outcome.expect_err("the call fails");
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(part), "{error}");
}

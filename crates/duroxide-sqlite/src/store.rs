//! The provider itself: how calls reach the writer's thread and the readers.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use duroxide_provider::clock::Clock;
use duroxide_provider::rules::{Answer, Call};
use duroxide_provider::support::{SendGate, Waiters};
use duroxide_provider::{ProviderError, ProviderErrorKind};
use tokio::sync::oneshot;

use super::call::{Ask, Delivery, Job, Message, ToWriter};
use super::clock_steps;
use super::db::{Db, OwnDb};
use super::early;
use super::fault::{Fault, storage_error};
use super::location::Location;
use super::open::{Facts, Opened, open};
use super::open_file::OpenFile;
use super::options::{SqliteOptions, Synchronous};
use super::parked::{ParkedFetch, Request};
use super::readers::Readers;
use super::set_aside::{self, SetAsideItem};
use super::shared_file::SharedFile;
use super::statistics::{Counters, SqliteStatistics};
use super::tx::Tx;
use super::values::{Ms, to_column};
use super::writer::Writer;

/// The store in a SQLite file, or in memory.
///
/// One thread owns the connection that writes. It carries out all calls that wait in one transaction and
/// commits once for all of them; a few further connections read meanwhile. Several processes may share a file.
/// Dropping the provider ends its threads and leaves one file behind.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use duroxide::providers::sqlite::SqliteProvider;
/// let store = SqliteProvider::new_in_memory().await.unwrap();
/// assert_eq!(store.statistics().commits, 0);
/// # });
/// ```
pub struct SqliteProvider {
    to_writer: Arc<ToWriter>,
    writer: Option<JoinHandle<()>>,
    readers: Option<Readers>,
    pub(super) waiters: Arc<Waiters>,
    counters: Arc<Counters>,
    clock: Arc<dyn Clock>,
    synchronous: Synchronous,
    facts: Facts,
    pub(super) sending: SendGate,
}

impl SqliteProvider {
    /// Opens the store that a URL names: `sqlite:path`, `sqlite://path`, either with `?mode=rwc` (the
    /// default: the file is created if it is missing) or `?mode=rw`, or `sqlite::memory:`.
    ///
    /// Fails, and changes nothing, for a file that is not a database, a database of another application, and
    /// one that a newer build has written.
    pub async fn new(url: &str, options: Option<SqliteOptions>) -> Result<Self, ProviderError> {
        let location = Location::parse(url)
            .map_err(|message| ProviderError::of_kind(ProviderErrorKind::Invalid, "open", message))?;
        Self::open(location, options.unwrap_or_default()).await
    }

    /// A store in memory, gone with the provider.
    pub async fn new_in_memory() -> Result<Self, ProviderError> {
        Self::open(Location::Memory, SqliteOptions::default()).await
    }

    /// A store in memory with options.
    pub async fn new_in_memory_with_options(options: Option<SqliteOptions>) -> Result<Self, ProviderError> {
        Self::open(Location::Memory, options.unwrap_or_default()).await
    }

    /// What the store has done since it was opened.
    pub fn statistics(&self) -> SqliteStatistics {
        self.counters.snapshot()
    }

    /// The file; `None` for a store in memory.
    pub fn path(&self) -> Option<&Path> {
        self.facts.path.as_deref()
    }

    /// The journal mode as SQLite reports it: `wal`, or `memory` for a store in memory.
    pub fn journal_mode(&self) -> &str {
        &self.facts.journal_mode
    }

    /// The synchronous level, which SQLite confirmed when the store was opened.
    pub fn synchronous_level(&self) -> Synchronous {
        self.synchronous
    }

    /// Messages and work items that did not decode and were set aside, oldest first.
    pub async fn list_set_aside(&self) -> Result<Vec<SetAsideItem>, ProviderError> {
        self.read_with("list_set_aside", set_aside::list).await
    }

    /// How often the messages in an instance's inbox have been fetched, the highest count among them.
    pub async fn max_attempt_count(&self, instance: &str) -> Result<u32, ProviderError> {
        let instance = instance.to_string();
        self.read_with("max_attempt_count", move |db| super::release_turn::max_attempts(db, &instance)).await
    }

    async fn open(location: Location, options: SqliteOptions) -> Result<Self, ProviderError> {
        let (sender, messages) = channel();
        let (opened, waiting) = oneshot::channel();
        let counters = Arc::new(Counters::default());
        let waiters = Arc::new(Waiters::default());
        let (clock, synchronous) = (Arc::clone(&options.clock), options.synchronous);
        let start = WriterStart {
            location,
            options,
            counters: Arc::clone(&counters),
            waiters: Arc::clone(&waiters),
            channel: (sender.clone(), messages),
        };
        let thread = std::thread::Builder::new().name("duroxide-write".to_string());
        let writer = thread.spawn(move || start.run(opened)).map_err(|error| {
            ProviderError::retryable("open", "no thread can be started").with_source(error)
        })?;
        let gone =
            |_| ProviderError::permanent("open", "the writer's thread ended before the store was open");
        let (readers, facts) = waiting.await.map_err(gone)??;
        let to_writer = Arc::new(ToWriter(sender));
        let listener: Weak<ToWriter> = Arc::downgrade(&to_writer);
        clock.tell_of_jumps(listener);
        let mut store = Self {
            to_writer,
            writer: Some(writer),
            readers: None,
            waiters,
            counters,
            clock,
            synchronous,
            facts,
            sending: SendGate::default(),
        };
        if !readers.is_empty() {
            store.readers = Some(start_readers(readers)?);
        }
        Ok(store)
    }

    pub(super) fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// The file; `None` for a store in memory.
    pub(super) fn file(&self) -> Option<Arc<OpenFile>> {
        self.facts.file.clone()
    }

    /// The store's time.
    pub(super) fn now(&self) -> Ms {
        to_column(self.clock.now_ms())
    }

    /// Has a call carried out in the next transaction. `bytes` is what it weighs there.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        operation: &'static str,
        bytes: usize,
        work: impl FnOnce(&mut Tx<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, ProviderError> {
        let (answer, waiting) = oneshot::channel();
        self.send(operation, Message::Call(Box::new(Job::new(operation, bytes, work, answer))))?;
        waiting.await.map_err(|_| closed(operation))?
    }

    /// Has a call applied by the rules in the next transaction.
    pub(super) async fn apply(&self, operation: &'static str, call: Call) -> Result<Answer, ProviderError> {
        let (answer, waiting) = oneshot::channel();
        self.send(operation, Message::Apply(Box::new(Ask::new(operation, call, answer))))?;
        waiting.await.map_err(|_| closed(operation))?
    }

    /// Reads beside the writer.
    pub(super) async fn read_with<T: Send + 'static>(
        &self,
        operation: &'static str,
        read: impl FnOnce(&Db) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, ProviderError> {
        let (answer, waiting) = oneshot::channel();
        let file = self.file();
        let read = Box::new(move |db: &Db| {
            let in_place = file.map_or(Ok(()), |file| file.check(operation));
            let outcome = in_place.and_then(|()| read(db).map_err(|fault| fault.into_error(operation)));
            // Whoever asked may have gone: nothing is lost with the answer.
            drop(answer.send(outcome));
        });
        match &self.readers {
            Some(readers) => readers.submit(read),
            None => self.send(operation, Message::Read(read))?,
        }
        waiting.await.map_err(|_| closed(operation))?
    }

    /// Fetches, waiting up to `timeout`.
    pub(super) async fn fetch<R: Request>(
        &self,
        request: R,
        timeout: Duration,
        message: impl FnOnce(ParkedFetch<R, R::Item>) -> Message,
    ) -> Result<Vec<R::Item>, ProviderError> {
        let (answer, waiting) = oneshot::channel::<Result<Delivery<R::Item>, ProviderError>>();
        self.send(R::OPERATION, message(ParkedFetch::new(request, timeout, answer)))?;
        waiting.await.map_err(|_| closed(R::OPERATION))?.map(Delivery::received)
    }

    /// Makes the writer watch other processes, for those who wait for an instance.
    pub(super) fn watch(&self) -> Result<(), ProviderError> {
        self.send("wait_for_instance", Message::Watch)
    }

    fn send(&self, operation: &'static str, message: Message) -> Result<(), ProviderError> {
        self.to_writer.0.send(message).map_err(|_| closed(operation))
    }
}

impl Drop for SqliteProvider {
    fn drop(&mut self) {
        // The readers go first, so that the writer's connection is the last and can clear the log away.
        self.readers = None;
        // Fails only when the thread has ended already.
        drop(self.to_writer.0.send(Message::Stop));
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!(target: "duroxide::runtime", "the writer's thread of the SQLite store panicked");
        }
    }
}

impl std::fmt::Debug for SqliteProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteProvider").field("facts", &self.facts).finish_non_exhaustive()
    }
}

fn closed(operation: &str) -> ProviderError {
    ProviderError::retryable(operation, "the store was closed or lost the answer; the outcome is unknown")
}

fn start_readers(connections: Vec<OwnDb>) -> Result<Readers, ProviderError> {
    Readers::start(connections)
        .map_err(|error| ProviderError::retryable("open", "no thread can be started").with_source(error))
}

/// What the writer's thread needs to open the store.
struct WriterStart {
    location: Location,
    options: SqliteOptions,
    counters: Arc<Counters>,
    waiters: Arc<Waiters>,
    channel: (Sender<Message>, Receiver<Message>),
}

/// What the thread sends back once the store is open.
type OpenAnswer = Result<(Vec<OwnDb>, Facts), ProviderError>;

impl WriterStart {
    fn run(self, opened: oneshot::Sender<OpenAnswer>) {
        let (writer, readers, facts) = match self.open() {
            Ok(parts) => parts,
            Err(error) => {
                // Whoever asked may have gone; then nobody needs the reason.
                drop(opened.send(Err(error)));
                return;
            }
        };
        if opened.send(Ok((readers, facts))).is_ok() {
            writer.run();
        }
    }

    fn open(self) -> Result<(Writer, Vec<OwnDb>, Facts), ProviderError> {
        let Opened { writer, readers, facts } = open(&self.location, &self.options, &self.counters)?;
        let storage = |error| storage_error("open", error);
        let db = writer.db();
        let mut tx = Tx::new(&db, to_column(self.options.clock.now_ms()));
        tx.effects.expired += early::drop_expired(&db, tx.now).map_err(storage)?;
        clock_steps::make_ready(&mut tx).map_err(|fault| fault.into_error("open"))?;
        super::tx::report(&tx.effects, &self.counters);
        let shared_file = match (&facts.path, &facts.file) {
            (Some(path), Some(file)) => {
                Some(SharedFile::new(path, Arc::clone(file), &writer.db()).map_err(storage)?)
            }
            (None, _) | (_, None) => None,
        };
        let writer =
            Writer::new(writer, shared_file, self.options, self.counters, self.waiters, self.channel);
        Ok((writer, readers, facts))
    }
}

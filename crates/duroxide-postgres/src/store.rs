//! The provider itself: how calls reach the task that carries them out, and the pool.

use std::sync::Arc;
use std::time::Duration;

use deadpool::managed::{Pool, Timeouts};
use duroxide_provider::failpoint;
use duroxide_provider::rules::{self, Answer, Effects};
use duroxide_provider::support::{SendGate, Waiters};
use duroxide_provider::{ProviderError, ProviderErrorKind};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::admin::instances as admin;
use crate::admin::set_aside::{self, SetAsideItem};
use crate::connections::connection::{Conn, Manager, Pooled, Target};
use crate::connections::requirements;
use crate::connections::schema;
use crate::fault::Fault;
use crate::group::call::{Call, is_large};
use crate::group::carrier::{Carrier, Inbox, closed};
use crate::group::endings::Endings;
use crate::group::joined;
use crate::group::listener::Listener;
use crate::group::memory::SharedMemory;
use crate::options::PostgresOptions;
use crate::rows::flush;
use crate::rows::working_set::early_cutoff;
use crate::statistics::{Counters, PostgresStatistics, count_conflict};
use crate::upkeep::clock_steps;
use crate::values::{Ms, to_column};

/// How often a transaction of a management call is tried again when others are in its way.
const MAX_CONFLICTS: u32 = 20;

/// Carries a management call out in a transaction of its own, again if others are in its way.
macro_rules! transaction {
    ($store:expr, $operation:expr, $conn:ident => $body:expr) => {{
        let mut conflicts = 0;
        loop {
            let $conn = $store.conn($operation).await?;
            let outcome = match $conn.begin().await {
                Ok(()) => $crate::store::end(&$conn, $body.await).await,
                Err(fault) => Err(fault),
            };
            match outcome {
                Ok(value) => break Ok(value),
                Err(fault) => {
                    if let Some(error) = $store.failed($conn, $operation, fault, &mut conflicts) {
                        break Err(error);
                    }
                }
            }
        }
    }};
}
pub(crate) use transaction;

/// The store in a PostgreSQL database.
///
/// Any number of processes may use one schema. Must be made and used inside a tokio runtime, which it needs for
/// its connections; dropping it closes them.
pub struct PostgresProvider {
    pub(crate) inbox: Arc<Inbox>,
    /// Where large turns wait to be committed beside all other calls.
    large: Arc<Inbox>,
    pub(crate) pool: Pool<Manager>,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) endings: Arc<Endings>,
    pub(crate) memory: Arc<SharedMemory>,
    counters: Arc<Counters>,
    pub(crate) options: PostgresOptions,
    tasks: Vec<JoinHandle<()>>,
    pub(crate) sending: SendGate,
}

impl PostgresProvider {
    /// Opens the store that a URL names: `postgres://user:password@host:port/database`, or the same in the form
    /// `host=.. user=..`. Several hosts may be named; the one that takes writes is used.
    ///
    /// Creates the schema if it is missing and brings an older one up to date; any number of processes may do so
    /// at once. Fails, and changes nothing, for a schema that a newer build has written, for a server that is too old, a
    /// database that is not UTF-8, a pooler that changes sessions between transactions, and a role without the rights
    /// that the store needs.
    pub async fn new(url: &str, options: Option<PostgresOptions>) -> Result<Self, ProviderError> {
        let options = options.unwrap_or_default();
        let counters = Arc::new(Counters::default());
        let invalid = |text| ProviderError::of_kind(ProviderErrorKind::Invalid, "open", text);
        let target = Arc::new(Target::new(url, &options, Arc::clone(&counters)).map_err(invalid)?);
        let failed = |fault: Fault| fault.into_error("open");
        let conn = target.connect().await.map_err(failed)?;
        requirements::check(&target, &conn).await?;
        schema::migrate(&conn, &target.schema, options.open_mode).await?;
        target.make_carrier(&conn).await.map_err(failed)?;
        let wait = Some(options.connect_timeout);
        let pool = Pool::builder(Manager(Arc::clone(&target)))
            .max_size(options.pool_size.max(1))
            .timeouts(Timeouts { wait, create: wait, recycle: wait })
            .runtime(deadpool::Runtime::Tokio1)
            .build()
            .map_err(|cause| invalid(format!("the pool of connections: {cause}")))?;
        let inbox = Arc::new(Inbox::default());
        let waiters = Arc::new(Waiters::default());
        let endings = Arc::new(Endings::default());
        let memory = Arc::new(SharedMemory::default());
        let tasks = Vec::new();
        let large = Arc::new(Inbox::default());
        let sending = SendGate::default();
        let mut store =
            Self { inbox, large, pool, waiters, endings, memory, counters, options, tasks, sending };
        store.drop_expired().await?;
        store.make_ready().await?;
        store.start(target, conn);
        Ok(store)
    }

    fn start(&mut self, target: Arc<Target>, conn: Conn<'static>) {
        let listener = Listener::new(
            Arc::clone(&target),
            &self.options,
            Arc::clone(&self.inbox),
            Arc::clone(&self.waiters),
            Arc::clone(&self.counters),
        );
        let large = Carrier::of_large_turns(self, Arc::clone(&target), &self.large);
        let carrier = Carrier::new(self, target, conn);
        self.tasks.push(tokio::spawn(carrier.run()));
        self.tasks.push(tokio::spawn(large.run()));
        self.tasks.push(tokio::spawn(listener.run()));
    }

    async fn drop_expired(&self) -> Result<(), ProviderError> {
        let conn = self.conn("open").await?;
        let failed = |fault: Fault| fault.into_error("open");
        let now = to_column(admin::now_ms(&conn, self.manual()).await.map_err(failed)?);
        let expired = conn.execute(flush::EXPIRE_EARLY, &[&early_cutoff(now)]).await.map_err(failed)?;
        self.counters.report(&Effects { expired, ..Effects::at(now) });
        Ok(())
    }

    /// Makes ready what was stored while the server's clock was ahead.
    async fn make_ready(&self) -> Result<(), ProviderError> {
        let conn = self.conn("open").await?;
        let failed = |fault: Fault| fault.into_error("open");
        if clock_steps::is_ahead(&conn, self.manual()).await.map_err(failed)? {
            // What another transaction holds is looked at by that one.
            clock_steps::make_ready(&conn, self.manual()).await.map_err(failed)?;
        }
        Ok(())
    }

    /// What the store has done since it was opened.
    pub fn statistics(&self) -> PostgresStatistics {
        self.counters.snapshot()
    }

    /// Messages and work items that did not decode and were set aside, oldest first.
    pub async fn list_set_aside(&self) -> Result<Vec<SetAsideItem>, ProviderError> {
        let conn = self.conn("list_set_aside").await?;
        set_aside::list(&conn).await.map_err(|fault| fault.into_error("list_set_aside"))
    }

    /// How often the messages in an instance's inbox have been fetched, the highest count among them.
    pub async fn max_attempt_count(&self, instance: &str) -> Result<u32, ProviderError> {
        let conn = self.conn("max_attempt_count").await?;
        admin::max_attempts(&conn, instance).await.map_err(|fault| fault.into_error("max_attempt_count"))
    }

    pub(crate) fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    pub(crate) fn quoted_schema(&self) -> String {
        self.pool.manager().0.schema.clone()
    }

    /// The time of a clock that a test moves.
    pub(crate) fn manual(&self) -> Option<Ms> {
        self.options.clock.as_ref().map(|clock| to_column(clock.now_ms()))
    }

    /// A connection of the pool.
    pub(crate) async fn conn(&self, operation: &str) -> Result<Pooled, ProviderError> {
        self.pooled().await.map_err(|fault| fault.into_error(operation))
    }

    pub(crate) async fn pooled(&self) -> Result<Pooled, Fault> {
        Ok(self.pool.get().await?.into())
    }

    /// Has a call carried out in the next transaction.
    pub(crate) async fn carry(
        &self,
        operation: &'static str,
        work: rules::Call,
    ) -> Result<(), ProviderError> {
        self.carry_told(operation, work).await.map(drop)
    }

    /// [`Self::carry`], and what the call tells.
    pub(crate) async fn carry_told(
        &self,
        operation: &'static str,
        work: rules::Call,
    ) -> Result<Answer, ProviderError> {
        let (answer, waiting) = oneshot::channel();
        let inbox = if is_large(&work) { &self.large } else { &self.inbox };
        inbox.send(Call::new(operation, work, answer));
        waiting.await.map_err(|_| closed(operation))?
    }

    /// What is to be done after a transaction of a management call failed: `None` to try it again, because
    /// another was in its way.
    pub(crate) fn failed(
        &self,
        conn: Pooled,
        operation: &str,
        fault: Fault,
        conflicts: &mut u32,
    ) -> Option<ProviderError> {
        // It may lead to a server that does not write any more.
        conn.close();
        if !fault.is_conflict() || *conflicts == MAX_CONFLICTS {
            return Some(fault.into_error(operation));
        }
        *conflicts += 1;
        count_conflict(&self.counters);
        None
    }

    /// Has a management call carried out in a transaction of its own.
    pub(crate) async fn carry_alone(
        &self,
        operation: &'static str,
        call: rules::Call,
    ) -> Result<Answer, ProviderError> {
        let manual = self.manual();
        let carried_out: Result<_, ProviderError> =
            transaction!(self, operation, conn => joined::carry_out(&conn, manual, &call));
        let (answer, effects) = carried_out?;
        self.counters.report(&effects);
        self.waiters.wake(&effects.changed);
        self.inbox.wake_anew();
        Ok(answer)
    }

    /// How long one that waits for an instance trusts that it would be woken.
    pub(crate) fn patience(&self) -> Duration {
        self.options.poll_interval
    }
}

/// Where tests end the process: before each COMMIT is sent, and after it is known to be done.
pub(crate) const BEFORE_COMMIT: &str = "postgres.before_commit";
pub(crate) const AFTER_COMMIT: &str = "postgres.after_commit";

/// Ends a transaction as its outcome demands.
pub(crate) async fn end<T>(conn: &Conn<'_>, outcome: Result<T, Fault>) -> Result<T, Fault> {
    let value = match outcome {
        Ok(value) => value,
        Err(fault) => {
            // If this fails the connection is closed, which rolls back as well.
            drop(conn.roll_back().await);
            return Err(fault);
        }
    };
    failpoint::pass(BEFORE_COMMIT);
    match conn.commit().await {
        Ok(()) => {
            failpoint::pass(AFTER_COMMIT);
            Ok(value)
        }
        Err(Fault::Storage(error)) if error.as_db_error().is_none() => {
            Err(Fault::UnknownOutcome(error.to_string()))
        }
        Err(Fault::NoAnswer(time)) => Err(Fault::UnknownOutcome(format!("no answer for {time:?}"))),
        Err(fault) => Err(fault),
    }
}

impl Drop for PostgresProvider {
    fn drop(&mut self) {
        self.inbox.stop();
        self.large.stop();
        self.tasks.iter().for_each(JoinHandle::abort);
        self.pool.close();
    }
}

impl std::fmt::Debug for PostgresProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresProvider").field("options", &self.options).finish_non_exhaustive()
    }
}

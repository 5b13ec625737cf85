//! Connections: made with our settings, each with its prepared statements.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deadpool::managed::{self, Metrics, Object, RecycleError, RecycleResult};
use tokio::task::JoinHandle;
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Connection, NoTls, Row, Socket, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::connections::sslmode;
use crate::connections::tls;
use crate::fault::Fault;
use crate::group::blocked::LOCK_WAIT;
use crate::options::PostgresOptions;
use crate::statistics::Counters;

/// How long sent data may stay unacknowledged before the system gives the connection up.
const SILENCE: Duration = Duration::from_secs(10);

/// Where connections lead, and what every one of them is told first.
pub(crate) struct Target {
    config: Config,
    tls: Option<MakeRustlsConnect>,
    settings: String,
    /// What the carrier's connection is told besides.
    carrier_settings: String,
    /// The schema's name, quoted.
    pub(crate) schema: String,
    connect_timeout: Duration,
    /// How long an answer is waited for, if not forever.
    patience: Option<Duration>,
    pub(crate) counters: Arc<Counters>,
}

impl Target {
    pub(crate) fn new(url: &str, options: &PostgresOptions, counters: Arc<Counters>) -> Result<Self, String> {
        // The error does not quote the URL, which may hold a password.
        let said = sslmode::take(url)?;
        let mut config: Config =
            said.url.parse().map_err(|cause| format!("the URL of the store: {cause}"))?;
        if options.schema.is_empty() || options.schema.len() > 63 || options.schema.contains('\0') {
            return Err("the schema's name must have 1 to 63 bytes and no NUL".to_string());
        }
        if config.get_application_name().is_none() {
            config.application_name(&options.application_name);
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(options.connect_timeout);
        }
        // Where the URL names several servers, the one that writes is meant.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        // A server or a network that is gone without a word is noticed soon, and not after a quarter of an hour.
        config.keepalives_idle(SILENCE).keepalives_interval(Duration::from_secs(3)).keepalives_retries(3);
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(SILENCE);
        }
        let ms = |duration: Duration| duration.as_millis().min(2_147_483_647);
        // Plans by index, whatever the statistics of a young or a just emptied table say: every statement on
        // the way of a turn finds its rows by key. Where the keys come from a list, the join condition is
        // `key = ANY (ARRAY[list.key])`. With `key = list.key` the planner may as well read an index from end to
        // end and look each row up in the list, which it prefers if the last vacuum found the table empty: then
        // the statement visits all dead rows. That plan needs an equality by which both sides can be sorted; an
        // array has none.
        let settings = format!(
            "SET statement_timeout = {}; SET lock_timeout = {}; \
             SET idle_in_transaction_session_timeout = {}; SET plan_cache_mode = force_generic_plan; \
             SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off; \
             SET default_transaction_isolation = 'read committed'; SET client_min_messages = warning",
            ms(options.statement_timeout),
            ms(options.lock_timeout),
            ms(options.idle_in_transaction_timeout),
        );
        let lock_wait = match options.lock_timeout {
            Duration::ZERO => LOCK_WAIT,
            limit => limit.min(LOCK_WAIT),
        };
        // Zero would be no limit at all.
        let carrier_settings = format!("SET lock_timeout = {}", ms(lock_wait).max(1));
        let schema = format!("\"{}\"", options.schema.replace('"', "\"\""));
        let tls = tls::encrypt(&options.tls, &said, &mut config)?;
        let connect_timeout = options.connect_timeout;
        // The server ends a statement after its time, and says so. If it does not even do that, it is not there.
        let patience = options.statement_timeout.checked_add(connect_timeout);
        let patience = patience.filter(|_| !options.statement_timeout.is_zero());
        Ok(Self { config, tls, settings, carrier_settings, schema, connect_timeout, patience, counters })
    }

    /// A new connection, with our settings.
    pub(crate) async fn connect(&self) -> Result<Conn<'static>, Fault> {
        self.open(Plain).await
    }

    /// A new connection for the task that everybody waits for: it waits for a row only briefly.
    pub(crate) async fn connect_carrier(&self) -> Result<Conn<'static>, Fault> {
        let conn = self.connect().await?;
        self.make_carrier(&conn).await?;
        Ok(conn)
    }

    /// Makes a connection the carrier's.
    pub(crate) async fn make_carrier(&self, conn: &Conn<'static>) -> Result<(), Fault> {
        Ok(conn.answer(conn.client.batch_execute(&self.carrier_settings)).await??)
    }

    /// A new connection whose messages beside the answers go to `driver`.
    pub(crate) async fn open<D>(&self, driver: D) -> Result<Conn<'static>, Fault>
    where
        D: Driver,
    {
        let conn = tokio::time::timeout(self.connect_timeout, self.open_at_last(driver)).await;
        conn.map_err(|_| Fault::NoConnection("the server did not answer in time".to_string()))?
    }

    async fn open_at_last<D>(&self, driver: D) -> Result<Conn<'static>, Fault>
    where
        D: Driver,
    {
        let (client, task) = match &self.tls {
            None => open_with(&self.config, NoTls, driver).await?,
            Some(tls) => open_with(&self.config, tls.clone(), driver).await?,
        };
        let conn = Conn {
            client: Handle::Own(client),
            task: Some(task),
            schema: self.schema.clone(),
            statements: Mutex::default(),
            unanswered: AtomicU32::new(0),
            in_transaction: AtomicBool::new(false),
            patience: self.patience,
            counters: Arc::clone(&self.counters),
        };
        conn.client.batch_execute(&self.settings).await?;
        Ok(conn)
    }
}

/// Drives a connection until it ends.
pub(crate) trait Driver {
    fn start<S>(self, connection: Connection<Socket, S>) -> JoinHandle<()>
    where
        S: tokio_postgres::tls::TlsStream + Unpin + Send + 'static;
}

/// Drives a connection that gets nothing but answers.
#[derive(Debug, Clone, Copy)]
struct Plain;

impl Driver for Plain {
    fn start<S>(self, connection: Connection<Socket, S>) -> JoinHandle<()>
    where
        S: tokio_postgres::tls::TlsStream + Unpin + Send + 'static,
    {
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(target: "duroxide::runtime", %error, "a connection to PostgreSQL ended");
            }
        })
    }
}

async fn open_with<T, D>(config: &Config, tls: T, driver: D) -> Result<(Client, JoinHandle<()>), Fault>
where
    T: MakeTlsConnect<Socket>,
    T::TlsConnect: Send,
    T::Stream: Send + Unpin + 'static,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    D: Driver,
{
    let (client, connection) = config.connect(tls).await?;
    Ok((client, driver.start(connection)))
}

/// A connection and the statements that were prepared on it.
pub(crate) struct Conn<'c> {
    pub(crate) client: Handle<'c>,
    task: Option<JoinHandle<()>>,
    schema: String,
    statements: Mutex<HashMap<&'static str, Statement>>,
    /// Questions that nobody has heard the answer to: somebody waits for it, or gave up waiting.
    unanswered: AtomicU32,
    /// Whether [`Self::begin`] was called, and the transaction has not ended.
    in_transaction: AtomicBool,
    patience: Option<Duration>,
    counters: Arc<Counters>,
}

/// Whose the connection is.
pub(crate) enum Handle<'c> {
    Own(Client),
    /// Of a caller who began a transaction on it.
    Callers(&'c Client),
}

impl std::ops::Deref for Handle<'_> {
    type Target = Client;

    fn deref(&self) -> &Client {
        match self {
            Self::Own(client) => client,
            Self::Callers(client) => client,
        }
    }
}

/// What a statement is given.
pub(crate) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

impl<'c> Conn<'c> {
    /// The connection of a caller, whose settings stay as they are.
    pub(crate) fn of_caller(client: &'c Client, schema: String, counters: Arc<Counters>) -> Self {
        Self {
            client: Handle::Callers(client),
            task: None,
            schema,
            statements: Mutex::default(),
            unanswered: AtomicU32::new(0),
            in_transaction: AtomicBool::new(false),
            // The caller decides how long.
            patience: None,
            counters,
        }
    }

    /// The schema, quoted.
    pub(crate) fn schema(&self) -> &str {
        &self.schema
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Whether it may be used for something else: nobody has left it in the middle of anything.
    pub(crate) fn is_at_rest(&self) -> bool {
        let unanswered = self.unanswered.load(Ordering::SeqCst);
        unanswered == 0 && !self.in_transaction.load(Ordering::SeqCst) && !self.is_closed()
    }

    /// Waits for an answer, but not forever. Who is dropped while waiting, or gives up, leaves a connection that is
    /// not at rest.
    pub(crate) async fn answer<T>(&self, question: impl Future<Output = T>) -> Result<T, Fault> {
        self.unanswered.fetch_add(1, Ordering::SeqCst);
        let answer = match self.patience {
            Some(patience) => {
                tokio::time::timeout(patience, question).await.map_err(|_| Fault::NoAnswer(patience))?
            }
            None => question.await,
        };
        self.unanswered.fetch_sub(1, Ordering::SeqCst);
        Ok(answer)
    }

    pub(crate) async fn begin(&self) -> Result<(), Fault> {
        self.in_transaction.store(true, Ordering::SeqCst);
        self.execute("BEGIN", &[]).await.map(drop)
    }

    pub(crate) async fn commit(&self) -> Result<(), Fault> {
        self.execute("COMMIT", &[]).await?;
        self.in_transaction.store(false, Ordering::SeqCst);
        Ok(())
    }

    pub(crate) async fn roll_back(&self) -> Result<(), Fault> {
        self.execute("ROLLBACK", &[]).await?;
        self.in_transaction.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// The prepared statement of a text in which `{s}` stands for the schema.
    pub(crate) async fn prepared(&self, sql: &'static str) -> Result<Statement, Fault> {
        if let Some(statement) = self.lock().get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.answer(self.client.prepare(&sql.replace("{s}", &self.schema))).await??;
        self.lock().insert(sql, statement.clone());
        Ok(statement)
    }

    pub(crate) async fn query(&self, sql: &'static str, params: Params<'_>) -> Result<Vec<Row>, Fault> {
        let statement = self.prepared(sql).await?;
        self.counters.statements.fetch_add(1, Ordering::Relaxed);
        Ok(self.answer(self.client.query(&statement, params)).await??)
    }

    pub(crate) async fn first(&self, sql: &'static str, params: Params<'_>) -> Result<Option<Row>, Fault> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }

    pub(crate) async fn execute(&self, sql: &'static str, params: Params<'_>) -> Result<u64, Fault> {
        let statement = self.prepared(sql).await?;
        self.counters.statements.fetch_add(1, Ordering::Relaxed);
        Ok(self.answer(self.client.execute(&statement, params)).await??)
    }

    pub(crate) fn count_statements(&self, count: usize) {
        count_up(&self.counters.statements, count);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<&'static str, Statement>> {
        self.statements.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn count_up(counter: &AtomicU64, by: usize) {
    counter.fetch_add(u64::try_from(by).unwrap_or(u64::MAX), Ordering::Relaxed);
}

impl Drop for Conn<'_> {
    fn drop(&mut self) {
        // Without this a connection whose server does not answer would live on.
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// Makes and looks after the connections of the pool.
pub(crate) struct Manager(pub(crate) Arc<Target>);

impl managed::Manager for Manager {
    type Type = Conn<'static>;
    type Error = Fault;

    async fn create(&self) -> Result<Conn<'static>, Fault> {
        self.0.connect().await
    }

    async fn recycle(&self, conn: &mut Conn<'static>, _: &Metrics) -> RecycleResult<Fault> {
        if !conn.is_at_rest() {
            return Err(RecycleError::message("closed"));
        }
        Ok(())
    }
}

/// A connection of the pool. It goes back there only if it is at rest; else it is closed, and the server rolls back.
pub(crate) struct Pooled(Option<Object<Manager>>);

impl Pooled {
    /// Takes it out of the pool.
    pub(crate) fn close(mut self) {
        self.0.take().map(Object::take);
    }
}

impl From<Object<Manager>> for Pooled {
    fn from(object: Object<Manager>) -> Self {
        Self(Some(object))
    }
}

impl std::ops::Deref for Pooled {
    type Target = Conn<'static>;

    fn deref(&self) -> &Conn<'static> {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        let Some(object) = self.0.take() else { return };
        if !object.is_at_rest() {
            drop(Object::take(object));
        }
    }
}

//! A store of its own, and a node on it.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::Provider;
use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};

use duroxide_postgres::{PostgresOptions, PostgresProvider};

use super::options::Kind;
use super::raw::Raw;
use super::report::Report;
use super::server;
use super::{Failure, Options};

/// Long enough for everything but a hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// A store of its own, with the raw store beside it.
pub(crate) struct Store {
    pub(crate) provider: Arc<dyn Provider>,
    backend: Backend,
    pub(crate) client: Client,
    pub(crate) raw: Raw,
}

enum Backend {
    /// In a directory that goes with it.
    Sqlite { provider: Arc<SqliteProvider>, _directory: tempfile::TempDir },
    /// In a schema.
    Postgres(Arc<PostgresProvider>),
}

/// What a store has done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Statistics {
    pub(crate) commits: u64,
    pub(crate) calls: u64,
    pub(crate) statements: u64,
}

impl Store {
    pub(crate) async fn open(options: &Options, report: &mut Report) -> Result<Self, Failure> {
        match options.store {
            Kind::Sqlite => Self::sqlite(options, report).await,
            Kind::Postgres => Self::postgres(options, report).await,
        }
    }

    async fn sqlite(options: &Options, report: &mut Report) -> Result<Self, Failure> {
        let directory = tempfile::Builder::new().prefix("duroxide-bench").tempdir_in(&options.dir)?;
        let url = format!("sqlite:{}", directory.path().join("store.db").display());
        let provider = Arc::new(SqliteProvider::new(&url, None).await?);
        let path = provider.path().map(|path| path.display().to_string()).unwrap_or_default();
        report.figure("path", path);
        let durability = format!("{} / {:?}", provider.journal_mode(), provider.synchronous_level());
        report.figure("journal mode / synchronous, as read back", durability);
        let client = Client::new(provider.clone());
        let raw = Raw::sqlite(directory.path())?;
        Ok(Self {
            provider: provider.clone(),
            backend: Backend::Sqlite { provider, _directory: directory },
            client,
            raw,
        })
    }

    async fn postgres(options: &Options, report: &mut Report) -> Result<Self, Failure> {
        let url = server::url(&options.dir)?;
        let schema = server::new_schema();
        let settings = server::settings(&url).await?;
        report.figure("schema", &schema);
        report.figure("fsync / synchronous_commit, as read back", settings);
        let store_options = PostgresOptions { schema, ..PostgresOptions::default() };
        let provider = Arc::new(PostgresProvider::new(&url, Some(store_options)).await?);
        let client = Client::new(provider.clone());
        let raw = Raw::postgres(&url).await?;
        Ok(Self { provider: provider.clone(), backend: Backend::Postgres(provider), client, raw })
    }

    pub(crate) fn statistics(&self) -> Statistics {
        match &self.backend {
            Backend::Sqlite { provider, .. } => {
                let all = provider.statistics();
                Statistics { commits: all.commits, calls: all.calls, statements: all.statements }
            }
            Backend::Postgres(provider) => {
                let all = provider.statistics();
                Statistics { commits: all.commits, calls: all.calls, statements: all.statements }
            }
        }
    }

    pub(crate) async fn node(&self) -> Arc<Runtime> {
        Runtime::start_with_store(self.provider.clone(), activities(), orchestrations()).await
    }

    /// Waits for an instance and insists that it completed.
    pub(crate) async fn completed(&self, instance: &str) -> Result<String, Failure> {
        let status = self.client.wait_for_orchestration(instance, PATIENCE).await?;
        match status {
            OrchestrationStatus::Completed { output, .. } => Ok(output),
            OrchestrationStatus::NotFound
            | OrchestrationStatus::Running { .. }
            | OrchestrationStatus::Failed { .. } => Err(format!("{instance} ended as {status:?}").into()),
        }
    }

    /// The database and its log, in MiB.
    pub(crate) fn file_size(&self) -> String {
        let Backend::Sqlite { provider, .. } = &self.backend else { return "on the server".to_string() };
        let Some(path) = provider.path() else { return "none".to_string() };
        let size =
            |path: &std::path::Path| std::fs::metadata(path).map_or(0, |data| data.len()) as f64 / 1048576.0;
        let log = std::path::PathBuf::from(format!("{}-wal", path.display()));
        format!("{:.1} MiB, log {:.1} MiB", size(path), size(&log))
    }
}

fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Echo", |_ctx: ActivityContext, input: String| async move { Ok(input) })
        .build()
}

fn orchestrations() -> OrchestrationRegistry {
    let count = |input: &str| input.parse::<usize>().map_err(|_| "the input is a number".to_string());
    OrchestrationRegistry::builder()
        .register("Hello", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_activity("Echo", input).await
        })
        .register("Chain", move |ctx: OrchestrationContext, input: String| async move {
            for _ in 0..count(&input)? {
                ctx.schedule_activity("Echo", "step").await?;
            }
            Ok(input)
        })
        .register("FanOut", move |ctx: OrchestrationContext, input: String| async move {
            let all = (0..count(&input)?).map(|n| ctx.schedule_activity("Echo", n.to_string())).collect();
            let results = ctx.join(all).await;
            Ok(results.into_iter().filter(Result::is_ok).count().to_string())
        })
        .register("Drain", move |ctx: OrchestrationContext, input: String| async move {
            for _ in 0..count(&input)? {
                ctx.dequeue_event("queue").await;
            }
            Ok(input)
        })
        .register("Parked", |ctx: OrchestrationContext, _input: String| async move {
            Ok(ctx.schedule_wait("never").await)
        })
        .build()
}

//! A transaction elsewhere in the database that keeps its snapshot, as `pg_dump` and long queries do: no dead row that is
//! younger may be removed, and the queues leave some with every message.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use duroxide::providers::Provider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use duroxide_postgres::{PostgresOptions, PostgresProvider};
use tokio::task::JoinSet;

use super::Options;
use crate::floor::report::Report;
use crate::floor::store::PATIENCE;
use crate::floor::{Failure, server};

/// Instances under way at any time.
const AT_A_TIME: usize = 100;
/// Caches and statistics settle before anything is measured.
const WARM_UP: Duration = Duration::from_secs(10);
/// What a rate is taken over.
const WINDOW: Duration = Duration::from_secs(20);
/// The rate must be back so long after the snapshot is gone.
const RECOVERY: Duration = Duration::from_secs(60);
/// The rate under the snapshot and after it, as parts of the rate before.
const HELD_AT_LEAST: f64 = 0.7;
const AFTER_AT_LEAST: f64 = 0.95;

/// Whether the throughput outlives the snapshot.
pub(crate) async fn run(options: &Options) -> Result<bool, Failure> {
    let mut report = Report::default();
    let held_for = options.lasts;
    report.section(&format!("a snapshot held for {held_for:?} at full load, PostgreSQL"));
    let url = server::url(&options.dir)?;
    let schema = server::new_schema();
    report.figure("fsync / synchronous_commit, as read back", server::settings(&url).await?);
    let store_options = PostgresOptions { schema: schema.clone(), ..PostgresOptions::default() };
    let store = Arc::new(PostgresProvider::new(&url, Some(store_options)).await?);
    let node =
        Runtime::start_with_store(store.clone() as Arc<dyn Provider>, activities(), orchestrations()).await;
    let load = Load::start(&node.client());
    load.rate(WARM_UP).await?;
    let before = load.rate(WINDOW).await?;
    report.figure("instances a second before", format!("{before:.0}"));

    let (mut other, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    let snapshot = other.build_transaction().isolation_level(tokio_postgres::IsolationLevel::RepeatableRead);
    let snapshot = snapshot.read_only(true).start().await?;
    snapshot.query(&format!("SELECT count(*) FROM {schema}.instances"), &[]).await?;
    let (mut held, end) = (before, tokio::time::Instant::now() + held_for);
    while tokio::time::Instant::now() < end {
        held = load.rate(WINDOW.min(held_for)).await?;
        let left = end.saturating_duration_since(tokio::time::Instant::now());
        report.figure(&format!("instances a second, {left:.0?} before it ends"), format!("{held:.0}"));
    }
    dead_rows(&mut report, &url, &schema).await?;
    snapshot.rollback().await?;
    drop(other);
    load.rate(RECOVERY - WINDOW).await?;
    let after = load.rate(WINDOW).await?;
    report.figure("instances a second, a minute after its end", format!("{after:.0}"));
    load.stop().await?;
    node.shutdown(None).await;
    report.at_least("under the snapshot / before", held / before, HELD_AT_LEAST);
    report.at_least("a minute after its end / before", after / before, AFTER_AT_LEAST);
    Ok(report.finish())
}

/// What vacuum may not remove.
async fn dead_rows(report: &mut Report, url: &str, schema: &str) -> Result<(), Failure> {
    const SQL: &str = "SELECT relname::text, n_dead_tup, n_live_tup, pg_total_relation_size(relid) / 1048576 \
         FROM pg_stat_user_tables WHERE schemaname = $1 AND n_dead_tup > 1000 ORDER BY n_dead_tup DESC";
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    for row in client.query(SQL, &[&schema]).await? {
        let (dead, live, size): (i64, i64, i64) = (row.get(1), row.get(2), row.get(3));
        report.figure(&row.get::<_, String>(0), format!("{dead} dead rows, {live} live, {size} MiB"));
    }
    Ok(())
}

/// Instances that run one after another, many at a time.
struct Load {
    ended: Arc<AtomicUsize>,
    stopping: Arc<AtomicBool>,
    tasks: JoinSet<Result<(), duroxide::ClientError>>,
}

impl Load {
    fn start(client: &Client) -> Self {
        let (ended, stopping) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let mut tasks = JoinSet::new();
        for lane in 0..AT_A_TIME {
            let (client, ended, stopping) = (client.clone(), ended.clone(), stopping.clone());
            tasks.spawn(async move {
                let mut n = 0_u64;
                while !stopping.load(Ordering::Relaxed) {
                    let id = format!("load-{lane}-{n}");
                    client.start_orchestration(&id, "Hello", "x").await?;
                    client.wait_for_orchestration(&id, PATIENCE).await?;
                    ended.fetch_add(1, Ordering::Relaxed);
                    n += 1;
                }
                Ok(())
            });
        }
        Self { ended, stopping, tasks }
    }

    /// Instances that end in a second, over this time.
    async fn rate(&self, over: Duration) -> Result<f64, Failure> {
        let (begin, began) = (self.ended.load(Ordering::Relaxed), tokio::time::Instant::now());
        tokio::time::sleep(over).await;
        let ended = self.ended.load(Ordering::Relaxed) - begin;
        if self.tasks.is_empty() {
            return Err("nothing runs any more".into());
        }
        Ok(ended as f64 / began.elapsed().as_secs_f64())
    }

    async fn stop(mut self) -> Result<(), Failure> {
        self.stopping.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended??;
        }
        Ok(())
    }
}

fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Echo", |_ctx: ActivityContext, input: String| async move { Ok(input) })
        .build()
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Hello", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_activity("Echo", input).await
        })
        .build()
}

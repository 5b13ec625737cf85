//! One instance that continues as new again and again, with retention: the file stops growing.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{RetentionPolicy, Runtime};
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry, RuntimeOptions};

use crate::floor::Failure;
use crate::floor::report::Report;
use crate::floor::store::PATIENCE;
use crate::size::Size;

/// The file after this part of the executions is what the rest is compared with.
const FIRST_PART: usize = 10;
/// But not before this many executions, or half of a shorter run: the first pages of the tables come first.
const WARM_AFTER_EXECUTIONS: usize = 500;
/// What the file may grow by after that.
const GROWTH: f64 = 1.20;
/// Executions that are kept: many beside those that end between two rounds of retention.
const KEPT: u32 = 100;

/// What each execution leaves in the history.
const LOAD_BYTES: usize = 2000;

/// Whether the file stays as it was after the first part of the executions.
pub(crate) async fn run(size: Size) -> Result<bool, Failure> {
    let mut report = Report::default();
    report.section(&format!("{} executions of one instance", size.count));
    let directory = size.directory()?;
    let path = directory.path().join("store.db");
    let store = Arc::new(SqliteProvider::new(&format!("sqlite:{}", path.display()), None).await?);
    let options = RuntimeOptions {
        retention: Some(RetentionPolicy {
            keep_executions: Some(KEPT),
            interval: Duration::from_millis(50),
            ..Default::default()
        }),
        ..Default::default()
    };
    let sizes: Sizes = Arc::default();
    let activities = activities(path, size.count, sizes.clone());
    let node = Runtime::start_with_options(store, activities, orchestrations(), options).await;
    let client = node.client();
    let input = (1_u64, u64::try_from(size.count)?);
    client.start_orchestration_typed("eternal", "Eternal", input).await?;
    let ended = client.wait_for_orchestration_typed::<u64>("eternal", PATIENCE).await??;
    node.shutdown(None).await;
    let sizes = sizes.lock().map_err(|_| "a step panicked")?.clone();
    for (execution, kib) in &sizes {
        report.figure(&format!("file after {execution} executions"), format!("{kib} KiB"));
    }
    let kib = |seen: Option<&(u64, u64)>| seen.map_or(f64::NAN, |(_, kib)| *kib as f64);
    report.figure("executions", ended);
    let warm_after = u64::try_from((size.count / FIRST_PART).max(WARM_AFTER_EXECUTIONS.min(size.count / 2)))?;
    let early = sizes.iter().find(|(execution, _)| *execution >= warm_after);
    report.at_most("file at the end / early", kib(sizes.last()) / kib(early), GROWTH);
    Ok(report.finish())
}

/// Sizes of the file, in KiB, with the execution that saw them.
type Sizes = Arc<Mutex<Vec<(u64, u64)>>>;

/// One step of each execution; one in a while looks at the file.
fn activities(path: PathBuf, count: usize, sizes: Sizes) -> ActivityRegistry {
    let part = (count / FIRST_PART).max(1) as u64;
    ActivityRegistry::builder()
        .register_typed("Step", move |_ctx: ActivityContext, (execution, _load): (u64, String)| {
            let (path, sizes) = (path.clone(), sizes.clone());
            async move {
                if execution % part == 0 {
                    let size = kib(&path).map_err(|error| error.to_string())?;
                    sizes.lock().map_err(|error| error.to_string())?.push((execution, size));
                }
                Ok(())
            }
        })
        .build()
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register_typed("Eternal", |ctx: OrchestrationContext, (execution, count): (u64, u64)| async move {
            let load = "x".repeat(LOAD_BYTES);
            ctx.schedule_activity_typed::<_, ()>("Step", &(execution, load)).await?;
            if execution < count {
                ctx.continue_as_new_typed(&(execution + 1, count)).await?;
            }
            Ok(execution)
        })
        .build()
}

/// How large the file is, or will be once its log is written back.
fn kib(path: &Path) -> rusqlite::Result<u64> {
    let raw = rusqlite::Connection::open(path)?;
    raw.busy_timeout(Duration::from_secs(10))?;
    let pages: u32 = raw.query_row("PRAGMA page_count", [], |row| row.get(0))?;
    let page_bytes: u32 = raw.query_row("PRAGMA page_size", [], |row| row.get(0))?;
    Ok(u64::from(pages) * u64::from(page_bytes) / 1024)
}

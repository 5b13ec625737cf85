//! A late page of a long listing.

use std::time::{Duration, Instant};

use duroxide::providers::InstanceQuery;
use duroxide::providers::sqlite::SqliteProvider;
use duroxide::{Client, Cursor};

use crate::floor::Failure;
use crate::floor::report::{Report, median, micros, ratio};
use crate::size::Size;

/// The late page.
const PAGE: usize = 500;
/// How often each page is read; the median counts.
const READS: usize = 21;

/// Whether a late page costs about as much as the first.
pub(crate) async fn run(size: Size) -> Result<bool, Failure> {
    let mut report = Report::default();
    report.section(&format!("page {PAGE} of {} instances", size.count));
    let directory = size.directory()?;
    let path = directory.path().join("store.db");
    let store = std::sync::Arc::new(SqliteProvider::new(&format!("sqlite:{}", path.display()), None).await?);
    fill(&rusqlite::Connection::open(&path)?, size.count)?;
    let client = Client::new(store);
    let text = |text: &str| Some(text.to_string());
    // Pages so large that page 500 of what matches exists, up to the usual size.
    let limit =
        |share: usize| Some(u32::try_from((size.count / share / (PAGE + 1)).clamp(1, 100)).unwrap_or(100));
    for (what, query) in [
        ("all", InstanceQuery { limit: limit(1), ..Default::default() }),
        ("status", InstanceQuery { status: text("Completed"), limit: limit(3), ..Default::default() }),
        ("name", InstanceQuery { name: text("Listed1"), limit: limit(10), ..Default::default() }),
        ("id prefix", InstanceQuery { id_prefix: text("instance-"), limit: limit(1), ..Default::default() }),
    ] {
        let late = cursor_of_late_page(&client, &query).await?;
        let first = time(&client, &query).await?;
        let late = time(&client, &InstanceQuery { after: Some(late), ..query.clone() }).await?;
        report.figure(&format!("{what}: page 1"), micros(first));
        report.figure(&format!("{what}: page {PAGE}"), micros(late));
        report.at_most(&format!("{what}: page {PAGE} / page 1"), ratio(late, first), 3.0);
    }
    let started = Instant::now();
    client.get_system_metrics().await?;
    report.figure("system metrics", micros(started.elapsed()));
    Ok(report.finish())
}

async fn cursor_of_late_page(client: &Client, query: &InstanceQuery) -> Result<Cursor, Failure> {
    let mut query = query.clone();
    for _ in 1..PAGE {
        query.after = client.list_instances_page(&query).await?.next;
        if query.after.is_none() {
            return Err(format!("there are fewer than {PAGE} pages: ask for more instances").into());
        }
    }
    query.after.ok_or_else(|| "there is only one page".into())
}

async fn time(client: &Client, query: &InstanceQuery) -> Result<Duration, Failure> {
    let mut times = Vec::with_capacity(READS);
    for _ in 0..READS {
        let started = Instant::now();
        client.list_instances_page(query).await?;
        times.push(started.elapsed());
    }
    Ok(median(&mut times))
}

/// Finished and running instances of ten names, a thousand in each millisecond, written past the store.
fn fill(raw: &rusqlite::Connection, count: usize) -> Result<(), Failure> {
    const NUMBERS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1) ";
    raw.busy_timeout(Duration::from_secs(60))?;
    let count = i64::try_from(count)?;
    let instances = "INSERT INTO instances (key, instance_id, incarnation, name, version, created_at, updated_at, \
         ended_at, status, current_execution_id, pinned_key, inbox_count, next_position) \
         SELECT i, printf('instance-%08d', i * 7919 % 100000007), i, printf('Listed%d', i % 10), '1.0.0', \
         1700000000000 + i / 1000, 1700000000000 + i / 1000, \
         CASE i % 3 WHEN 0 THEN NULL ELSE 1700000000000 + i / 1000 END, 1 + i % 3, 1, -1, 0, 1 FROM n";
    let executions = "INSERT INTO executions (instance_key, execution_id, status, started_at, event_count) \
         SELECT i, 1, 1 + i % 3, 1700000000000, 5 FROM n";
    for sql in [instances, executions] {
        let sql = match sql.split_once(" SELECT ") {
            Some((insert, select)) => format!("{insert} {NUMBERS} SELECT {select}"),
            None => return Err("the statement has no SELECT".into()),
        };
        raw.execute(&sql, [count])?;
    }
    Ok(())
}

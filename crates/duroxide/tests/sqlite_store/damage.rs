//! One damaged row delays, sets aside or fails its own instance, and nobody else's.
//!
//! The list of columns is read from the schema, so that a new column is covered when it is added.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::Provider;
use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, Client, FindingKind, HealthOptions, OrchestrationContext, OrchestrationRegistry,
    OrchestrationStatus, RuntimeOptions, TagFilter,
};
use futures::StreamExt;

use crate::fixture::{LONG, NOW, Place, activity, completed, start, work_request};

const HEALTHY: [&str; 3] = ["healthy-1", "healthy-2", "zealous"];
/// Sorts before the others wherever texts are compared.
const VICTIM: &str = "a-victim";

async fn run(store: &Arc<SqliteProvider>, tags: TagFilter) -> Arc<Runtime> {
    let activities = ActivityRegistry::builder()
        .register("Step", |_: ActivityContext, input: String| async move { Ok(input) })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("Flow", |ctx: OrchestrationContext, _: String| async move {
            ctx.set_kv_value("k", "v");
            ctx.set_custom_status("waiting");
            let step = ctx.schedule_activity("Step", "later").with_tag("later");
            let in_session =
                ctx.schedule_activity_on_session("Step", "s", ctx.instance_id()).with_tag("later");
            let _timer = ctx.schedule_timer(Duration::from_secs(3600));
            let go = ctx.schedule_wait("go").await;
            let _unfinished = (step, in_session);
            ctx.schedule_activity("Step", go).await
        })
        .build();
    let lock = Duration::from_secs(1);
    let options = RuntimeOptions {
        orchestrator_lock_timeout: lock,
        orchestrator_lock_renewal_buffer: lock / 2,
        dispatcher_min_poll_interval: Duration::from_millis(5),
        max_attempts: 2,
        worker_tag_filter: tags,
        ..RuntimeOptions::default()
    };
    Runtime::start_with_options(store.clone(), activities, orchestrations, options).await
}

/// A store in which all instances have messages, activities in the queue, timers and values.
async fn template(place: &Place) {
    let store = Arc::new(place.open().await);
    let client = Client::new(store.clone());
    // Nobody serves the tag of two of the activities: they stay in the queue.
    let runtime = run(&store, TagFilter::default()).await;
    for id in [VICTIM].iter().chain(&HEALTHY) {
        client.start_orchestration(*id, "Flow", "").await.unwrap();
    }
    for id in [VICTIM].iter().chain(&HEALTHY) {
        while client.read_execution_history(id, 1).await.unwrap().len() < 7 {
            tokio::task::yield_now().await;
        }
    }
    runtime.shutdown(None).await;
    for id in [VICTIM].iter().chain(&HEALTHY) {
        client.raise_event(*id, "go", "went").await.unwrap();
    }
    client.raise_event("early", "go", "").await.unwrap();
    place
        .raw()
        .execute_batch(
            "INSERT INTO set_aside (instance_id, kind, set_aside_at, cause, item) VALUES ('x', 6, 1, 'c', 'i'); \
             INSERT INTO sessions VALUES ('s', 'gone', 1, 1); \
             INSERT INTO kept_messages SELECT key, 1000, '{}' FROM instances WHERE instance_id = 'a-victim'",
        )
        .unwrap();
}

/// One column of one table and what is put into it.
#[derive(Debug, Clone)]
struct Damage {
    table: String,
    column: String,
    value: &'static str,
}

impl Damage {
    /// Damages the victim's rows, or one row of a table that has none of its own.
    fn apply(&self, path: &Path) {
        let raw = rusqlite::Connection::open(path).unwrap();
        let Self { table, column, value } = self;
        let mut columns = raw.prepare(&format!("PRAGMA table_info({table})")).unwrap();
        let names: Vec<String> =
            columns.query_map([], |row| row.get(1)).unwrap().map(Result::unwrap).collect();
        let of_victim = if names.iter().any(|name| name == "instance_key") {
            format!("instance_key = (SELECT key FROM instances WHERE instance_id = '{VICTIM}')")
        } else if names.iter().any(|name| name == "instance_id")
            && !matches!(&**table, "early_messages" | "set_aside")
        {
            format!("instance_id = '{VICTIM}'")
        } else if names.iter().any(|name| name == "session_id") && table == "session_heads" {
            format!("session_id = '{VICTIM}'")
        } else {
            "1".to_string()
        };
        // A value that a constraint refuses cannot get there.
        let sql = format!("UPDATE OR IGNORE {table} SET {column} = {value} WHERE {of_victim}");
        if let Err(error) = raw.execute(&sql, []) {
            let code = error.sqlite_error_code();
            let refused = [rusqlite::ErrorCode::ConstraintViolation, rusqlite::ErrorCode::TypeMismatch];
            assert!(code.is_some_and(|code| refused.contains(&code)), "{sql}: {error}");
        }
    }
}

/// Everything that can be put into every column of every table.
fn all_damage(path: &Path) -> Vec<Damage> {
    let raw = rusqlite::Connection::open(path).unwrap();
    let sql = "SELECT t.name, c.name, c.type, c.\"notnull\" FROM sqlite_schema t, pragma_table_info(t.name) c \
               WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%' ORDER BY t.name, c.cid";
    let mut statement = raw.prepare(sql).unwrap();
    let columns = statement.query_map([], |row| {
        Ok((
            row.get::<_, String>(0)?,
            row.get::<_, String>(1)?,
            row.get::<_, String>(2)?,
            row.get::<_, bool>(3)?,
        ))
    });
    let mut all = Vec::new();
    for (table, column, kind, not_null) in columns.unwrap().map(Result::unwrap) {
        let mut values: Vec<&'static str> = match &*kind {
            "TEXT" => vec!["CAST(x'61ff62' AS TEXT)", "''"],
            "INTEGER" => vec!["9223372036854775807", "-77", "77"],
            other => panic!("a column of type {other}: say how it can be damaged"),
        };
        if !not_null {
            values.push("NULL");
        }
        all.extend(values.into_iter().map(|value| Damage {
            table: table.clone(),
            column: column.clone(),
            value,
        }));
    }
    all
}

/// What must not go unnoticed: reading these fails.
fn must_be_named(damage: &Damage) -> bool {
    let unreadable = damage.value.contains("ff");
    match &*damage.table {
        "instances" if unreadable => !matches!(&*damage.column, "bounce"),
        "instances" => matches!(&*damage.column, "status" | "lock_nonce") && damage.value != "NULL",
        "kv" => unreadable,
        _ => false,
    }
}

/// How long a victim may take: three attempts with their locks.
const SOON: Duration = Duration::from_secs(8);

/// Whether only the deletion is left: its message waits for the end of time, as if it were delayed.
fn waits_forever(damage: &Damage) -> bool {
    (&*damage.table, &*damage.column) == ("inbox", "visible_at") && damage.value.len() > 10
}

/// The victim ends, or it is named: among what was set aside or by health. A repair puts back what is missing.
async fn check_victim(client: &Client, store: &SqliteProvider, damage: &Damage) -> Result<(), String> {
    // Turns of it are asked for until they are poison; one that health names does nothing at all.
    let deadline = tokio::time::Instant::now() + SOON;
    let findings = loop {
        let status =
            client.get_orchestration_status(VICTIM).await.map_err(|error| format!("status: {error}"))?;
        if matches!(status, OrchestrationStatus::Completed { .. } | OrchestrationStatus::Failed { .. }) {
            return Ok(());
        }
        let aside = store.list_set_aside().await.map_err(|error| format!("set aside: {error}"))?;
        if aside.iter().any(|row| row.instance != "x") || waits_forever(damage) {
            return Ok(());
        }
        let options = HealthOptions { overdue_after: Duration::from_secs(1), ..HealthOptions::default() };
        let report = client.health_with(&options).await.map_err(|error| format!("health: {error}"))?;
        let mut findings = report.findings;
        // The template has one of its own.
        findings.retain(|found| found.kind != FindingKind::OrphanMessages);
        if !findings.is_empty() {
            break findings;
        }
        if tokio::time::Instant::now() > deadline {
            return Err(format!("the victim neither ends nor is it named: {status:?}"));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    for found in &findings {
        let named = found.instance.as_deref().filter(|id| found.kind.is_repairable() && !id.is_empty());
        let Some(instance) = named else {
            continue;
        };
        match client.repair(instance).await {
            Ok(1..) => {}
            other => return Err(format!("a repair of {found:?}: {other:?}")),
        }
    }
    Ok(())
}

/// Runs the store to the end; what is wrong with that, if anything.
async fn outcome(from: &Path, damage: &Damage) -> Result<(), String> {
    let place = Place::new();
    std::fs::copy(from, place.path()).unwrap();
    damage.apply(&place.path());
    let store =
        SqliteProvider::new(&place.url(), None).await.map_err(|error| format!("does not open: {error}"))?;
    let store = Arc::new(store);
    let client = Client::new(store.clone());
    let runtime = run(&store, TagFilter::any()).await;
    for id in HEALTHY {
        let status = client.wait_for_orchestration(id, Duration::from_secs(20)).await;
        if !matches!(&status, Ok(OrchestrationStatus::Completed { output, .. }) if output == "went") {
            return Err(format!("{id} did not complete: {status:?}"));
        }
    }
    let mut named = vec![VICTIM.to_string()];
    check_victim(&client, &store, damage).await?;
    if must_be_named(damage) {
        let ended = client.wait_for_orchestration(VICTIM, Duration::from_secs(20)).await;
        let aside = store.list_set_aside().await.map_err(|error| format!("set aside: {error}"))?;
        named.extend(aside.iter().filter(|row| row.instance != "x").map(|row| row.instance.clone()));
        let failed = matches!(ended, Ok(OrchestrationStatus::Failed { .. }));
        let listed = named.len() > 1
            && aside
                .iter()
                .any(|row| row.cause.contains(&damage.column) || damage.column.starts_with("lock"));
        if !failed && !listed {
            return Err(format!("the victim is not named: {ended:?}, {aside:?}"));
        }
    }
    runtime.shutdown(None).await;
    for id in named {
        if let Err(error) = client.delete_instance(&id, true).await
            && !error.to_string().contains("not found")
        {
            return Err(format!("'{id}' cannot be deleted: {error}"));
        }
    }
    let left = client.list_all_instances().await.map_err(|error| format!("listing: {error}"))?;
    if left.iter().filter(|id| HEALTHY.contains(&id.as_str())).count() != HEALTHY.len() {
        return Err(format!("left: {left:?}"));
    }
    if must_be_named(damage) && left.len() != HEALTHY.len() {
        return Err(format!("the victim was not deleted: {left:?}"));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_column_concerns_its_own_instance_only() {
    let place = Place::new();
    template(&place).await;
    let path = place.path();
    let only = std::env::var("DUROXIDE_TEST_DAMAGE").ok();
    let all = all_damage(&path);
    assert!(all.len() > 200, "the list comes from the schema: {}", all.len());
    let chosen = all.into_iter().filter(|damage| {
        only.as_ref().is_none_or(|only| format!("{}.{}", damage.table, damage.column).contains(only))
    });
    let outcomes = futures::stream::iter(chosen).map(|damage| {
        let path = path.clone();
        async move {
            let outcome = tokio::time::timeout(LONG, outcome(&path, &damage)).await;
            outcome
                .unwrap_or_else(|_| Err("took too long".to_string()))
                .map_err(|text| format!("{damage:?}: {text}"))
        }
    });
    let wrong: Vec<String> =
        outcomes.buffer_unordered(16).filter_map(async |outcome| outcome.err()).collect().await;
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

/// SQLite numbers a new row after the largest number in the table, so that all that come after a damaged one are as odd.
#[tokio::test]
async fn work_that_is_queued_after_an_item_with_a_negative_id_can_be_completed() {
    let place = Place::new();
    let store = place.open().await;
    for instance in [VICTIM, HEALTHY[0]] {
        store.enqueue_for_orchestrator(start(instance), None).await.unwrap();
    }
    store.enqueue_for_worker(activity(VICTIM, 2)).await.unwrap();
    place.raw().execute("UPDATE work_items SET id = -77", []).unwrap();
    store.enqueue_for_worker(activity(HEALTHY[0], 2)).await.unwrap();
    let count = "SELECT count(*) FROM work_items WHERE id < 0";
    assert_eq!(place.raw().query_row(count, [], |row| row.get::<_, i64>(0)).unwrap(), 2);
    let work = store.fetch_work(work_request(2, NOW)).await.unwrap();
    assert_eq!(work.len(), 2);
    for work in work {
        let done = completed(work.item.instance(), 2);
        store.ack_work_item(&work.lock_token, Some(done)).await.unwrap();
    }
}

async fn family(store: &Arc<SqliteProvider>) -> Arc<Runtime> {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Parent", |ctx: OrchestrationContext, _: String| async move {
            let child = ctx.schedule_sub_orchestration_with_id("Child", VICTIM, "").await;
            child.map_err(|_| "the child failed".to_string())
        })
        .register("Child", |ctx: OrchestrationContext, _: String| async move {
            let grandchild = ctx.schedule_sub_orchestration_with_id("Grandchild", "grandchild", "");
            ctx.schedule_wait("go").await;
            grandchild.await
        })
        .register("Grandchild", |ctx: OrchestrationContext, _: String| async move {
            Ok(ctx.schedule_wait("never").await)
        })
        .build();
    let options = RuntimeOptions {
        dispatcher_min_poll_interval: Duration::from_millis(5),
        ..RuntimeOptions::default()
    };
    let activities = ActivityRegistry::builder().build();
    Runtime::start_with_options(store.clone(), activities, orchestrations, options).await
}

/// The parent of a child whose row is damaged in this way hears of its end, and so does the child's own child.
async fn family_ends(column: &str, value: &str) {
    let place = Place::new();
    let store = Arc::new(place.open().await);
    let client = Client::new(store.clone());
    let runtime = family(&store).await;
    client.start_orchestration("parent", "Parent", "").await.unwrap();
    for id in [VICTIM, "grandchild"] {
        while client.read_execution_history(id, 1).await.map_or(0, |events| events.len()) < 2 {
            tokio::task::yield_now().await;
        }
    }
    runtime.shutdown(None).await;
    client.raise_event(VICTIM, "go", "").await.unwrap();
    let sql = format!("UPDATE instances SET {column} = {value} WHERE instance_id = '{VICTIM}'");
    assert_eq!(place.raw().execute(&sql, []).unwrap(), 1);
    let runtime = family(&store).await;
    for (id, text) in [("parent", "the child failed"), ("grandchild", "its row is damaged")] {
        let ended = client.wait_for_orchestration(id, Duration::from_secs(10)).await;
        let Ok(OrchestrationStatus::Failed { details, .. }) = &ended else {
            panic!("{column} = {value}: {id}: {ended:?}")
        };
        assert!(details.display_message().contains(text), "{column} = {value}: {id}: {details:?}");
    }
    runtime.shutdown(None).await;
    client.delete_instance("parent", true).await.unwrap();
    assert_eq!(client.list_all_instances().await.unwrap(), Vec::<String>::new(), "{column} = {value}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_parent_and_the_children_of_an_instance_with_a_damaged_row_are_told() {
    let unreadable = "CAST(x'61ff62' AS TEXT)";
    for column in ["name", "version", "route_name", "route_version", "parent_instance"] {
        family_ends(column, unreadable).await;
    }
    family_ends("status", "77").await;
    family_ends("lock_nonce", "77").await;
}

/// The columns of the table of instances, but for those by which an instance is found.
fn columns_of_instances(place: &Place) -> Vec<String> {
    let raw = place.raw();
    let mut statement = raw.prepare("SELECT name FROM pragma_table_info('instances')").unwrap();
    let names = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    names.map(Result::unwrap).filter(|name| name != "key" && name != "instance_id").collect()
}

/// Whether a child with this damage has ended; an error if its parent has not heard of that.
async fn parent_of_damaged_child(column: &str, value: &str) -> Result<bool, String> {
    let place = Place::new();
    let store = Arc::new(place.open().await);
    let client = Client::new(store.clone());
    let runtime = short_family(&store).await;
    client.start_orchestration("parent", "Parent", "").await.unwrap();
    while client.read_execution_history(VICTIM, 1).await.map_or(0, |events| events.len()) < 2 {
        tokio::task::yield_now().await;
    }
    runtime.shutdown(None).await;
    let sql = format!("UPDATE instances SET {column} = {value} WHERE instance_id = '{VICTIM}'");
    match place.raw().execute(&sql, []) {
        Ok(changed) => assert_eq!(changed, 1, "{column}"),
        // A value that a constraint refuses cannot get there.
        Err(error) => {
            let refused = [rusqlite::ErrorCode::ConstraintViolation, rusqlite::ErrorCode::TypeMismatch];
            assert!(error.sqlite_error_code().is_some_and(|code| refused.contains(&code)), "{sql}: {error}");
            return Ok(false);
        }
    }
    drop(client.raise_event(VICTIM, "go", "").await);
    let runtime = short_family(&store).await;
    // Its end if it has one. A row that says that it has ended, or waits for nothing, is for `client.health()`.
    let child = client.wait_for_orchestration(VICTIM, Duration::from_secs(2)).await;
    let is_end = |status: &Result<OrchestrationStatus, _>| {
        matches!(status, Ok(OrchestrationStatus::Completed { .. } | OrchestrationStatus::Failed { .. }))
    };
    if !is_end(&child) {
        runtime.shutdown(None).await;
        return Ok(false);
    }
    let parent = client.wait_for_orchestration("parent", Duration::from_secs(10)).await;
    runtime.shutdown(None).await;
    if is_end(&parent) { Ok(true) } else { Err(format!("{column} = {value}: {child:?}, {parent:?}")) }
}

async fn short_family(store: &Arc<SqliteProvider>) -> Arc<Runtime> {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Parent", |ctx: OrchestrationContext, _: String| async move {
            let child = ctx.schedule_sub_orchestration_with_id("Child", VICTIM, "").await;
            child.map_err(|_| "the child failed".to_string())
        })
        .register(
            "Child",
            |ctx: OrchestrationContext, _: String| async move { Ok(ctx.schedule_wait("go").await) },
        )
        .build();
    let options = RuntimeOptions {
        dispatcher_min_poll_interval: Duration::from_millis(5),
        ..RuntimeOptions::default()
    };
    let activities = ActivityRegistry::builder().build();
    Runtime::start_with_options(store.clone(), activities, orchestrations, options).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_parent_of_a_child_that_ends_because_of_damage_is_told_whatever_is_damaged() {
    let place = Place::new();
    drop(place.open().await);
    let values = ["CAST(x'61ff62' AS TEXT)", "''", "-77", "77", "9223372036854775807", "NULL"];
    let all: Vec<(String, &str)> = columns_of_instances(&place)
        .into_iter()
        .flat_map(|column| values.map(|value| (column.clone(), value)))
        .collect();
    assert!(all.len() > 100, "the list comes from the schema: {}", all.len());
    let outcomes = futures::stream::iter(all)
        .map(async |(column, value)| parent_of_damaged_child(&column, value).await)
        .buffer_unordered(16);
    let outcomes: Vec<Result<bool, String>> = outcomes.collect().await;
    let ended = outcomes.iter().filter(|outcome| **outcome == Ok(true)).count();
    assert!(ended > 50, "most end: {ended}");
    let wrong: Vec<&String> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

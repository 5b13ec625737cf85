//! Every column of every table, damaged in turn: only the instance concerned is concerned.

use std::sync::Arc;
use std::time::Duration;

use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, Client, HealthOptions, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
};
use duroxide_postgres::PostgresProvider;

use crate::programs::PATIENCE;
use crate::support::{new_schema, open, options, raw};

/// How long a neighbour, and each call about a damaged instance, may take. A carrier that is stuck takes longer.
const SOON: Duration = Duration::from_secs(15);

/// A node whose victims have a row in every table that an instance can have one in.
async fn node(store: Arc<PostgresProvider>) -> Arc<Runtime> {
    let activities = ActivityRegistry::builder()
        .register("Step", |_ctx: ActivityContext, input: String| async move { Ok(input) })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("Victim", |ctx: OrchestrationContext, session: String| async move {
            ctx.set_custom_status("waits");
            ctx.set_kv_value("key", "value");
            // No worker accepts the tag, so that its work item stays in the queue.
            let queued = ctx.schedule_activity("Step", "x").with_tag("nobody");
            let session = ctx.schedule_activity_on_session("Step", "x", session).with_tag("nobody");
            let timer = ctx.schedule_timer(Duration::from_secs(3_600));
            let go = ctx.schedule_wait("go").await;
            drop((queued, session, timer));
            Ok(go)
        })
        .register("Parent", |ctx: OrchestrationContext, child: String| async move {
            let ended = ctx.schedule_sub_orchestration_with_id("Victim", child, "s").await;
            ended.map_err(|_| "the child failed".to_string())
        })
        .register("Neighbour", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_activity("Step", input).await
        })
        .build();
    let options = duroxide::RuntimeOptions {
        orchestrator_lock_timeout: Duration::from_secs(2),
        orchestrator_lock_renewal_buffer: Duration::from_secs(1),
        ..duroxide::RuntimeOptions::default()
    };
    Runtime::start_with_options(store, activities, orchestrations, options).await
}

struct Setting {
    schema: String,
    store: Arc<PostgresProvider>,
    client: Client,
    raw: tokio_postgres::Client,
    _node: Arc<Runtime>,
}

/// A column, and what it is set to.
#[derive(Debug)]
struct Damage {
    table: String,
    column: String,
    value: String,
}

impl Damage {
    /// Whether it changes by which name or number an instance is found.
    fn is_of_identity(&self) -> bool {
        let identities = [("instances", "key"), ("instances", "instance_id"), ("queues", "key")];
        identities.contains(&(self.table.as_str(), self.column.as_str()))
    }
}

/// All damages to all columns that a fresh schema has.
async fn damages(raw: &tokio_postgres::Client, schema: &str) -> Vec<Damage> {
    let sql = "SELECT table_name::text, column_name::text, data_type::text, is_nullable = 'YES' \
         FROM information_schema.columns WHERE table_schema = $1 AND table_name <> 'duroxide_schema' \
         ORDER BY table_name, ordinal_position";
    let mut all = Vec::new();
    for row in raw.query(sql, &[&schema]).await.expect("listed") {
        let (table, column, kind): (String, String, String) = (row.get(0), row.get(1), row.get(2));
        let mut values = match kind.as_str() {
            "bigint" => vec!["-1", "99", "9223372036854775807", "-9223372036854775808"],
            "boolean" => vec!["TRUE", "FALSE"],
            "text" => vec!["'{x'", "''", "'[]'"],
            other => panic!("{table}.{column} is {other}: how can it be damaged?"),
        };
        if row.get(3) {
            values.push("NULL");
        }
        let damage =
            |value: &str| Damage { table: table.clone(), column: column.clone(), value: value.to_string() };
        all.extend(values.into_iter().map(damage));
    }
    all
}

impl Setting {
    async fn new() -> Self {
        let schema = new_schema();
        let store = Arc::new(open(options(&schema)).await);
        let client = Client::new(store.clone());
        let node = node(store.clone()).await;
        Self { schema, store, client, raw: raw().await, _node: node }
    }

    async fn sql(&self, sql: &str) -> Result<u64, tokio_postgres::Error> {
        self.raw.execute(&sql.replace("{s}", &self.schema), &[]).await
    }

    /// An instance with a row in every table.
    async fn victim(&self, id: &str) -> Result<(), String> {
        self.client
            .start_orchestration(id, "Victim", format!("session {id}"))
            .await
            .map_err(|error| error.to_string())?;
        while self.client.read_execution_history(id, 1).await.map_or(0, |events| events.len()) < 5 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        self.client.raise_event(format!("early {id}"), "go", "x").await.map_err(|error| error.to_string())?;
        for insert in [
            "INSERT INTO {s}.kept_messages SELECT key, 1, '{}' FROM {s}.instances WHERE instance_id = '{id}'",
            "INSERT INTO {s}.set_aside (instance_id, kind, set_aside_at, cause, item) VALUES ('{id}', 6, 0, 'a test', '{')",
            "INSERT INTO {s}.sessions VALUES ('session {id}', 'nobody', 0, 0)",
            "INSERT INTO {s}.nodes SELECT 'ghost {id}', start_id, heartbeat_ms, joined_at, last_seen, left_at, info \
             FROM {s}.nodes LIMIT 1",
        ] {
            self.sql(&insert.replace("{id}", id)).await.expect("inserted");
        }
        Ok(())
    }

    /// Damages one row of an instance; `false` if the database does not allow it.
    async fn damage(&self, id: &str, damage: &Damage) -> bool {
        let Damage { table, column, value } = damage;
        let key = format!("(SELECT key FROM {{s}}.instances WHERE instance_id = '{id}')");
        // What is remembered of the instance is no longer so.
        let touch = format!("UPDATE {{s}}.queues SET revision = revision + 1 WHERE key = {key}");
        self.sql(&touch).await.expect("touched");
        let whose = match table.as_str() {
            "instances" | "queues" => format!("key = {key}"),
            "executions" | "history" | "custom_statuses" | "kv" | "inbox" | "kept_messages" => {
                format!("instance_key = {key}")
            }
            "work_items" | "set_aside" => format!("instance_id = '{id}'"),
            "early_messages" => format!("instance_id = 'early {id}'"),
            "sessions" | "session_heads" => format!("session_id = 'session {id}'"),
            "nodes" => format!("node_id = 'ghost {id}'"),
            other => panic!("which row of {other} belongs to an instance?"),
        };
        let sql = format!(
            "UPDATE {{s}}.{table} SET {column} = {value} WHERE ctid = (SELECT ctid FROM {{s}}.{table} WHERE {whose} LIMIT 1)"
        );
        match self.sql(&sql).await {
            Ok(changed) => {
                assert_eq!(changed, 1, "{damage:?}: there is a row");
                true
            }
            Err(error) => {
                let code = error.code().map(|code| code.code().to_string()).unwrap_or_default();
                // A constraint, or a column that only the server writes.
                assert!(code.starts_with("23") || code.starts_with("42"), "{damage:?}: {error}");
                false
            }
        }
    }

    /// A neighbour runs from its start to its end.
    async fn neighbour(&self, id: String) -> Result<(), String> {
        let run = async {
            self.client
                .start_orchestration(&id, "Neighbour", "x")
                .await
                .map_err(|error| error.to_string())?;
            let ended = self.client.wait_for_orchestration(&id, PATIENCE).await;
            match ended.map_err(|error| error.to_string())? {
                OrchestrationStatus::Completed { .. } => Ok(()),
                other @ (OrchestrationStatus::NotFound
                | OrchestrationStatus::Running { .. }
                | OrchestrationStatus::Failed { .. }) => Err(format!("the neighbour ended as {other:?}")),
            }
        };
        tokio::time::timeout(SOON, run)
            .await
            .unwrap_or_else(|_| Err("the neighbour does not end".to_string()))
    }

    /// What does not hold after this damage.
    async fn check(&self, n: usize, damage: &Damage) -> Result<(), String> {
        let id = format!("v{n}");
        self.victim(&id).await?;
        if !self.damage(&id, damage).await {
            return Ok(());
        }
        let soon = async |what: &str, call: &mut (dyn Future<Output = Result<(), String>> + Unpin)| {
            let done = tokio::time::timeout(SOON, call).await;
            done.unwrap_or_else(|_| Err("no answer".to_string())).map_err(|error| format!("{what}: {error}"))
        };
        // Whatever comes of these, they come to an end.
        let poke = async {
            let raised = self.client.raise_event(&id, "go", "x").await;
            let started = self.client.start_orchestration(format!("early {id}"), "Neighbour", "x").await;
            drop((raised, started));
            Ok(())
        };
        soon("poke", &mut Box::pin(poke)).await?;
        self.neighbour(format!("{id} first")).await?;
        // Its end, if it has one, or a moment in which it does what it will do.
        drop(self.client.wait_for_orchestration(&id, Duration::from_millis(100)).await);
        self.neighbour(format!("{id} second")).await?;
        let looks = async {
            let text = |error: duroxide::ClientError| error.to_string();
            // Every running instance is looked at, and what can be put back is.
            let options = HealthOptions { overdue_after: Duration::ZERO, ..HealthOptions::default() };
            let report =
                self.client.health_with(&options).await.map_err(|error| format!("health: {error}"))?;
            for found in report.findings.iter().filter(|found| found.kind.is_repairable()) {
                let Some(named) = found.instance.as_deref().filter(|named| !named.is_empty()) else {
                    continue;
                };
                self.client.repair(named).await.map_err(|error| format!("a repair of {found:?}: {error}"))?;
            }
            self.client.list_nodes().await.map_err(|error| format!("nodes: {error}"))?;
            self.client.get_system_metrics().await.map_err(|error| format!("metrics: {error}"))?;
            self.store.list_set_aside().await.map_err(|error| format!("set aside: {error}"))?;
            let all = self.client.list_all_instances().await.map_err(text)?;
            if !all.contains(&id) && !damage.is_of_identity() {
                return Err("it is not listed".to_string());
            }
            Ok(())
        };
        soon("looks", &mut Box::pin(looks)).await?;
        let delete = async {
            // One that has another id now is found by that; one whose keys do not meet is not found at all.
            let id = match (damage.table.as_str(), damage.column.as_str()) {
                ("instances", "instance_id") => damage.value.trim_matches('\''),
                _ if damage.is_of_identity() => return Ok(()),
                _ => id.as_str(),
            };
            let gone = self.client.delete_instance(id, true).await;
            gone.map(drop).map_err(|error| error.to_string())
        };
        soon("delete", &mut Box::pin(delete)).await?;
        let gone = self.sql(&format!("DELETE FROM {{s}}.nodes WHERE node_id = 'ghost {id}'")).await;
        gone.map(drop).map_err(|error| error.to_string())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn any_damaged_column_concerns_its_own_instance_alone() {
    let setting = Setting::new().await;
    let all = damages(&setting.raw, &setting.schema).await;
    assert!(all.len() > 200, "{}", all.len());
    let mut faults = Vec::new();
    for (n, damage) in all.iter().enumerate() {
        if let Err(fault) = setting.check(n, damage).await {
            // The next ones shall not suffer from it.
            drop(setting.client.delete_instance(&format!("v{n}"), true).await);
            drop(setting.sql(&format!("DELETE FROM {{s}}.nodes WHERE node_id = 'ghost v{n}'")).await);
            faults.push(format!("{}.{} = {}: {fault}", damage.table, damage.column, damage.value));
        }
        assert!(faults.len() < 25, "{faults:#?}");
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Whatever is damaged of a child: once it has ended, its parent has heard of it.
#[tokio::test(flavor = "multi_thread")]
async fn the_parent_of_a_child_that_ends_because_of_damage_is_told() {
    let setting = Setting::new().await;
    let all = damages(&setting.raw, &setting.schema).await;
    let of_child = ["instances", "queues", "executions", "history", "inbox", "kv", "custom_statuses"];
    let chosen = all.iter().filter(|damage| of_child.contains(&&*damage.table) && !damage.is_of_identity());
    let (mut ended, mut faults) = (0, Vec::new());
    for (n, damage) in chosen.enumerate() {
        let (parent, child) = (format!("p{n}"), format!("c{n}"));
        setting.client.start_orchestration(&parent, "Parent", child.as_str()).await.expect("started");
        let begun = async {
            while setting.client.read_execution_history(&child, 1).await.map_or(0, |events| events.len()) < 5
            {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        if tokio::time::timeout(SOON, begun).await.is_err() {
            faults.push(format!("before {damage:?}: a new child does not begin"));
            break;
        }
        if setting.damage(&child, damage).await {
            drop(setting.client.raise_event(&child, "go", "x").await);
            // Its end if it has one; what it does not survive is poison after a few attempts.
            let end = setting.client.wait_for_orchestration(&child, Duration::from_millis(300)).await;
            if matches!(end, Ok(OrchestrationStatus::Completed { .. } | OrchestrationStatus::Failed { .. })) {
                ended += 1;
                let told = setting.client.wait_for_orchestration(&parent, SOON).await;
                if !matches!(
                    told,
                    Ok(OrchestrationStatus::Completed { .. } | OrchestrationStatus::Failed { .. })
                ) {
                    faults.push(format!("{damage:?}: the child {end:?}, the parent {told:?}"));
                    if faults.len() > 3 {
                        break;
                    }
                }
            }
        }
        drop(setting.client.delete_instance(&parent, true).await);
    }
    assert!(ended > 50, "most go on in spite of it: {ended}");
    assert!(faults.is_empty(), "{faults:#?}");
}

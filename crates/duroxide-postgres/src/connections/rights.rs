//! What the role of the store must be allowed to do. Asked when the store is opened: a right that is missing would
//! otherwise be noticed in the middle of some work.

use duroxide_provider::ProviderError;

use crate::connections::connection::Conn;
use crate::connections::requirements::refused;
use crate::fault::Fault;

/// The tables of the store, but for the one that marks its schema.
const TABLES: [&str; 14] = [
    "custom_statuses",
    "early_messages",
    "executions",
    "history",
    "inbox",
    "instances",
    "kept_messages",
    "kv",
    "nodes",
    "queues",
    "session_heads",
    "sessions",
    "set_aside",
    "work_items",
];

/// The schema as the role sees it.
const SCHEMA: &str = "SELECT current_user::text, current_database()::text, \
       has_database_privilege(current_database(), 'CREATE'), n.oid IS NOT NULL, \
       coalesce(has_schema_privilege(n.oid, 'USAGE'), FALSE), coalesce(has_schema_privilege(n.oid, 'CREATE'), FALSE), \
       c.oid IS NOT NULL, coalesce(has_table_privilege(c.oid, 'SELECT'), FALSE) \
     FROM (VALUES ($1::text)) AS wanted (name) \
     LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = wanted.name::name \
     LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = 'duroxide_schema'";

/// What is missing on tables, sequences and functions of a schema that is up to date.
const MISSING: &str = "SELECT r.word || ' ON TABLE ' || c.relname FROM pg_catalog.pg_class c \
       JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
       CROSS JOIN (VALUES ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE')) AS r (word) \
       WHERE n.nspname = $1::text::name AND c.relkind IN ('r', 'p') AND c.relname = ANY($2::text[]) \
         AND NOT has_table_privilege(c.oid, r.word) \
     UNION ALL SELECT 'USAGE ON SEQUENCE ' || c.relname FROM pg_catalog.pg_class c \
       JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
       WHERE n.nspname = $1::text::name AND c.relkind = 'S' AND c.relname IN ('instance_keys', 'work_ids') \
         AND NOT has_sequence_privilege(c.oid, 'USAGE') \
     UNION ALL SELECT 'EXECUTE ON FUNCTION ' || p.proname FROM pg_catalog.pg_proc p \
       JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace \
       WHERE n.nspname = $1::text::name AND p.proname IN ('write_group', 'conflict', 'reserve_id') \
         AND NOT has_function_privilege(p.oid, 'EXECUTE') ORDER BY 1";

/// Tables and functions that the role cannot change, because others own them.
const FOREIGN: &str = "SELECT c.relname::text FROM pg_catalog.pg_class c \
       JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
       WHERE n.nspname = $1::text::name AND c.relkind IN ('r', 'p') \
         AND (c.relname = ANY($2::text[]) OR c.relname = 'duroxide_schema') \
         AND NOT pg_has_role(c.relowner, 'USAGE') ORDER BY 1";

/// A schema that the role may use, as far as that is known before its version is read.
pub(crate) struct Role {
    name: String,
    schema: String,
    may_create: bool,
}

impl Role {
    /// Refuses a role that may not read which version a schema has, or not create the schema that is missing.
    pub(crate) async fn check(conn: &Conn<'_>, schema: &str) -> Result<Self, ProviderError> {
        let failed = |fault: Fault| fault.into_error("open");
        let rows = conn.client.query(SCHEMA, &[&schema]).await.map_err(|error| failed(error.into()))?;
        let Some(row) = rows.first() else {
            return Err(failed(Fault::corrupt("the catalogue has no answer".to_string())));
        };
        let (name, database): (String, String) = (row.get(0), row.get(1));
        let right = |column: usize| row.get::<_, bool>(column);
        let (may_create_schemas, exists, may_use, may_create) = (right(2), right(3), right(4), right(5));
        let (is_marked, may_read) = (right(6), right(7));
        let missing = match (exists, is_marked) {
            (false, _) if !may_create_schemas => Some(format!(
                "CREATE ON DATABASE \"{database}\", which creating the schema \"{schema}\" takes"
            )),
            (true, false) if !may_create => {
                Some(format!("CREATE ON SCHEMA \"{schema}\", which creating the tables takes"))
            }
            (true, _) if !may_use => Some(format!("USAGE ON SCHEMA \"{schema}\"")),
            (true, true) if !may_read => Some(format!("SELECT ON \"{schema}\".duroxide_schema")),
            (false | true, _) => None,
        };
        match missing {
            Some(missing) => Err(refused(format!(
                "the role \"{name}\" lacks the right {missing}: grant it, or open the store as the role that owns it"
            ))),
            None => Ok(Self { name, schema: schema.to_string(), may_create }),
        }
    }

    /// Refuses a role that may not use all of a schema that is up to date.
    pub(crate) async fn check_use(&self, conn: &Conn<'_>) -> Result<(), ProviderError> {
        let missing = self.list(conn, MISSING).await?;
        if missing.is_empty() {
            return Ok(());
        }
        let (name, schema) = (&self.name, &self.schema);
        Err(refused(format!(
            "the role \"{name}\" lacks rights in the schema \"{schema}\": {}. Grant it SELECT, INSERT, UPDATE, DELETE ON \
             ALL TABLES, USAGE ON ALL SEQUENCES and EXECUTE ON ALL FUNCTIONS of the schema, or open the store as the \
             role that owns them",
            missing.join(", ")
        )))
    }

    /// Refuses a role that may not bring a schema of an earlier version up to date.
    pub(crate) async fn check_upgrade(&self, conn: &Conn<'_>) -> Result<(), ProviderError> {
        let foreign = self.list(conn, FOREIGN).await?;
        if foreign.is_empty() && self.may_create {
            return Ok(());
        }
        let (name, schema) = (&self.name, &self.schema);
        let lacks = match foreign.as_slice() {
            [] => format!("CREATE ON SCHEMA \"{schema}\""),
            some => format!("ownership of {}", some.join(", ")),
        };
        Err(refused(format!(
            "the schema \"{schema}\" must be brought up to date, and the role \"{name}\" lacks {lacks}: open the store \
             once as the role that owns it"
        )))
    }

    async fn list(&self, conn: &Conn<'_>, sql: &str) -> Result<Vec<String>, ProviderError> {
        let tables: Vec<&str> = TABLES.to_vec();
        let rows = conn.client.query(sql, &[&self.schema, &tables]).await;
        let rows = rows.map_err(|error| Fault::from(error).into_error("open"))?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }
}

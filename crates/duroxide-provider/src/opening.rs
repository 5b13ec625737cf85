//! What opening a store may change, and what a store tells about itself without being opened.

/// What opening a store may do to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OpenMode {
    /// A missing store is created, and one of an older schema is migrated.
    #[default]
    CreateOrMigrate,
    /// A store of an older schema is migrated. A missing one is refused.
    Migrate,
    /// Neither: a missing store and one of an older schema are refused. For tools that only look, or that may be newer than
    /// the programs on the store.
    AsIs,
}

/// What a store is, read without changing it. A store of any schema can tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreFacts {
    /// `sqlite` or `postgres`.
    pub store: &'static str,
    /// The file, or the schema of the database; never a password.
    pub location: String,
    /// The number of its schema; `None` where there is no store yet.
    pub schema: Option<u64>,
    /// The number of the schema that this build uses.
    pub schema_of_build: u64,
    /// How much it takes on the disk, indexes and logs included.
    pub size_bytes: Option<u64>,
    /// The time of its clock, in ms since the epoch; `None` for a store that has none of its own.
    pub now_ms: Option<u64>,
    /// What is set, in a fixed order.
    pub settings: Vec<StoreSetting>,
}

/// One setting of a store, or one check of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreSetting {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// What may be lost with this value, and what would be right; `None` if it is safe.
    pub risk: Option<String>,
}

impl StoreSetting {
    /// A setting that risks nothing.
    pub fn safe(name: &str, value: impl Into<String>) -> Self {
        Self { name: name.to_string(), value: value.into(), risk: None }
    }

    /// The same setting with what may be lost.
    #[must_use]
    pub fn with_risk(self, risk: impl Into<String>) -> Self {
        Self { risk: Some(risk.into()), ..self }
    }
}

/// How closely a store is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inspection {
    /// Its settings alone.
    Settings,
    /// Also its pages, where the store can check them: reads all of it.
    Pages,
}

/// Why a store of an older schema is not opened as it is.
#[doc(hidden)]
pub fn older_schema(found: usize, known: usize) -> String {
    format!(
        "schema {found} is older than this build's {known}, and opening it must not migrate it; migrate it with `duroxide store migrate` once every program on it may be upgraded"
    )
}

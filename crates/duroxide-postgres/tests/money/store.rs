//! One PostgreSQL schema for all processes.

use std::path::Path;
use std::sync::Arc;

use duroxide::providers::Provider;
use private_postgres::URL_VARIABLE;

use crate::support::{self, new_schema, options, url};

/// The name of a schema that does not exist yet.
pub(crate) async fn create(_scratch: &Path) -> String {
    new_schema()
}

pub(crate) async fn open(schema: &str) -> Arc<dyn Provider> {
    Arc::new(support::open(options(schema)).await)
}

/// What a child needs besides: the server.
pub(crate) fn environment() -> Option<(&'static str, String)> {
    Some((URL_VARIABLE, url()))
}

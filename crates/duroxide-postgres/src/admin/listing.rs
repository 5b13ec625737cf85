//! Listing instances page by page: an index is walked from behind the cursor on, and what it does not decide is
//! looked at row by row, a bounded number of them.

use duroxide_core::limits::MAX_INSTANCES_SEEN_PER_PAGE;
use duroxide_provider::support::{Place, Status, id_cursor};
use duroxide_provider::{InstancePage, InstanceQuery, ProviderError};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::admin::instances::info_from_row;
use crate::connections::connection::Conn;
use crate::fault::Fault;
use crate::values::{count, from_text, owned_text, to_column};

/// The columns of a listed instance, and the walk that `$1` and those behind it define.
macro_rules! page {
    ($walk:literal) => {
        concat!(
            "SELECT x.instance_id, x.name, x.version, q.current_execution_id, x.status, \
             (CASE WHEN $9::boolean THEN (SELECT e.output FROM {s}.executions e \
                WHERE e.instance_key = x.key AND e.execution_id = q.current_execution_id) END), \
             x.created_at, q.updated_at, x.parent_instance, x.key FROM (SELECT i.key, i.instance_id, i.name, \
             i.version, i.status, i.created_at, i.parent_instance FROM {s}.instances i WHERE ",
            $walk,
            ") x JOIN {s}.queues q ON q.key = x.key \
             WHERE ($2::bigint IS NULL OR x.status = $2) AND ($3::text IS NULL OR x.name = $3) \
             AND ($4::text IS NULL OR x.version = $4) AND ($5::text IS NULL OR x.parent_instance = $5) \
             AND ($6::bigint IS NULL OR q.updated_at >= $6) AND ($7::bigint IS NULL OR q.updated_at < $7) \
             AND ($8::bigint IS NULL OR x.created_at >= $8) "
        )
    };
}

macro_rules! latest_first {
    () => {
        "ORDER BY x.created_at DESC, x.key DESC LIMIT $10::bigint"
    };
}

/// Ids are ordered and compared byte by byte.
const BY_ID: &str = concat!(
    page!(
        "i.instance_id >= $1::text AND i.instance_id > $11::text AND starts_with(i.instance_id, $1::text) \
         AND ($12::bigint IS NULL OR i.created_at < $12) ORDER BY i.instance_id LIMIT $13::bigint"
    ),
    "ORDER BY x.instance_id LIMIT $10::bigint"
);
const BY_TIME: &str = concat!(
    page!(
        "(i.created_at, i.key) < ($11::bigint, $12::bigint) AND ($1::text IS NULL OR i.parent_instance = $1) \
         ORDER BY i.created_at DESC, i.key DESC LIMIT $13::bigint"
    ),
    latest_first!()
);
const BY_STATUS: &str = concat!(
    page!(
        "i.status = $2 AND (i.created_at, i.key) < ($11::bigint, $12::bigint) AND $1::text IS NULL \
         ORDER BY i.created_at DESC, i.key DESC LIMIT $13::bigint"
    ),
    latest_first!()
);
const BY_NAME: &str = concat!(
    page!(
        "i.name = $3 AND (i.created_at, i.key) < ($11::bigint, $12::bigint) AND $1::text IS NULL \
         ORDER BY i.created_at DESC, i.key DESC LIMIT $13::bigint"
    ),
    latest_first!()
);
const BY_PARENT: &str = concat!(
    page!(
        "i.parent_instance = $5 AND (i.created_at, i.key) < ($11::bigint, $12::bigint) AND $1::text IS NULL \
         ORDER BY i.created_at DESC, i.key DESC LIMIT $13::bigint"
    ),
    latest_first!()
);

/// What a query asks for, checked before the store is asked.
pub(crate) struct Walk {
    query: InstanceQuery,
    begin: Begin,
}

enum Begin {
    /// Latest first, behind this place.
    Behind(Place),
    /// By id: from the prefix on, behind this id.
    ById { prefix: String, behind: String },
}

impl Walk {
    pub(crate) fn new(query: &InstanceQuery) -> Result<Self, ProviderError> {
        let begin = match &query.id_prefix {
            Some(prefix) => Begin::ById {
                prefix: owned_text(prefix),
                behind: owned_text(query.begins_behind_id()?.unwrap_or_default()),
            },
            None => Begin::Behind(query.begins_behind()?),
        };
        Ok(Self { query: query.clone(), begin })
    }

    pub(crate) async fn page(&self, conn: &Conn<'_>) -> Result<InstancePage, Fault> {
        let status = match &self.query.status {
            Some(word) => match Status::from_word(word) {
                Some(status) => Some(status.code()),
                None => return Ok(InstancePage::default()),
            },
            None => None,
        };
        let size = self.query.page_size();
        let rows = self.walk(conn, status, size, MAX_INSTANCES_SEEN_PER_PAGE).await?;
        let mut page = InstancePage::default();
        for row in &rows {
            page.instances.push(info_from_row(row)?);
        }
        page.next = match rows.last() {
            Some(last) if rows.len() == size => Some(self.cursor(last)),
            _ => self.last_seen(conn).await?,
        };
        Ok(page)
    }

    async fn walk(
        &self,
        conn: &Conn<'_>,
        status: Option<i64>,
        size: usize,
        seen: usize,
    ) -> Result<Vec<Row>, Fault> {
        let query = &self.query;
        let text = |text: &Option<String>| text.as_deref().map(owned_text);
        let (name, version, parent) = (text(&query.name), text(&query.version), text(&query.parent));
        let ms = |ms: Option<u64>| ms.map(to_column);
        let (updated_from, updated_before) = (ms(query.updated_from), ms(query.updated_before));
        let created_from = ms(query.created_from);
        let (size, seen) = (count(size), count(seen));
        let rest: [&(dyn ToSql + Sync); 9] = [
            &status,
            &name,
            &version,
            &parent,
            &updated_from,
            &updated_before,
            &created_from,
            &query.with_output,
            &size,
        ];
        match &self.begin {
            Begin::ById { prefix, behind } => {
                let created_before = ms(query.created_before);
                let mut params: Vec<&(dyn ToSql + Sync)> = vec![prefix];
                params.extend(rest);
                let walk: [&(dyn ToSql + Sync); 3] = [behind, &created_before, &seen];
                params.extend(walk);
                conn.query(BY_ID, &params).await
            }
            Begin::Behind(place) => {
                let none: Option<String> = None;
                let sql = if parent.is_some() {
                    BY_PARENT
                } else if name.is_some() {
                    BY_NAME
                } else if status.is_some() {
                    BY_STATUS
                } else {
                    BY_TIME
                };
                let mut params: Vec<&(dyn ToSql + Sync)> = vec![&none];
                params.extend(rest);
                let walk: [&(dyn ToSql + Sync); 3] = [&place.created_at, &place.number, &seen];
                params.extend(walk);
                conn.query(sql, &params).await
            }
        }
    }

    /// Where a page goes on that is not full: behind the last instance it looked at, if it did not come to the
    /// end.
    async fn last_seen(&self, conn: &Conn<'_>) -> Result<Option<duroxide_provider::Cursor>, Fault> {
        // Few stores have as many instances; those that have them pay for one more walk over an index.
        const COUNT: &str = "SELECT count(*) FROM (SELECT 1 FROM {s}.instances LIMIT $1::bigint) x";
        let limit = count(MAX_INSTANCES_SEEN_PER_PAGE);
        let row = conn.first(COUNT, &[&limit]).await?;
        if row.is_none_or(|row| row.get::<_, i64>(0) < limit) {
            return Ok(None);
        }
        let everything = Self {
            query: InstanceQuery {
                status: self.query.status.clone(),
                name: self.query.name.clone(),
                parent: self.query.parent.clone(),
                id_prefix: self.query.id_prefix.clone(),
                ..InstanceQuery::default()
            },
            begin: match &self.begin {
                Begin::Behind(place) => Begin::Behind(*place),
                Begin::ById { prefix, behind } => {
                    Begin::ById { prefix: prefix.clone(), behind: behind.clone() }
                }
            },
        };
        // The condition that chose the index decides which rows were looked at.
        let chosen = everything.only_index_condition();
        let status = chosen.query.status.as_deref().and_then(Status::from_word).map(Status::code);
        let rows =
            chosen.walk(conn, status, MAX_INSTANCES_SEEN_PER_PAGE, MAX_INSTANCES_SEEN_PER_PAGE).await?;
        Ok(rows.last().filter(|_| rows.len() == MAX_INSTANCES_SEEN_PER_PAGE).map(|last| self.cursor(last)))
    }

    fn only_index_condition(mut self) -> Self {
        if self.query.parent.is_some() || matches!(self.begin, Begin::ById { .. }) {
            self.query.name = None;
            self.query.status = None;
        }
        if matches!(self.begin, Begin::ById { .. }) {
            self.query.parent = None;
        }
        if self.query.name.is_some() {
            self.query.status = None;
        }
        self
    }

    fn cursor(&self, row: &Row) -> duroxide_provider::Cursor {
        match &self.begin {
            Begin::ById { .. } => id_cursor(&from_text(row.get(0))),
            Begin::Behind(_) => Place { created_at: row.get(6), number: row.get(9) }.cursor(),
        }
    }
}

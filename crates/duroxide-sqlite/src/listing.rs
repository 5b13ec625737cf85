//! Listing instances page by page: an index is walked from behind the cursor on, and what it does not decide is
//! looked at row by row, a bounded number of them.

use std::ops::ControlFlow;

use duroxide_core::limits::MAX_INSTANCES_SEEN_PER_PAGE;
use duroxide_provider::support::{Place, id_cursor};
use duroxide_provider::{Cursor, InstanceInfo, InstancePage, InstanceQuery, ProviderError};
use rusqlite::{Params, Row};

use super::db::Db;
use super::fault::Fault;
use super::instance_row::{Status, status};
use super::values::{from_column, to_column};

/// The columns of a listed instance.
macro_rules! listed {
    () => {
        "SELECT key, created_at, instance_id, name, version, current_execution_id, status, updated_at, \
         parent_instance FROM instances "
    };
}

/// Behind a place, in the order of a listing by time.
macro_rules! behind {
    () => {
        "(created_at, key) < (?1, ?2) AND created_at >= ?3 "
    };
}

macro_rules! latest_first {
    () => {
        "ORDER BY created_at DESC, key DESC"
    };
}

/// Where a page begins, and the query that it answers.
pub(super) struct Walk {
    query: InstanceQuery,
    begin: Begin,
}

enum Begin {
    /// Latest first, behind this place.
    Behind(Place),
    /// By id: from the prefix on, or behind this id.
    ById { prefix: String, behind: Option<String> },
}

impl Walk {
    pub(super) fn new(query: &InstanceQuery) -> Result<Self, ProviderError> {
        let begin = match &query.id_prefix {
            Some(prefix) => {
                let behind = query.begins_behind_id()?.map(str::to_string);
                Begin::ById { prefix: prefix.clone(), behind }
            }
            None => Begin::Behind(query.begins_behind()?),
        };
        Ok(Self { query: query.clone(), begin })
    }

    pub(super) fn page(&self, db: &Db) -> Result<InstancePage, Fault> {
        db.snapshot(|db| match &self.begin {
            Begin::ById { prefix, behind } => self.page_by_id(db, prefix, behind.as_deref()),
            Begin::Behind(place) => self.page_by_time(db, *place),
        })
    }

    fn page_by_id(&self, db: &Db, prefix: &str, behind: Option<&str>) -> Result<InstancePage, Fault> {
        const FROM: &str = concat!(listed!(), "WHERE instance_id >= ?1 ORDER BY instance_id");
        const BEHIND: &str = concat!(listed!(), "WHERE instance_id > ?1 ORDER BY instance_id");
        match behind.filter(|id| *id >= prefix) {
            Some(id) => self.walk(db, BEHIND, [id]),
            None => self.walk(db, FROM, [prefix]),
        }
    }

    /// By the index that leaves least to look at.
    fn page_by_time(&self, db: &Db, behind: Place) -> Result<InstancePage, Fault> {
        const PARENT: &str = concat!(
            listed!(),
            "INDEXED BY instances_parent WHERE parent_instance = ?4 AND ",
            behind!(),
            latest_first!()
        );
        const NAME: &str =
            concat!(listed!(), "INDEXED BY instances_name WHERE name = ?4 AND ", behind!(), latest_first!());
        const STATUS: &str = concat!(
            listed!(),
            "INDEXED BY instances_status WHERE status = ?4 AND ",
            behind!(),
            latest_first!()
        );
        // The three are merged as they are walked.
        const ALL: &str = concat!(
            listed!(),
            "INDEXED BY instances_status WHERE status = 1 AND ",
            behind!(),
            "UNION ALL ",
            listed!(),
            "INDEXED BY instances_status WHERE status = 2 AND ",
            behind!(),
            "UNION ALL ",
            listed!(),
            "INDEXED BY instances_status WHERE status = 3 AND ",
            behind!(),
            latest_first!()
        );
        let from = self.query.created_from.map_or(i64::MIN, to_column);
        let Place { created_at, number } = behind;
        if let Some(parent) = &self.query.parent {
            return self.walk(db, PARENT, (created_at, number, from, parent));
        }
        if let Some(name) = &self.query.name {
            return self.walk(db, NAME, (created_at, number, from, name));
        }
        match &self.query.status {
            Some(word) => match Status::from_word(word) {
                Some(status) => self.walk(db, STATUS, (created_at, number, from, status.code())),
                None => Ok(InstancePage::default()),
            },
            None => self.walk(db, ALL, (created_at, number, from)),
        }
    }

    fn walk(&self, db: &Db, sql: &str, params: impl Params) -> Result<InstancePage, Fault> {
        let prefix = self.query.id_prefix.as_deref().unwrap_or_default();
        let mut page = InstancePage::default();
        let mut seen = 0;
        db.each(sql, params, |row| {
            let mut info = listed_instance(row)?;
            if !info.instance_id.starts_with(prefix) {
                return Ok(ControlFlow::Break(()));
            }
            seen += 1;
            let cursor = self.cursor(row, &info);
            if self.query.matches(&info) {
                if self.query.with_output {
                    info.output = output(db, row.get(0)?, info.current_execution_id)?;
                }
                page.instances.push(info);
            }
            if page.instances.len() == self.query.page_size() || seen == MAX_INSTANCES_SEEN_PER_PAGE {
                page.next = Some(cursor?);
                return Ok(ControlFlow::Break(()));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(page)
    }

    fn cursor(&self, row: &Row<'_>, info: &InstanceInfo) -> rusqlite::Result<Cursor> {
        Ok(match &self.begin {
            Begin::ById { .. } => id_cursor(&info.instance_id),
            Begin::Behind(_) => Place { created_at: row.get(1)?, number: row.get(0)? }.cursor(),
        })
    }
}

fn listed_instance(row: &Row<'_>) -> rusqlite::Result<InstanceInfo> {
    Ok(InstanceInfo {
        created_at: from_column(row.get(1)?),
        instance_id: row.get(2)?,
        orchestration_name: row.get(3)?,
        orchestration_version: row.get(4)?,
        current_execution_id: from_column(row.get(5)?),
        status: status(row.get(6)?)?.word().to_string(),
        updated_at: from_column(row.get(7)?),
        parent_instance_id: row.get(8)?,
        output: None,
    })
}

fn output(db: &Db, key: i64, execution_id: u64) -> rusqlite::Result<Option<String>> {
    const SQL: &str = "SELECT output FROM executions WHERE instance_key = ?1 AND execution_id = ?2";
    Ok(db.first(SQL, (key, to_column(execution_id)), |row| row.get(0))?.flatten())
}

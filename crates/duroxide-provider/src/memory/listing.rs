//! Listing instances page by page.

use std::ops::Bound;

use super::admin::instance_info;
use super::rows::{InstanceRow, Ms, Status};
use super::state::State;
use crate::listing::{Place, id_cursor};
use crate::{InstancePage, InstanceQuery, ProviderError};

impl State {
    pub(super) fn page(&self, query: &InstanceQuery) -> Result<InstancePage, ProviderError> {
        if query.id_prefix.is_some() { self.page_by_id(query) } else { self.page_by_time(query) }
    }

    fn page_by_id(&self, query: &InstanceQuery) -> Result<InstancePage, ProviderError> {
        let prefix = query.id_prefix.as_deref().unwrap_or_default();
        let begin = match query.begins_behind_id()? {
            Some(id) if id >= prefix => Bound::Excluded(id),
            Some(_) | None => Bound::Included(prefix),
        };
        let rows = self.instances.range::<str, _>((begin, Bound::Unbounded));
        let mut page = InstancePage::default();
        for (id, row) in rows.take_while(|(id, _)| id.starts_with(prefix)) {
            add(&mut page, query, id, row);
            if page.instances.len() == query.page_size() {
                page.next = Some(id_cursor(id));
                break;
            }
        }
        Ok(page)
    }

    fn page_by_time(&self, query: &InstanceQuery) -> Result<InstancePage, ProviderError> {
        let behind = query.begins_behind()?;
        let mut page = InstancePage::default();
        // Numbers of instances are never negative: below zero, nothing of that millisecond is left.
        let end = match u64::try_from(behind.number) {
            Ok(seq) => (behind.created_at, seq),
            Err(_) => (behind.created_at, 0),
        };
        for &(created_at, seq) in self.by_time.range(..end).rev() {
            let Some((id, row)) = self.created.get(&seq).and_then(|id| Some((id, self.instances.get(id)?)))
            else {
                continue;
            };
            add(&mut page, query, id, row);
            if page.instances.len() == query.page_size() {
                page.next = Some(Place { created_at, number: number(seq) }.cursor());
                break;
            }
        }
        Ok(page)
    }

    /// The instances that continued as new at least this often without being pruned since, oldest first.
    pub(super) fn to_prune(&self, keep_last: u32, limit: u32) -> Vec<String> {
        let keep = usize::try_from(keep_last.max(1)).unwrap_or(usize::MAX);
        let continued = |row: &InstanceRow| {
            row.executions.values().filter(|execution| execution.status == Status::ContinuedAsNew).count()
        };
        let ids = self.created.values();
        ids.filter(|id| self.instances.get(*id).is_some_and(|row| continued(row) >= keep))
            .take(usize::try_from(limit).unwrap_or(usize::MAX))
            .cloned()
            .collect()
    }
}

fn add(page: &mut InstancePage, query: &InstanceQuery, id: &str, row: &InstanceRow) {
    let mut info = instance_info(id, row);
    if query.matches(&info) {
        if !query.with_output {
            info.output = None;
        }
        page.instances.push(info);
    }
}

fn number(seq: u64) -> Ms {
    super::rows::to_ms(seq)
}

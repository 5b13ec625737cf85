//! Listing instances page by page.
//!
//! A page continues behind the last instance that the page before it looked at, found by an index; nothing is
//! counted off, so that a late page costs what the first one costs.

use std::cmp::Ordering;

use duroxide_core::limits::{DEFAULT_PAGE_INSTANCES, MAX_PAGE_INSTANCES};

use super::{InstanceInfo, ProviderAdmin, ProviderError, ProviderErrorKind};

/// Which instances a page lists. Every condition that is set must hold.
///
/// They come latest first; with [`Self::id_prefix`], in the order of their ids.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InstanceQuery {
    /// `Running`, `Completed` or `Failed`.
    pub status: Option<String>,
    /// The orchestration's name.
    pub name: Option<String>,
    /// The orchestration's version.
    pub version: Option<String>,
    /// Started at this time or later, in ms since the epoch.
    pub created_from: Option<u64>,
    /// Started before this time, in ms since the epoch.
    pub created_before: Option<u64>,
    /// Last changed at this time or later, in ms since the epoch.
    pub updated_from: Option<u64>,
    /// Last changed before this time, in ms since the epoch.
    pub updated_before: Option<u64>,
    /// Children of this instance.
    pub parent: Option<String>,
    /// Ids that begin like this.
    pub id_prefix: Option<String>,
    /// Behind this place: the `next` of the page before. The other conditions must be the same.
    pub after: Option<Cursor>,
    /// At most this many; 100 when `None`, and never more than 1,000.
    pub limit: Option<u32>,
    /// Whether to read the outputs as well, which may be large.
    pub with_output: bool,
}

/// One page of instances.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InstancePage {
    /// The instances. Without [`InstanceQuery::with_output`] their `output` is `None`.
    pub instances: Vec<InstanceInfo>,
    /// Where the next page begins; `None` when there is nothing more.
    ///
    /// A page may be short, or even empty, and still have a next one: a call looks at a bounded number of
    /// instances, however few of them match.
    pub next: Option<Cursor>,
}

/// A place in a listing. Its text means something only to the store that gave it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cursor(String);

impl Cursor {
    /// A cursor from its text, for instance from a link.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A place in a listing that is ordered by time of creation, latest first, and then by the store's own number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[doc(hidden)]
pub struct Place {
    /// When it was created.
    pub created_at: i64,
    /// The store's own number.
    pub number: i64,
}

impl Place {
    /// Before everything.
    const FIRST: Self = Self { created_at: i64::MAX, number: i64::MAX };

    /// The cursor that leads back here.
    pub fn cursor(self) -> Cursor {
        Cursor(format!("t:{}:{}", self.created_at, self.number))
    }
}

impl InstanceQuery {
    /// How many instances a page has at most.
    #[doc(hidden)]
    pub fn page_size(&self) -> usize {
        let limit = self.limit.unwrap_or(DEFAULT_PAGE_INSTANCES).clamp(1, MAX_PAGE_INSTANCES);
        usize::try_from(limit).unwrap_or(usize::MAX)
    }

    /// The place behind which the page begins, in a listing by time.
    #[doc(hidden)]
    pub fn begins_behind(&self) -> Result<Place, ProviderError> {
        let mut place = Place::FIRST;
        if let Some(cursor) = &self.after {
            let parsed = cursor.0.strip_prefix("t:").and_then(|rest| {
                let (created_at, number) = rest.split_once(':')?;
                Some(Place { created_at: created_at.parse().ok()?, number: number.parse().ok()? })
            });
            place = parsed.ok_or_else(wrong_cursor)?;
        }
        if let Some(before) = self.created_before {
            let bound = i64::try_from(before).unwrap_or(i64::MAX);
            place = place.min(Place { created_at: bound, number: i64::MIN });
        }
        Ok(place)
    }

    /// The id behind which the page begins, in a listing by id.
    #[doc(hidden)]
    pub fn begins_behind_id(&self) -> Result<Option<&str>, ProviderError> {
        let Some(cursor) = &self.after else { return Ok(None) };
        cursor.0.strip_prefix("i:").map(Some).ok_or_else(wrong_cursor)
    }

    /// Whether every condition on the instance itself holds.
    #[doc(hidden)]
    pub fn matches(&self, info: &InstanceInfo) -> bool {
        let is = |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|text| text == found);
        let from = |bound: Option<u64>, at: u64| bound.is_none_or(|bound| at >= bound);
        let before = |bound: Option<u64>, at: u64| bound.is_none_or(|bound| at < bound);
        is(&self.status, &info.status)
            && is(&self.name, &info.orchestration_name)
            && is(&self.version, &info.orchestration_version)
            && from(self.created_from, info.created_at)
            && before(self.created_before, info.created_at)
            && from(self.updated_from, info.updated_at)
            && before(self.updated_before, info.updated_at)
            && (self.parent.is_none() || self.parent == info.parent_instance_id)
            && self.id_prefix.as_deref().is_none_or(|prefix| info.instance_id.starts_with(prefix))
    }
}

fn wrong_cursor() -> ProviderError {
    ProviderError::of_kind(
        ProviderErrorKind::Invalid,
        "list_instances_page",
        "the cursor belongs to no listing of this kind: use the `next` of a page with the same conditions",
    )
}

/// The cursor of a listing by id.
#[doc(hidden)]
pub fn id_cursor(instance: &str) -> Cursor {
    Cursor(format!("i:{instance}"))
}

/// A page made of the other calls: right, but it reads every instance.
///
/// When the instance that a cursor names is gone, those started in the same millisecond are listed again.
pub(super) async fn page_by_reading_all<A: ProviderAdmin + ?Sized>(
    admin: &A,
    query: &InstanceQuery,
) -> Result<InstancePage, ProviderError> {
    let ids = match &query.status {
        Some(status) => admin.list_instances_by_status(status).await?,
        None => admin.list_instances().await?,
    };
    let mut found = Vec::new();
    for id in ids {
        match admin.get_instance_info(&id).await {
            Ok(info) if query.matches(&info) => found.push(info),
            Ok(_) => {}
            // Deleted since it was listed.
            Err(error) if error.kind() == ProviderErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    // The sort keeps the order of the list among equals.
    found.sort_by(|a, b| match &query.id_prefix {
        Some(_) => a.instance_id.cmp(&b.instance_id),
        None => b.created_at.cmp(&a.created_at),
    });
    let begin = match &query.id_prefix {
        Some(_) => {
            let behind = query.begins_behind_id()?;
            found.partition_point(|info| behind.is_some_and(|id| info.instance_id.as_str() <= id))
        }
        None => behind_named(query, &found)?,
    };
    let size = query.page_size();
    let mut instances: Vec<InstanceInfo> = found.into_iter().skip(begin).take(size).collect();
    let next = instances.last().filter(|_| instances.len() == size).map(|last| match &query.id_prefix {
        Some(_) => id_cursor(&last.instance_id),
        None => Cursor(format!("n:{}:{}", last.created_at, last.instance_id)),
    });
    if !query.with_output {
        instances.iter_mut().for_each(|info| info.output = None);
    }
    Ok(InstancePage { instances, next })
}

/// Where a page begins whose cursor names an instance by time and id.
fn behind_named(query: &InstanceQuery, found: &[InstanceInfo]) -> Result<usize, ProviderError> {
    let Some(cursor) = &query.after else { return Ok(0) };
    let (created_at, id) = cursor
        .0
        .strip_prefix("n:")
        .and_then(|rest| rest.split_once(':'))
        .and_then(|(created_at, id)| Some((created_at.parse::<u64>().ok()?, id)))
        .ok_or_else(wrong_cursor)?;
    if let Some(at) = found.iter().position(|info| info.instance_id == id) {
        return Ok(at + 1);
    }
    Ok(found.partition_point(|info| info.created_at.cmp(&created_at) == Ordering::Greater))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryProvider;
    use crate::{Provider, WorkItem};

    fn start(instance: String) -> WorkItem {
        WorkItem::StartOrchestration {
            instance,
            orchestration: "O".to_string(),
            input: String::new(),
            version: None,
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            execution_id: duroxide_core::INITIAL_EXECUTION_ID,
        }
    }

    /// All pages of a query, with the page size that it names.
    async fn ids<F: Future<Output = Result<InstancePage, ProviderError>>>(
        mut query: InstanceQuery,
        page: impl Fn(InstanceQuery) -> F,
    ) -> Vec<String> {
        let mut ids = Vec::new();
        loop {
            let page = page(query.clone()).await.expect("read");
            ids.extend(page.instances.into_iter().map(|info| info.instance_id));
            match page.next {
                Some(next) => query.after = Some(next),
                None => return ids,
            }
        }
    }

    #[tokio::test]
    async fn a_store_without_pages_of_its_own_lists_the_same() {
        let store = std::sync::Arc::new(MemoryProvider::new());
        for n in 0..7 {
            store.enqueue_for_orchestrator(start(format!("{}{n}", n % 2)), None).await.expect("started");
        }
        for id_prefix in [None, Some("1".to_string())] {
            let query = InstanceQuery { id_prefix, limit: Some(2), ..Default::default() };
            let own = ids(query.clone(), |query| async { store.list_instances_page(&{ query }).await }).await;
            let plain =
                ids(query.clone(), |query| async { page_by_reading_all(&*store, &{ query }).await }).await;
            assert_eq!(own, plain, "{query:?}");
            assert!(own.len() > 2);
        }
        let wrong = InstanceQuery { after: Some(Cursor::new("t:1:1")), ..Default::default() };
        let refused = page_by_reading_all(&*store, &wrong).await.expect_err("another store's cursor");
        assert_eq!(refused.kind(), ProviderErrorKind::Invalid);
    }
}

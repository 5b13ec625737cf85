//! Which worker gets which activity.

use super::ProviderFactory;
use super::fixture::{Store, routed_activity};
use crate::{TagFilter, WorkItem};

fn tagged(id: u64, tag: Option<&str>) -> WorkItem {
    routed_activity("a", id, None, tag)
}

/// Queues an activity without a tag, one with `gpu`, one with `disk`.
async fn three(factory: &dyn ProviderFactory) -> Store<'_> {
    let store = Store::new(factory).await;
    for (id, tag) in [(2, None), (3, Some("gpu")), (4, Some("disk"))] {
        store.queue_work(tagged(id, tag)).await;
    }
    store
}

/// What a worker with this filter gets, until it gets nothing more.
async fn all_for(store: &Store<'_>, tags: &TagFilter) -> Vec<WorkItem> {
    let mut all = Vec::new();
    while let Some(work) = store.fetch_tagged(tags).await {
        all.push(work.item);
    }
    all
}

/// A plain worker gets activities without a tag.
pub async fn a_plain_worker_gets_what_has_no_tag(factory: &dyn ProviderFactory) {
    let store = three(factory).await;
    assert_eq!(all_for(&store, &TagFilter::DefaultOnly).await, vec![tagged(2, None)]);
}

/// A worker with tags gets those and nothing else.
pub async fn a_worker_with_tags_gets_only_those(factory: &dyn ProviderFactory) {
    let store = three(factory).await;
    assert_eq!(all_for(&store, &TagFilter::tags(["gpu"])).await, vec![tagged(3, Some("gpu"))]);
    assert_eq!(all_for(&store, &TagFilter::tags(["GPU", "gp", "gpu "])).await, vec![]);
    assert_eq!(all_for(&store, &TagFilter::tags(["disk", "gpu"])).await, vec![tagged(4, Some("disk"))]);
}

/// A worker may take both.
pub async fn a_worker_may_take_tags_and_what_has_none(factory: &dyn ProviderFactory) {
    let store = three(factory).await;
    let expected = vec![tagged(2, None), tagged(4, Some("disk"))];
    assert_eq!(all_for(&store, &TagFilter::default_and(["disk"])).await, expected);
}

/// A worker for everything gets everything, oldest first, whatever its tag.
pub async fn a_worker_for_any_tag_gets_all_in_order(factory: &dyn ProviderFactory) {
    let store = three(factory).await;
    store.queue_work(tagged(5, None)).await;
    store.queue_work(tagged(6, Some("new"))).await;
    let expected = vec![
        tagged(2, None),
        tagged(3, Some("gpu")),
        tagged(4, Some("disk")),
        tagged(5, None),
        tagged(6, Some("new")),
    ];
    assert_eq!(all_for(&store, &TagFilter::Any).await, expected);
}

/// A worker for nothing gets nothing, and leaves everything as it was.
pub async fn a_worker_for_nothing_gets_nothing(factory: &dyn ProviderFactory) {
    let store = three(factory).await;
    assert_eq!(all_for(&store, &TagFilter::None).await, vec![]);
    assert_eq!(store.work().await.attempts, 1);
}

/// A work item keeps its tag when it is given back or its lock expires.
pub async fn a_tag_survives_abandons_and_expiry(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.queue_work(tagged(3, Some("gpu"))).await;
    let gpu = TagFilter::tags(["gpu"]);
    let work = store.fetch_tagged(&gpu).await.expect("ready");
    store.abandon_work(&work, None, false).await;
    store.expect_no_work().await;
    store.fetch_tagged(&gpu).await.expect("ready");
    store.expire_locks().await;
    store.expect_no_work().await;
    assert_eq!(store.fetch_tagged(&gpu).await.expect("ready").item, tagged(3, Some("gpu")));
}

/// What waits for a worker is counted by tag, with the age of the oldest; what is in progress is not.
pub async fn waiting_work_is_counted_by_tag(factory: &dyn ProviderFactory) {
    let store = three(factory).await;
    let Some(admin) = store.provider.as_management_capability() else { return };
    factory.advance(store.lock).await;
    store.queue_work(tagged(5, Some("gpu"))).await;
    let by_tag = admin.waiting_by_tag().await.expect("counted");
    let counts: Vec<(Option<&str>, usize)> =
        by_tag.iter().map(|waiting| (waiting.tag.as_deref(), waiting.waiting)).collect();
    assert_eq!(counts, [(None, 1), (Some("disk"), 1), (Some("gpu"), 2)]);
    assert!(by_tag.iter().all(|waiting| waiting.oldest_age >= store.lock), "{by_tag:?}");
    store.fetch_tagged(&TagFilter::tags(["gpu"])).await.expect("ready");
    store.fetch_tagged(&TagFilter::tags(["disk"])).await.expect("ready");
    let by_tag = admin.waiting_by_tag().await.expect("counted");
    let counts: Vec<(Option<&str>, usize)> =
        by_tag.iter().map(|waiting| (waiting.tag.as_deref(), waiting.waiting)).collect();
    assert_eq!(counts, [(None, 1), (Some("gpu"), 1)]);
    assert!(by_tag.last().is_some_and(|gpu| gpu.oldest_age < store.lock), "only the new one is left");
}

/// An activity that was given back with a delay goes on waiting: its age is that of the whole wait.
pub async fn the_age_by_tag_goes_on_while_an_activity_backs_off(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let Some(admin) = store.provider.as_management_capability() else { return };
    store.queue_work(tagged(1, None)).await;
    for attempt in 1..=3 {
        let work = store.work().await;
        store.abandon_work(&work, Some(store.lock), false).await;
        let by_tag = admin.waiting_by_tag().await.expect("counted");
        assert_eq!(by_tag.iter().map(|waiting| waiting.waiting).collect::<Vec<_>>(), [1]);
        assert!(by_tag[0].oldest_age >= store.lock * (attempt - 1), "{by_tag:?} after {attempt} attempts");
        factory.advance(store.lock).await;
    }
}

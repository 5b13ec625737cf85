//! Listing instances page by page.

use std::time::Duration;

use super::ProviderFactory;
use super::fixture::{Commit, Store, event, expect_invalid, start, start_child};
use crate::{Cursor, InstanceQuery};

/// The ids on all pages of a query, and how many pages had one.
async fn all_pages(store: &Store<'_>, mut query: InstanceQuery) -> (Vec<String>, usize) {
    let (mut ids, mut pages) = (Vec::new(), 0);
    loop {
        let page = store.admin().list_instances_page(&query).await.expect("read");
        pages += usize::from(!page.instances.is_empty());
        ids.extend(page.instances.into_iter().map(|info| info.instance_id));
        match page.next {
            Some(next) => query.after = Some(next),
            None => return (ids, pages),
        }
    }
}

async fn listed(store: &Store<'_>, query: InstanceQuery) -> Vec<String> {
    all_pages(store, query).await.0
}

/// One page follows the other, latest first, without gap or repetition.
pub async fn pages_follow_each_other_latest_first(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let empty = store.admin().list_instances_page(&InstanceQuery::default()).await.expect("read");
    assert_eq!(empty, Default::default());
    for n in 0..8 {
        store.send(start(&format!("i{n}"))).await;
        if n % 3 == 0 {
            factory.advance(Duration::from_millis(2)).await;
        }
    }
    let all = store.admin().list_instances().await.expect("read");
    assert_eq!(all.first().map(String::as_str), Some("i7"));
    for limit in 1..10_u32 {
        let query = InstanceQuery { limit: Some(limit), ..Default::default() };
        let (ids, pages) = all_pages(&store, query).await;
        assert_eq!(ids, all, "{limit} a page");
        assert_eq!(pages, 8_usize.div_ceil(usize::try_from(limit).expect("small")));
    }
}

/// What a page lists is what the other calls tell, the output only when asked for.
pub async fn a_page_tells_what_the_other_calls_tell(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.finish("done").await;
    let mut info = store.admin().get_instance_info("done").await.expect("read");
    let query = InstanceQuery { with_output: true, ..Default::default() };
    let page = store.admin().list_instances_page(&query).await.expect("read");
    assert_eq!((page.instances, page.next), (vec![info.clone()], None));
    info.output = None;
    let page = store.admin().list_instances_page(&InstanceQuery::default()).await.expect("read");
    assert_eq!(page.instances, vec![info]);
}

/// Every condition of a query must hold.
pub async fn every_condition_of_a_query_holds(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.finish("a/done").await;
    factory.advance(Duration::from_millis(10)).await;
    store.begin("a/runs").await;
    factory.advance(Duration::from_millis(10)).await;
    store.begin_with("b/failed", |commit| commit.fails("x")).await;
    factory.advance(Duration::from_millis(10)).await;
    store.send(start_child("b/child", "a/runs", 2)).await;
    let turn = store.turn_of("b/child").await;
    store.commit(&turn, Commit::of(&turn)).await;
    let times = |id: &'static str| {
        let admin = store.admin();
        async move { admin.get_instance_info(id).await.expect("read") }
    };
    let (runs, failed) = (times("a/runs").await, times("b/failed").await);
    let any = InstanceQuery { limit: Some(2), ..Default::default() };
    let text = |text: &str| Some(text.to_string());
    let check = async |query: InstanceQuery, expected: &[&str]| {
        assert_eq!(listed(&store, query.clone()).await, expected, "{query:?}");
    };
    check(InstanceQuery { status: text("Running"), ..any.clone() }, &["b/child", "a/runs"]).await;
    check(InstanceQuery { status: text("Completed"), ..any.clone() }, &["a/done"]).await;
    check(InstanceQuery { status: text("Failed"), ..any.clone() }, &["b/failed"]).await;
    check(InstanceQuery { status: text("Nonsense"), ..any.clone() }, &[]).await;
    check(InstanceQuery { name: text("Validate"), ..any.clone() }, &["b/failed", "a/runs", "a/done"]).await;
    check(InstanceQuery { name: text("Child"), ..any.clone() }, &["b/child"]).await;
    check(InstanceQuery { version: text("2.0.0"), ..any.clone() }, &["b/child"]).await;
    check(InstanceQuery { parent: text("a/runs"), ..any.clone() }, &["b/child"]).await;
    check(InstanceQuery { parent: text("nobody"), ..any.clone() }, &[]).await;
    let created = InstanceQuery { created_from: Some(runs.created_at), ..any.clone() };
    check(created.clone(), &["b/child", "b/failed", "a/runs"]).await;
    check(InstanceQuery { created_before: Some(failed.created_at), ..created.clone() }, &["a/runs"]).await;
    check(InstanceQuery { created_before: Some(runs.created_at), ..any.clone() }, &["a/done"]).await;
    check(InstanceQuery { created_before: Some(u64::MAX), ..created }, &["b/child", "b/failed", "a/runs"])
        .await;
    let updated = InstanceQuery { updated_from: Some(runs.updated_at), ..any.clone() };
    check(InstanceQuery { updated_before: Some(failed.updated_at), ..updated }, &["a/runs"]).await;
    let running = InstanceQuery { status: text("Running"), ..any.clone() };
    check(InstanceQuery { name: text("Validate"), ..running.clone() }, &["a/runs"]).await;
    check(InstanceQuery { id_prefix: text("b/"), ..running }, &["b/child"]).await;
}

/// Ids with a common beginning are listed in their order, also beyond what is plain text.
pub async fn ids_with_a_prefix_come_in_their_order(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    for id in ["p-2", "p", "q", "p-10", "o", "pé", "p%", "P-1"] {
        store.send(start(id)).await;
    }
    let query = |prefix: &str, limit| InstanceQuery {
        id_prefix: Some(prefix.to_string()),
        limit: Some(limit),
        ..Default::default()
    };
    for limit in [1, 2, 9] {
        assert_eq!(listed(&store, query("p", limit)).await, ["p", "p%", "p-10", "p-2", "pé"]);
        assert_eq!(listed(&store, query("p-", limit)).await, ["p-10", "p-2"]);
        assert_eq!(listed(&store, query("x", limit)).await, Vec::<String>::new());
        assert_eq!(listed(&store, query("", limit)).await.len(), 8);
    }
}

/// A listing goes on where it was, whatever was deleted or started meanwhile.
pub async fn a_listing_goes_on_after_what_it_listed_is_gone(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    for n in 0..6 {
        store.send(start(&format!("i{n}"))).await;
        factory.advance(Duration::from_millis(2)).await;
    }
    let mut query = InstanceQuery { limit: Some(2), ..Default::default() };
    query.after = store.admin().list_instances_page(&query).await.expect("read").next;
    let doomed = ["i5", "i4", "i3"].map(str::to_string);
    store.admin().delete_instances_atomic(&doomed, true).await.expect("deleted");
    store.send(start("late")).await;
    let rest = listed(&store, query).await;
    let rest: Vec<&str> = rest.iter().map(String::as_str).filter(|id| *id != "late").collect();
    assert_eq!(rest, ["i2", "i1", "i0"]);
}

/// A cursor that leads nowhere is refused.
pub async fn a_cursor_that_leads_nowhere_is_refused(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send_all([start("a"), start("b")]).await;
    let query = |after: &str, id_prefix: Option<&str>| InstanceQuery {
        after: Some(Cursor::new(after)),
        id_prefix: id_prefix.map(str::to_string),
        ..Default::default()
    };
    for wrong in ["", "nonsense", "t:", "t:1", "t:x:1", "i:a"] {
        expect_invalid(store.admin().list_instances_page(&query(wrong, None)).await);
    }
    let first = InstanceQuery { limit: Some(1), ..Default::default() };
    let next = store.admin().list_instances_page(&first).await.expect("read").next.expect("one more");
    expect_invalid(store.admin().list_instances_page(&query(next.as_str(), Some("a"))).await);
}

/// Instances that keep more executions than wanted can be found, and a prune takes them off the list.
pub async fn instances_to_prune_are_found(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.finish("single").await;
    for (instance, executions) in [("three", 3), ("two", 2)] {
        store.begin(instance).await;
        store.send(event(instance, "go")).await;
        for _ in 1..executions {
            let turn = store.turn_of(instance).await;
            store.commit(&turn, Commit::of(&turn).continues_as_new(instance)).await;
        }
        let turn = store.turn_of(instance).await;
        store.pass(&turn).await;
    }
    let admin = store.admin();
    let sorted = async |keep, limit| {
        let mut found = admin.list_instances_to_prune(keep, limit).await.expect("read");
        found.sort();
        found
    };
    assert_eq!(sorted(0, 10).await, ["three", "two"]);
    assert_eq!(sorted(1, 10).await, ["three", "two"]);
    assert_eq!(sorted(1, 1).await.len(), 1);
    assert_eq!(sorted(2, 10).await, ["three"]);
    assert_eq!(sorted(3, 10).await, Vec::<String>::new());
    let keep = |keep_last| crate::PruneOptions { keep_last: Some(keep_last), completed_before: None };
    admin.prune_executions("three", keep(2)).await.expect("pruned");
    assert_eq!(sorted(2, 10).await, Vec::<String>::new());
    admin.prune_executions("three", keep(1)).await.expect("pruned");
    assert_eq!(sorted(1, 10).await, ["two"]);
}

/// The store's time is the one that its rows bear.
pub async fn the_time_of_the_store_is_that_of_its_rows(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let before = store.admin().now_ms().await.expect("read");
    store.send(start("a")).await;
    let created = store.admin().get_instance_info("a").await.expect("read").created_at;
    factory.advance(Duration::from_millis(10)).await;
    let after = store.admin().now_ms().await.expect("read");
    assert!(before <= created && created + 10 <= after, "{before} {created} {after}");
}

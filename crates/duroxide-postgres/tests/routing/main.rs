//! Nodes that differ, on PostgreSQL: who gets what.

#[path = "../../../duroxide/tests/common/mod.rs"]
#[expect(dead_code, unused_imports, reason = "shared with other tests, which use the rest of it")]
mod common;
#[path = "../../../duroxide/tests/routing/roll_out.rs"]
mod roll_out;
#[allow(dead_code, reason = "not every test file uses all of it")]
#[path = "../support/mod.rs"]
mod support;

mod crowd;
mod wakes;

use std::sync::Arc;

use duroxide::providers::Provider;

#[tokio::test(flavor = "multi_thread")]
async fn a_roll_out_of_three_nodes_bounces_nothing_and_fails_nothing_in_postgres() {
    let schema = support::new_schema();
    let mut stores: Vec<Arc<dyn Provider>> = Vec::new();
    for _ in 0..3 {
        stores.push(Arc::new(support::open(support::options(&schema)).await));
    }
    roll_out::roll_out(stores).await;
}

#[tokio::test]
async fn the_store_has_every_extension() {
    let store = support::open(support::options(&support::new_schema())).await;
    let has = [
        store.routes_by_handler(),
        store.keeps_nodes(),
        store.sweeps(),
        store.separates_suspects(),
        store.limits_sessions(),
        store.keeps_progress(),
        store.redrives(),
    ];
    assert_eq!(has, [true; 7]);
    let admin = store.as_management_capability().expect("it has management calls");
    assert!(admin.health_facts(0).await.expect("read").is_some());
}

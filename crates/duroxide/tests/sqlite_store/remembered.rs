//! Rows that the store remembers: what a step costs, and what another process changes meanwhile.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::{SqliteProvider, rusqlite};
use duroxide::providers::{Provider, ProviderAdmin, WorkItem};
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};

use crate::fixture::{Ack, NOW, Place, enqueue, fetch_turn, raised, start, turn_request};

const STEPS: u64 = 200;

async fn chain(store: &Arc<SqliteProvider>) {
    let activities = ActivityRegistry::builder()
        .register("Step", |_: ActivityContext, input: String| async move { Ok(input) })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("Chain", |ctx: OrchestrationContext, _: String| async move {
            for step in 0..STEPS {
                ctx.schedule_activity("Step", step.to_string()).await?;
            }
            Ok(String::new())
        })
        .build();
    let node = Runtime::start_with_store(store.clone(), activities, orchestrations).await;
    let client = Client::new(store.clone());
    client.start_orchestration("chain", "Chain", "").await.unwrap();
    client.wait_for_orchestration("chain", Duration::from_secs(60)).await.unwrap();
    node.shutdown(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_of_a_chain_takes_two_commits_and_fourteen_statements() {
    let place = Place::new();
    let store = Arc::new(place.open().await);
    let before = store.statistics();
    chain(&store).await;
    let after = store.statistics();
    let (commits, statements) = (after.commits - before.commits, after.statements - before.statements);
    assert!(commits < 2 * STEPS + 20, "{commits} commits");
    // A heartbeat, a status that is read, and a fetch that just missed its work cost a few besides.
    assert!(statements < 15 * STEPS + 200, "{statements} statements");
}

#[tokio::test]
async fn what_another_process_changed_is_not_remembered() {
    let place = Place::new();
    let store = Arc::new(place.open().await);
    enqueue(&store, start("a")).await;
    let turn = fetch_turn(&store).await;
    // The row of the instance is remembered now. Another process renames it.
    let other = rusqlite::Connection::open(place.path()).unwrap();
    other.execute("UPDATE instances SET name = 'Other', next_position = next_position + 10", []).unwrap();
    let event =
        WorkItem::ExternalRaised { instance: "a".to_string(), name: "e".to_string(), data: "1".to_string() };
    store.enqueue_for_orchestrator(event, None).await.unwrap();
    let position: i64 = other.query_row("SELECT max(position) FROM inbox", [], |row| row.get(0)).unwrap();
    assert_eq!(position, 12, "counted from what the other process left");
    Ack::default().commit(&store, &turn.lock_token).await.unwrap();
    assert_eq!(store.get_instance_info("a").await.unwrap().orchestration_name, "Other");
}

#[tokio::test]
async fn a_call_that_the_store_refuses_leaves_the_others_of_its_group() {
    let place = Place::new();
    let store = Arc::new(place.open().await);
    enqueue(&store, start("a")).await;
    enqueue(&store, start("b")).await;
    let turns = [fetch_turn(&store).await, fetch_turn(&store).await];
    // A trigger stands for what only SQLite itself can refuse.
    let other = rusqlite::Connection::open(place.path()).unwrap();
    other
        .execute_batch(
            "CREATE TRIGGER refuse BEFORE UPDATE ON executions WHEN \
             (SELECT instance_id FROM instances WHERE key = new.instance_key) = 'a' \
             BEGIN SELECT raise(ABORT, 'refused'); END",
        )
        .unwrap();
    let [first, second] = &turns;
    let (a, b) = if first.item.instance == "a" { (first, second) } else { (second, first) };
    let commit = |token: String| {
        let store = Arc::clone(&store);
        async move {
            let status = crate::fixture::scheduled("x", 1);
            let events = vec![duroxide::Event { instance_id: String::new(), ..status }];
            Ack { events, ..Ack::default() }.commit(&store, &token).await
        }
    };
    let (refused, done) = tokio::join!(commit(a.lock_token.clone()), commit(b.lock_token.clone()));
    assert!(refused.unwrap_err().to_string().contains("refused"));
    done.unwrap();
    assert_eq!(store.read("b").await.unwrap().len(), 1);
    assert_eq!(store.read("a").await.unwrap().len(), 0);
    other.execute_batch("DROP TRIGGER refuse").unwrap();
    commit(a.lock_token.clone()).await.unwrap();
    assert_eq!(store.read("a").await.unwrap().len(), 1);
}

/// One fetch locks a parent and then ends its child, whose row is damaged: what the child's end puts into the parent's inbox
/// counts, although the parent was locked before.
#[tokio::test]
async fn a_row_that_a_fetch_changes_after_it_locked_it_is_not_remembered_as_locked() {
    let place = Place::new();
    let store = Arc::new(place.open().await);
    enqueue(&store, start("parent")).await;
    let child = WorkItem::StartOrchestration {
        instance: "child".to_string(),
        orchestration: "O".to_string(),
        input: String::new(),
        version: None,
        parent_instance: Some("parent".to_string()),
        parent_execution_id: Some(1),
        parent_id: Some(2),
        execution_id: 1,
    };
    enqueue(&store, child).await;
    let other = rusqlite::Connection::open(place.path()).unwrap();
    other.execute("UPDATE instances SET name = CAST(x'ff' AS TEXT) WHERE instance_id = 'child'", []).unwrap();
    let mut turns = store.fetch_turns(turn_request(10, NOW)).await.unwrap();
    assert_eq!(turns.len(), 1, "the child has ended");
    let parent = turns.pop().unwrap();
    assert_eq!(parent.item.instance, "parent");
    Ack::default().commit(&store, &parent.lock_token).await.unwrap();
    let next = fetch_turn(&store).await;
    assert!(
        matches!(next.item.messages.as_slice(), [WorkItem::SubOrchFailed { parent_id: 2, .. }]),
        "{:?}",
        next.item.messages
    );
    // And what comes after it has a place of its own.
    enqueue(&store, raised("parent", "1")).await;
    Ack::default().commit(&store, &next.lock_token).await.unwrap();
    assert_eq!(fetch_turn(&store).await.item.messages, [raised("parent", "1")]);
}

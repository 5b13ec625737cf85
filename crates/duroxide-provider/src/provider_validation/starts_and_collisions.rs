//! A start creates the instance; an id is started once.

use duroxide_core::OrchestrationStatus;

use super::ProviderFactory;
use super::fixture::{Commit, Store, child_failed, event, start, start_child, started};
use crate::{ExecutionMetadata, WorkItem};

fn running() -> OrchestrationStatus {
    OrchestrationStatus::Running { custom_status: None, custom_status_version: 0 }
}

/// Once the start returned, the instance is there for everybody, handler or not.
pub async fn a_started_instance_can_be_read_at_once(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("parent").await;
    store.send(start_child("child", "parent", 2)).await;
    let info = store.admin().get_instance_info("child").await.expect("it exists");
    assert_eq!(info.orchestration_name, "Child");
    assert_eq!(info.orchestration_version, "2.0.0", "the version asked for");
    assert_eq!((info.status.as_str(), info.current_execution_id), ("Running", 1));
    assert_eq!(info.parent_instance_id.as_deref(), Some("parent"));
    assert!(info.created_at > 0);
    assert_eq!(store.admin().list_executions("child").await.expect("read"), vec![1]);
    assert_eq!(store.admin().list_children("parent").await.expect("read"), vec!["child"]);
    assert_eq!(store.provider.orchestration_status("child").await.expect("read"), running());
    assert_eq!(store.history("child").await, vec![]);
}

/// The fetch of a first turn names what is known: the name, the version asked for, no history.
pub async fn a_first_turn_names_what_was_asked_for(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send(start("plain")).await;
    let plain = store.turn_of("plain").await.item;
    assert_eq!((plain.orchestration_name.as_str(), plain.version.as_str()), ("Validate", ""));
    assert_eq!((plain.execution_id, plain.history, plain.history_error), (1, vec![], None));
    assert!(plain.kv_snapshot.is_empty());
    store.send(start_child("child", "plain", 2)).await;
    let child = store.turn_of("child").await.item;
    assert_eq!((child.orchestration_name.as_str(), child.version.as_str()), ("Child", "2.0.0"));
}

/// The first turn's ack says which version really runs.
pub async fn the_ack_names_the_version_that_runs(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send(start("a")).await;
    let turn = store.turn_of("a").await;
    let mut commit = Commit::of(&turn).events([started("a", 1)]);
    commit.metadata = ExecutionMetadata {
        orchestration_name: Some("Renamed".to_string()),
        orchestration_version: Some("3.2.1".to_string()),
        ..ExecutionMetadata::default()
    };
    store.commit(&turn, commit).await;
    store.send(event("a", "go")).await;
    let item = store.turn_of("a").await.item;
    assert_eq!((item.orchestration_name.as_str(), item.version.as_str()), ("Renamed", "3.2.1"));
    let info = store.admin().get_instance_info("a").await.expect("read");
    assert_eq!((info.orchestration_name.as_str(), info.orchestration_version.as_str()), ("Renamed", "3.2.1"));
}

/// To start an id again changes nothing, while it waits, runs, or has ended.
pub async fn a_second_start_changes_nothing(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let mut other = start("a");
    if let WorkItem::StartOrchestration { orchestration, input, .. } = &mut other {
        *orchestration = "Other".to_string();
        *input = "other".to_string();
    }
    store.send_all([start("a"), start("a"), other.clone()]).await;
    let turn = store.turn_of("a").await;
    assert_eq!(turn.item.messages, vec![start("a")]);
    store.send(other.clone()).await;
    store.commit(&turn, Commit::of(&turn).events([started("a", 1)])).await;
    store.expect_no_turn().await;
    store.finish("b").await;
    store.send(start("b")).await;
    store.expect_no_turn().await;
    let info = store.admin().get_instance_info("a").await.expect("read");
    assert_eq!(info.orchestration_name, "Validate");
    assert_eq!(store.admin().get_instance_info("b").await.expect("read").status, "Completed");
}

/// A parent whose child's id is taken is told so, whoever sent the start and however the other one fares.
pub async fn a_child_whose_id_is_taken_is_answered(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("parent").await;
    store.begin("running").await;
    store.finish("finished").await;
    for (n, taken) in (2..).zip(["running", "finished"]) {
        store.send(start_child(taken, "parent", n)).await;
        let turn = store.turn_of("parent").await;
        let text = format!("sub-orchestration instance id '{taken}' already exists");
        assert_eq!(turn.item.messages, vec![child_failed("parent", n, &text)]);
        store.pass(&turn).await;
    }
    store.expect_no_turn().await;
    // As it really happens: in the parent's own commit.
    store.send(event("parent", "go")).await;
    let turn = store.turn_of("parent").await;
    store.commit(&turn, Commit::of(&turn).messages([start_child("running", "parent", 9)])).await;
    assert_eq!(store.turn_of("parent").await.item.messages.len(), 1);
    assert_eq!(store.admin().get_parent_id("running").await.expect("read"), None);
}

/// A parent that starts its own child once more gets no answer: the child itself will answer.
pub async fn a_repeated_start_of_the_same_child_is_not_answered(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("parent").await;
    store.send_all([start_child("child", "parent", 2), start_child("child", "parent", 2)]).await;
    let turn = store.turn_of("child").await;
    assert_eq!(turn.item.messages.len(), 1);
    store.expect_no_turn().await;
    // Another schedule of the same parent is another start.
    store.send(start_child("child", "parent", 3)).await;
    assert_eq!(store.turn_of("parent").await.item.messages.len(), 1);
}

/// A collision that nobody waits for any more is dropped.
pub async fn a_collision_without_a_living_parent_blocks_nothing(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("taken").await;
    store.finish("ended").await;
    store.send_all([start_child("taken", "nobody", 2), start_child("taken", "ended", 2)]).await;
    store.expect_no_turn().await;
}

/// A start may be delayed; the instance is there meanwhile.
pub async fn a_delayed_start_is_fetched_later(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send_after(start("a"), store.lock).await;
    store.expect_no_turn().await;
    assert_eq!(store.provider.orchestration_status("a").await.expect("read"), running());
    factory.advance(store.lock).await;
    store.turn_of("a").await;
}

/// A turn starts other instances, children and detached ones, in its own commit.
pub async fn a_turn_starts_other_instances(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let items = [start_child("a::sub::2", "a", 2), start("detached"), event("detached", "hello")];
    store.begin_with("a", |commit| commit.messages(items)).await;
    assert_eq!(store.admin().get_parent_id("a::sub::2").await.expect("read").as_deref(), Some("a"));
    store.turn_of("a::sub::2").await;
    assert_eq!(
        store.turn_of("detached").await.item.messages,
        vec![start("detached"), event("detached", "hello")]
    );
}

//! Bad input gets a clear error that says what was wrong and what would be right, and changes nothing.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::memory::MemoryProvider;
use duroxide::providers::sqlite::SqliteProvider;
use duroxide::providers::{Provider, ProviderAdmin, ProviderErrorKind};
use duroxide::runtime::limits::{MAX_INSTANCE_ID_BYTES, MAX_KV_KEY_BYTES, MAX_NAME_BYTES, MAX_PAYLOAD_BYTES};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, ClientError, OrchestrationContext, OrchestrationRegistry};

async fn stores() -> Vec<Arc<dyn Provider>> {
    let sqlite = SqliteProvider::new_in_memory().await.expect("a store in memory opens");
    vec![Arc::new(MemoryProvider::new()), Arc::new(sqlite)]
}

fn admin(store: &Arc<dyn Provider>) -> &dyn ProviderAdmin {
    store.as_management_capability().expect("both stores have management calls")
}

async fn assert_untouched(store: &Arc<dyn Provider>) {
    assert_eq!(admin(store).list_instances().await.expect("list"), Vec::<String>::new());
    let depths = admin(store).get_queue_depths().await.expect("depths");
    assert_eq!((depths.orchestrator_queue, depths.worker_queue, depths.timer_queue), (0, 0, 0));
}

fn assert_says(result: Result<(), ClientError>, says: &str) {
    match result {
        Err(ClientError::InvalidInput { message }) => {
            assert!(message.contains(says), "'{message}' should say '{says}'");
        }
        Err(other) => panic!("expected InvalidInput saying '{says}', got {other:?}"),
        Ok(()) => panic!("expected InvalidInput saying '{says}', got Ok"),
    }
}

#[tokio::test]
async fn a_wrong_start_says_why_and_starts_nothing() {
    for store in stores().await {
        let client = Client::new(store.clone());
        let long_id = "i".repeat(MAX_INSTANCE_ID_BYTES + 1);
        let long_name = "n".repeat(MAX_NAME_BYTES + 1);
        let large = "p".repeat(MAX_PAYLOAD_BYTES + 1);
        assert_says(client.start_orchestration("", "O", "").await, "instance id is empty");
        assert_says(client.start_orchestration(" \t", "O", "").await, "instance id is empty");
        assert_says(client.start_orchestration("i", "", "").await, "orchestration name is empty");
        assert_says(
            client.start_orchestration(long_id, "O", "").await,
            "(1025 bytes) exceeds limit (1024 bytes)",
        );
        assert_says(client.start_orchestration("i", long_name, "").await, "exceeds limit (512 bytes)");
        assert_says(client.start_orchestration("i", "O", large).await, "exceeds limit (8388608 bytes)");
        assert_says(client.start_orchestration("sub::1", "O", "").await, "reserved sub-orchestration marker");
        assert_says(
            client.start_orchestration("a::sub::2", "O", "").await,
            "reserved sub-orchestration marker",
        );
        assert_says(client.start_orchestration("a\0b", "O", "").await, "NUL");
        let version = client.start_orchestration_versioned("i", "O", "one", "").await;
        assert_says(version, "version 'one' is not valid semver");
        assert_untouched(&store).await;
        let at_the_limit = "i".repeat(MAX_INSTANCE_ID_BYTES);
        client
            .start_orchestration(&at_the_limit, "O", "p".repeat(MAX_PAYLOAD_BYTES))
            .await
            .expect("at the limit is fine");
    }
}

#[tokio::test]
async fn a_wrong_event_or_cancel_says_why_and_sends_nothing() {
    for store in stores().await {
        let client = Client::new(store.clone());
        let large = "p".repeat(MAX_PAYLOAD_BYTES + 1);
        assert_says(client.raise_event("", "e", "").await, "instance id is empty");
        assert_says(client.raise_event("i", "", "").await, "event name is empty");
        assert_says(client.raise_event("i", "e", large.clone()).await, "exceeds limit");
        assert_says(client.enqueue_event("i", " ", "").await, "queue name is empty");
        assert_says(
            client.enqueue_event("i".repeat(MAX_INSTANCE_ID_BYTES + 1), "q", "").await,
            "exceeds limit",
        );
        assert_says(client.cancel_instance("", "r").await, "instance id is empty");
        assert_says(client.cancel_instance("i", large).await, "exceeds limit");
        assert_says(client.raise_event("a\0b", "e", "").await, "instance id contains a NUL character");
        assert_says(client.raise_event("i", "e\0", "").await, "event name contains a NUL character");
        assert_says(client.enqueue_event("a\0b", "q", "").await, "instance id contains a NUL character");
        assert_says(client.enqueue_event("i", "\0q", "").await, "queue name contains a NUL character");
        assert_says(client.cancel_instance("a\0b", "r").await, "instance id contains a NUL character");
        assert_untouched(&store).await;
        // Nothing waits for them to be started either.
        let stored = admin(&store).health_facts(0).await.expect("facts").expect("both stores have them");
        assert_eq!(stored.early_messages.count, 0);
        let unknown = client.list_instances_by_status("Sleeping").await;
        assert!(matches!(unknown, Err(ClientError::InvalidInput { .. })), "{unknown:?}");
        let missing = client.delete_instance("nobody", true).await;
        assert!(matches!(missing, Err(ClientError::InstanceNotFound { .. })), "{missing:?}");
    }
}

#[tokio::test]
async fn a_key_that_no_value_can_have_is_refused_at_once() {
    for store in stores().await {
        let client = Client::new(store.clone());
        let (long, forever) = ("k".repeat(MAX_KV_KEY_BYTES + 1), Duration::MAX);
        let says = "KV key size (1025 bytes) exceeds limit (1024 bytes)";
        assert_says(client.get_kv_value("i", &long).await.map(drop), says);
        assert_says(client.get_kv_value_typed::<u64>("i", &long).await.map(drop), says);
        assert_says(client.wait_for_kv_value("i", &long, forever).await.map(drop), says);
        assert_says(client.wait_for_kv_value_typed::<u64>("i", &long, forever).await.map(drop), says);
        assert_says(client.get_kv_value("i", "a\0b").await.map(drop), "NUL");
        let at_the_limit = client.get_kv_value("i", long.split_at(MAX_KV_KEY_BYTES).0).await;
        assert_eq!(at_the_limit.expect("at the limit is fine"), None);
    }
}

#[tokio::test]
async fn unknown_ids_are_permanent_errors_that_say_not_found() {
    for store in stores().await {
        let admin = admin(&store);
        let errors = [
            admin.get_instance_info("nobody").await.expect_err("unknown"),
            admin.get_execution_info("nobody", 1).await.expect_err("unknown"),
            admin.latest_execution_id("nobody").await.expect_err("unknown"),
            admin.list_executions("nobody").await.expect_err("unknown"),
            admin.get_instance_tree("nobody").await.expect_err("unknown"),
            admin.delete_instance("nobody", true).await.expect_err("unknown"),
        ];
        for error in errors {
            assert!(!error.is_retryable() && error.message.contains("not found"), "{error:?}");
            assert_eq!(error.kind(), ProviderErrorKind::NotFound);
        }
    }
}

async fn echo(_ctx: ActivityContext, input: String) -> Result<String, String> {
    Ok(input)
}

async fn program(_ctx: OrchestrationContext, input: String) -> Result<String, String> {
    Ok(input)
}

#[test]
fn a_wrong_registration_is_an_error_that_names_it() {
    let activities = ActivityRegistry::builder()
        .register("Twice", echo)
        .register("Twice", echo)
        .register("", echo)
        .register("__duroxide_syscall:mine", echo)
        .build_result()
        .expect_err("three mistakes");
    assert_eq!(
        activities,
        "duplicate activity registration: Twice@1.0.0; activity name is empty: give at least one visible character; \
         activity name '__duroxide_syscall:mine' uses reserved prefix '__duroxide_syscall:': choose another name"
    );
    let orchestrations =
        OrchestrationRegistry::builder().register("Twice", program).register("Twice", program);
    assert_eq!(
        orchestrations.build_result().expect_err("a duplicate"),
        "duplicate orchestration registration: Twice@1.0.0"
    );
    let merged = OrchestrationRegistry::builder()
        .register("One", program)
        .merge(OrchestrationRegistry::builder().register("One", program).build());
    assert_eq!(
        merged.build_result().expect_err("a duplicate"),
        "duplicate orchestration in merge: One@1.0.0"
    );
}

async fn typed_echo(_ctx: ActivityContext, input: u64) -> Result<u64, String> {
    Ok(input)
}

async fn typed_program(_ctx: OrchestrationContext, input: u64) -> Result<u64, String> {
    Ok(input)
}

#[test]
fn a_duplicate_registration_is_an_error_however_it_is_made_and_replaces_nothing() {
    const ACTIVITY: &str = "duplicate activity registration: A@1.0.0";
    let activities = || ActivityRegistry::builder().register("A", echo);
    let mistake = |builder: duroxide::runtime::registry::ActivityRegistryBuilder| {
        builder.build_result().expect_err("a duplicate")
    };
    assert_eq!(mistake(activities().register("A", echo)), ACTIVITY);
    assert_eq!(mistake(activities().register_typed("A", typed_echo)), ACTIVITY);
    assert_eq!(mistake(activities().register_all(vec![("B", echo), ("A", echo)])), ACTIVITY);
    let from = ActivityRegistry::builder_from(&activities().build());
    assert_eq!(mistake(from.register("A", echo)), ACTIVITY);
    assert!(mistake(activities().merge(activities().build())).contains("in merge: A"));
    const PROGRAM: &str = "duplicate orchestration registration: O@1.0.0";
    let programs = || OrchestrationRegistry::builder().register("O", program);
    let mistake =
        |builder: duroxide::OrchestrationRegistryBuilder| builder.build_result().expect_err("a duplicate");
    assert_eq!(mistake(programs().register("O", program)), PROGRAM);
    assert_eq!(mistake(programs().register_typed("O", typed_program)), PROGRAM);
    assert_eq!(mistake(programs().register_versioned("O", "1.0.0", program)), PROGRAM);
    assert_eq!(mistake(programs().register_versioned_typed("O", "1.0.0", typed_program)), PROGRAM);
    assert_eq!(mistake(programs().register_all(vec![("P", program), ("O", program)])), PROGRAM);
    let from = OrchestrationRegistry::builder_from(&programs().build());
    assert_eq!(mistake(from.register("O", program)), PROGRAM);
    // Every mistake is told, not only the first.
    let two = mistake(programs().register("O", program).register("", program));
    assert!(two.starts_with(PROGRAM) && two.contains("; "), "{two}");
}

#[test]
#[should_panic(expected = "duplicate orchestration registration: O@1.0.0")]
fn build_does_not_hide_a_mistake_in_orchestrations() {
    drop(OrchestrationRegistry::builder().register("O", program).register("O", program).build());
}

#[test]
#[should_panic(expected = "non-monotonic orchestration version")]
fn a_version_that_is_not_later_than_the_latest_panics() {
    let builder = OrchestrationRegistry::builder().register_versioned("O", "2.0.0", program);
    drop(builder.register_versioned("O", "1.0.0", program));
}

#[test]
#[should_panic(expected = "duplicate activity registration: Twice")]
fn build_does_not_hide_a_mistake() {
    drop(ActivityRegistry::builder().register("Twice", echo).register("Twice", echo).build());
}

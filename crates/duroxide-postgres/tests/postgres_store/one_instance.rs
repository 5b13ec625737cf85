//! What a group changed of one instance is written by a statement of its own, with the parts that it needs. Another
//! store on the same schema, which remembers nothing, finds all of it.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{ExecutionMetadata, Provider, TagFilter, WorkItem};
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{Client, Event, EventKind, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
use duroxide_postgres::PostgresProvider;

use crate::programs::PATIENCE;
use crate::support::{new_schema, open, options};

const LOCK: Duration = Duration::from_secs(60);

fn start(instance: &str) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: instance.to_string(),
        orchestration: "O".to_string(),
        input: "in".to_string(),
        version: None,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    }
}

fn message(instance: &str) -> WorkItem {
    let (name, data) = ("q".to_string(), "to itself".to_string());
    WorkItem::QueueMessage { instance: instance.to_string(), name, data }
}

fn activity(instance: &str) -> WorkItem {
    WorkItem::ActivityExecute {
        instance: instance.to_string(),
        execution_id: 1,
        id: 1,
        name: "A".to_string(),
        input: String::new(),
        session_id: None,
        tag: None,
    }
}

fn completion(instance: &str) -> WorkItem {
    let instance = instance.to_string();
    WorkItem::ActivityCompleted { instance, execution_id: 1, id: 1, result: "done".to_string() }
}

fn events(instance: &str, count: u64) -> Vec<Event> {
    let kind = |n: u64| EventKind::ActivityScheduled {
        name: format!("A{n}"),
        input: "\u{1b} \u{0}".to_string(),
        session_id: None,
        tag: None,
    };
    (1..=count).map(|n| Event::with_event_id(n, instance, 1, None, kind(n))).collect()
}

async fn send(store: &PostgresProvider, item: WorkItem) {
    store.enqueue_for_orchestrator(item, None).await.expect("it is sent");
}

/// What is in the turn, and its token.
async fn turn(store: &PostgresProvider) -> (Vec<WorkItem>, String) {
    let fetched = store.fetch_orchestration_item(LOCK, PATIENCE, None).await.expect("fetched");
    let (item, token, _) = fetched.expect("a turn is ready");
    (item.messages, token)
}

async fn work(store: &PostgresProvider) -> (WorkItem, String) {
    let fetched = store.fetch_work_item(LOCK, PATIENCE, None, &TagFilter::DefaultOnly).await;
    let (item, token, attempts) = fetched.expect("fetched").expect("an activity is queued");
    assert_eq!(attempts, 1);
    (item, token)
}

/// What a turn does to the instance itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    Nothing,
    Names,
    Ends,
}

fn metadata(does: Does) -> ExecutionMetadata {
    match does {
        Does::Nothing => ExecutionMetadata::default(),
        Does::Names => ExecutionMetadata {
            orchestration_version: Some("2.1.0".to_string()),
            pinned_duroxide_version: Some(semver::Version::new(1, 0, 0)),
            ..ExecutionMetadata::default()
        },
        Does::Ends => ExecutionMetadata {
            status: Some("Completed".to_string()),
            output: Some("out \u{0}".to_string()),
            orchestration_version: Some("2.1.0".to_string()),
            ..ExecutionMetadata::default()
        },
    }
}

/// Commits such a turn with what `one` remembers, and looks at it with another store.
async fn commit_and_look(one: &PostgresProvider, schema: &str, does: Does, parts: (u64, bool, bool)) {
    let (count, sends, queues) = parts;
    let instance = format!("{does:?}-{count}-{sends}-{queues}");
    send(one, start(&instance)).await;
    let (messages, token) = turn(one).await;
    assert_eq!(messages, [start(&instance)]);
    let work_items = if queues { vec![activity(&instance)] } else { Vec::new() };
    let to_itself = if sends { vec![message(&instance)] } else { Vec::new() };
    let history = events(&instance, count);
    one.ack_orchestration_item(
        &token,
        1,
        history.clone(),
        work_items,
        to_itself.clone(),
        metadata(does),
        Vec::new(),
    )
    .await
    .expect("committed");
    let other = open(options(schema)).await;
    assert_eq!(other.read(&instance).await.expect("read"), history, "{instance}");
    let status = other.orchestration_status(&instance).await.expect("read");
    let expected = match does {
        Does::Nothing | Does::Names => {
            OrchestrationStatus::Running { custom_status: None, custom_status_version: 0 }
        }
        Does::Ends => OrchestrationStatus::Completed {
            output: "out \u{0}".to_string(),
            custom_status: None,
            custom_status_version: 0,
        },
    };
    assert_eq!(status, expected, "{instance}");
    let admin = other.as_management_capability().expect("it has the calls");
    let info = admin.get_instance_info(&instance).await.expect("read");
    let version = if does == Does::Nothing { "" } else { "2.1.0" };
    assert_eq!((info.orchestration_name.as_str(), info.orchestration_version.as_str()), ("O", version));
    if sends && does != Does::Ends {
        let (messages, token) = turn(&other).await;
        assert_eq!(messages, to_itself, "{instance}");
        let nothing = ExecutionMetadata::default();
        let acked =
            other.ack_orchestration_item(&token, 1, vec![], vec![], vec![], nothing, Vec::new()).await;
        acked.expect("committed");
    }
    if queues {
        let (item, token) = work(&other).await;
        assert_eq!(item, activity(&instance), "{instance}");
        other.ack_work_item(&token, None).await.expect("acked");
    }
    let left = other.fetch_orchestration_item(LOCK, Duration::ZERO, None).await.expect("fetched");
    assert!(left.is_none(), "{instance}: {left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_turn_is_stored_as_it_was_committed() {
    let schema = new_schema();
    let one = open(options(&schema)).await;
    // The last of these has more events than there is a statement for.
    for count in 1..=5 {
        for does in [Does::Nothing, Does::Names, Does::Ends] {
            for (sends, queues) in [(false, false), (false, true), (true, false), (true, true)] {
                Box::pin(commit_and_look(&one, &schema, does, (count, sends, queues))).await;
            }
        }
    }
    assert_eq!(one.statistics().conflicts, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_reaches_the_instance_and_its_work_item_goes() {
    let schema = new_schema();
    let (one, other) = (open(options(&schema)).await, open(options(&schema)).await);
    send(&one, start("i")).await;
    let (_, token) = turn(&one).await;
    let nothing = ExecutionMetadata::default();
    let acked = one.ack_orchestration_item(
        &token,
        1,
        events("i", 1),
        vec![activity("i")],
        Vec::new(),
        nothing,
        Vec::new(),
    );
    acked.await.expect("committed");
    let (_, token) = work(&one).await;
    one.ack_work_item(&token, Some(completion("i"))).await.expect("acked");
    assert!(one.ack_work_item(&token, Some(completion("i"))).await.is_err(), "it is gone");
    let (messages, _) = turn(&other).await;
    assert_eq!(messages, [completion("i")]);
    let left = other.fetch_work_item(LOCK, Duration::ZERO, None, &TagFilter::Any).await.expect("fetched");
    assert!(left.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_during_which_another_process_sends_is_committed_once_and_loses_nothing() {
    let schema = new_schema();
    let (one, other) = (open(options(&schema)).await, open(options(&schema)).await);
    for n in 0..4 {
        let instance = format!("i{n}");
        send(&one, start(&instance)).await;
        let (_, token) = turn(&one).await;
        send(&other, message(&instance)).await;
        let conflicts = one.statistics().conflicts;
        let nothing = ExecutionMetadata::default();
        let work_items = vec![activity(&instance)];
        let history = events(&instance, 2);
        one.ack_orchestration_item(&token, 1, history.clone(), work_items, vec![], nothing, Vec::new())
            .await
            .expect("committed");
        assert!(one.statistics().conflicts > conflicts, "what was remembered was used");
        assert_eq!(other.read(&instance).await.expect("read"), history);
        let (messages, token) = turn(&other).await;
        assert_eq!(messages, [message(&instance)]);
        let nothing = ExecutionMetadata::default();
        let acked =
            other.ack_orchestration_item(&token, 1, vec![], vec![], vec![], nothing, Vec::new()).await;
        acked.expect("committed");
        let (item, token) = work(&other).await;
        assert_eq!(item, activity(&instance));
        other.ack_work_item(&token, None).await.expect("acked");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_is_told_what_a_look_would_find() {
    let schema = new_schema();
    let store = Arc::new(open(options(&schema)).await);
    let other = Client::new(Arc::new(open(options(&schema)).await));
    let client = Client::new(store.clone());
    let orchestrations = OrchestrationRegistry::builder()
        .register("Plain", |_ctx: OrchestrationContext, input: String| async move { Ok(input) })
        .register("Shows", |ctx: OrchestrationContext, input: String| async move {
            ctx.set_custom_status("half way");
            ctx.schedule_timer(Duration::from_millis(30)).await;
            Ok(input)
        })
        .register("ShowsAtLast", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_timer(Duration::from_millis(30)).await;
            ctx.set_custom_status("there");
            Ok(input)
        })
        .register("Fails", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_timer(Duration::from_millis(30)).await;
            Err::<String, _>(input)
        })
        .build();
    let node = Runtime::start_with_store(store, ActivityRegistry::builder().build(), orchestrations).await;
    for name in ["Plain", "Shows", "ShowsAtLast", "Fails"] {
        for n in 0..3 {
            let instance = format!("{name}{n}");
            client.start_orchestration(&instance, name, "in \u{0}").await.expect("started");
            let told = client.wait_for_orchestration(&instance, PATIENCE).await.expect("ended");
            let found = other.get_orchestration_status(&instance).await.expect("read");
            assert_eq!(told, found, "{instance}");
            // Somebody who begins to wait when all is over.
            let late = client.wait_for_orchestration(&instance, PATIENCE).await.expect("ended");
            assert_eq!(late, found, "{instance}");
        }
    }
    node.shutdown(None).await;
}

//! Any value that JSON can express comes back as it was, whichever way it goes through the API.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, BackoffStrategy, Client, OrchestrationContext, OrchestrationRegistry, RetryPolicy,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

const LONG: Duration = Duration::from_secs(30);
/// How many random values of each type go all ways.
const VALUES: usize = 40;

/// What a value must be for these programs.
trait Any: Serialize + DeserializeOwned + PartialEq + Debug + Clone + Send + Sync + 'static {}
impl<T: Serialize + DeserializeOwned + PartialEq + Debug + Clone + Send + Sync + 'static> Any for T {}

/// The value inside another one.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Nested<T> {
    value: T,
}

/// Sends the value all ways inside one orchestration, then on to the next execution.
async fn travel<T: Any>(ctx: OrchestrationContext, value: T) -> Result<T, String> {
    if ctx.execution_id() == 2 {
        return Ok(value);
    }
    let policy = RetryPolicy::new(2).with_backoff(BackoffStrategy::None);
    let nested = Nested { value: value.clone() };
    let ways: Vec<(&str, T)> = vec![
        ("activity", ctx.schedule_activity_typed("Echo", &value).await?),
        ("session", ctx.schedule_activity_on_session_typed("Echo", &value, ctx.instance_id()).await?),
        ("retry", ctx.schedule_activity_with_retry_typed("Echo", &value, policy).await?),
        ("nested", ctx.schedule_activity_typed::<_, Nested<T>>("EchoNested", &nested).await?.value),
        ("child", ctx.schedule_sub_orchestration_typed("Same", &value).await?),
        ("event", ctx.schedule_wait_typed("event").await),
        ("queue", ctx.dequeue_event_typed("queue").await),
    ];
    for (way, came_back) in ways {
        if came_back != value {
            return Err(format!("{way}: {came_back:?} instead of {value:?}"));
        }
    }
    ctx.set_kv_value_typed("key", &value);
    if ctx.get_kv_value_typed::<T>("key")?.as_ref() != Some(&value) {
        return Err("kv: another value".to_string());
    }
    let detached = format!("{}-detached", ctx.instance_id());
    ctx.schedule_orchestration_typed("Same", detached, &value);
    ctx.continue_as_new_typed(&value);
    Ok(value)
}

async fn check_all<T: Any>(values: Vec<T>) {
    let activities = ActivityRegistry::builder()
        .register_typed("Echo", |_ctx: ActivityContext, value: T| async move { Ok(value) })
        .register_typed("EchoNested", |_ctx: ActivityContext, value: Nested<T>| async move { Ok(value) })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register_typed("Travel", travel::<T>)
        .register_typed("Same", |_ctx: OrchestrationContext, value: T| async move { Ok(value) })
        .build();
    let store = Arc::new(SqliteProvider::new_in_memory().await.expect("a store in memory"));
    let runtime = Runtime::start_with_store(store.clone(), activities, orchestrations).await;
    let client = Client::new(store);
    for (n, value) in values.iter().enumerate() {
        let id = format!("value-{n}");
        client.start_orchestration_typed(&id, "Travel", value.clone()).await.expect("a start");
        client.raise_event_typed(&id, "event", value).await.expect("an event");
        client.enqueue_event_typed(&id, "queue", value).await.expect("a message");
    }
    for (n, value) in values.iter().enumerate() {
        for id in [format!("value-{n}"), format!("value-{n}-detached")] {
            let came_back = client.wait_for_orchestration_typed::<T>(&id, LONG).await.expect("an end");
            assert_eq!(came_back.as_ref(), Ok(value), "{id}");
        }
        let kept = client.get_kv_value_typed::<T>(&format!("value-{n}"), "key").await.expect("a value");
        assert_eq!(kept.as_ref(), Some(value));
    }
    runtime.shutdown(None).await;
}

fn drawn<T>(strategy: impl Strategy<Value = T>) -> Vec<T> {
    let mut runner = TestRunner::default();
    (0..VALUES).map(|_| strategy.new_tree(&mut runner).expect("a value").current()).collect()
}

/// Texts that look like JSON, and others.
fn any_text() -> impl Strategy<Value = String> {
    let tricky =
        ["null", "true", "123", "{}", "[]", "\"quoted\"", "\"", "", " 1 ", "-0.5e3", "{\"a\":null}", "1e999"];
    prop_oneof![
        3 => proptest::sample::select(tricky.map(str::to_string).to_vec()),
        1 => "[0-9\"\\[\\]{}:,ntruefalse. \\\\-]{0,12}",
        1 => any::<String>().prop_map(|text| text.replace('\0', "0")),
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any_text().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map(any_text(), inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn any_text_comes_back_as_it_was() {
    check_all(drawn(any_text())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_optional_text_comes_back_as_it_was() {
    let mut values = drawn(proptest::option::of(any_text()));
    values.extend([None, Some("null".to_string()), Some("\"quoted\"".to_string())]);
    check_all(values).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_json_value_comes_back_as_it_was() {
    let mut values = drawn(any_value());
    values.extend([json!("123"), json!("{}"), json!("\"quoted\""), json!(null), json!("null")]);
    check_all(values).await;
}

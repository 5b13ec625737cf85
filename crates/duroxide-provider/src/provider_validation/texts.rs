//! Texts and numbers at the ends of what they may be: every store takes them and gives them back as they were.

use std::time::Duration;

use duroxide_core::limits;

use super::ProviderFactory;
use super::fixture::{
    Commit, Store, Turn, completed_event, event, happened, routed_activity, scheduled, start, started, timer,
};
use crate::{EventKind, OrchestrationStatus};
use crate::{InstanceQuery, SessionFetchConfig, TagFilter, WorkItem};

/// Texts that a store could mistake for something else: what databases cannot hold, what escapes begin with, the
/// last characters before and the first after the surrogates, and the ends of Unicode.
const ODD: &[&str] = &[
    "\0",
    "a\0b\0",
    "\u{1b}",
    "\u{1b}0\u{1b}e\0e0",
    "\\u0000 \\0 \\",
    "\u{D7FF}\u{E000}\u{FFFD}\u{FFFF}\u{10FFFF}",
    "e\u{301} é \u{202E}abc \u{FEFF}",
    " ",
    "NULL",
    "'; -- {s} $1 ?1 %s",
];

fn start_with(instance: &str, input: &str) -> WorkItem {
    let mut item = start(instance);
    if let WorkItem::StartOrchestration { input: stored, .. } = &mut item {
        *stored = input.to_string();
    }
    item
}

/// The work item of an activity whose every text is this.
fn activity_of(instance: &str, text: &str) -> WorkItem {
    let mut item = routed_activity(instance, 2, Some(text), Some(text));
    if let WorkItem::ActivityExecute { name, input, .. } = &mut item {
        *name = text.to_string();
        *input = text.to_string();
    }
    item
}

fn messages_of(instance: &str, text: &str) -> [WorkItem; 3] {
    let (instance, text) = (instance.to_string(), text.to_string());
    [
        WorkItem::ExternalRaised { instance: instance.clone(), name: text.clone(), data: text.clone() },
        WorkItem::QueueMessage { instance: instance.clone(), name: text.clone(), data: text.clone() },
        WorkItem::CancelInstance { instance, reason: text },
    ]
}

/// What a turn records and shows.
fn shown(instance: &str, text: &str) -> Vec<crate::Event> {
    let (key, value) = (text.to_string(), text.to_string());
    let of = |id, kind| happened(id, instance, kind);
    vec![
        started(instance, 1),
        of(2, EventKind::CustomStatusUpdated { status: Some(text.to_string()) }),
        of(3, EventKind::KeyValueSet { key, value, last_updated_at_ms: u64::MAX }),
    ]
}

async fn first_turn(store: &Store<'_>, instance: &str, input: &str) -> Turn {
    store.send(start_with(instance, input)).await;
    let turn = store.turn_of(instance).await;
    assert_eq!(turn.item.messages, [start_with(instance, input)]);
    turn
}

/// Ids, names, payloads, statuses and values hold every text.
pub async fn every_text_comes_back_as_it_was(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    for text in ODD {
        let instance = format!("{text}#");
        let turn = first_turn(&store, &instance, text).await;
        let events = shown(&instance, text);
        store.commit(&turn, Commit::of(&turn).events(events.clone())).await;
        assert_eq!(store.history(&instance).await, events);
        let provider = &store.provider;
        let status = provider.get_custom_status(&instance, 0).await.expect("read");
        assert_eq!(status, Some((Some((*text).to_string()), 1)), "{text:?}");
        let value = provider.get_kv_value(&instance, text).await.expect("read");
        assert_eq!(value.as_deref(), Some(*text));
        let all = provider.get_kv_all_values(&instance).await.expect("read");
        assert_eq!(all.into_iter().collect::<Vec<_>>(), [((*text).to_string(), (*text).to_string())]);
        store.send_all(messages_of(&instance, text)).await;
        let turn = store.turn_of(&instance).await;
        assert_eq!(turn.item.messages, messages_of(&instance, text));
        assert_eq!(turn.item.history, events);
        let ended = completed_event(4, &instance, 1, text);
        store.commit(&turn, Commit::of(&turn).events([ended]).completes(text)).await;
        let seen = provider.orchestration_status(&instance).await.expect("read");
        assert!(
            matches!(&seen, OrchestrationStatus::Completed { output, custom_status, .. }
                if output == text && custom_status.as_deref() == Some(*text)),
            "{seen:?}"
        );
        let info = store.admin().get_instance_info(&instance).await.expect("there");
        assert_eq!((info.instance_id.as_str(), info.output.as_deref()), (instance.as_str(), Some(*text)));
    }
    let mut listed = store.admin().list_instances().await.expect("listed");
    let mut all: Vec<String> = ODD.iter().map(|text| format!("{text}#")).collect();
    listed.sort();
    all.sort();
    assert_eq!(listed, all, "no two are taken for one another");
    for text in ODD {
        let query = InstanceQuery { id_prefix: Some((*text).to_string()), ..InstanceQuery::default() };
        let page = store.admin().list_instances_page(&query).await.expect("listed");
        let expected = all.iter().filter(|id| id.starts_with(text)).count();
        assert_eq!(page.instances.len(), expected, "{text:?}");
    }
    for instance in all {
        store.admin().delete_instance(&instance, false).await.expect("deleted");
    }
    assert_eq!(store.admin().list_instances().await.expect("listed"), Vec::<String>::new());
}

/// So do activities, their tags, sessions, progress and results.
pub async fn every_text_comes_back_from_the_worker_queue(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    for text in ODD {
        let instance = format!("{text}#");
        let turn = first_turn(&store, &instance, "").await;
        let begun = Commit::of(&turn).events([started(&instance, 1), scheduled(2, &instance)]);
        store.commit(&turn, begun.work([activity_of(&instance, text)])).await;
        let config = SessionFetchConfig { owner_id: (*text).to_string(), lock_timeout: store.lock };
        let tags = TagFilter::tags([*text]);
        let fetch = async || {
            let fetched = store.provider.fetch_work_item(store.lock, Duration::ZERO, Some(&config), &tags);
            fetched.await.expect("asked").expect("ready")
        };
        let (item, token, _) = fetch().await;
        assert_eq!(item, activity_of(&instance, text));
        store.provider.record_progress(&token, text).await.expect("noted");
        let completion = WorkItem::ActivityCompleted {
            instance: instance.clone(),
            execution_id: 1,
            id: 2,
            result: (*text).to_string(),
        };
        store.provider.ack_work_item(&token, Some(completion.clone())).await.expect("completed");
        assert_eq!(store.turn_of(&instance).await.item.messages, [completion]);
    }
}

/// A text may be as long as its limit, and empty where it may be.
pub async fn a_text_may_be_as_long_as_its_limit(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    // Of different characters, so that no store can make it shorter by much.
    let text = |bytes: usize| -> String {
        let mut seed = 1_u64;
        let next = |_| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(b' ' + u8::try_from((seed >> 33) % 95).expect("below 95"))
        };
        (0..bytes).map(next).collect()
    };
    let instance = text(limits::MAX_INSTANCE_ID_BYTES);
    let payload = text(limits::MAX_PAYLOAD_BYTES);
    let turn = first_turn(&store, &instance, &payload).await;
    drop(payload);
    // The other places of payloads need no more than to be beyond what a page or a packet holds.
    let large = text(2 * 1024 * 1024);
    let (key, value) = (text(limits::MAX_KV_KEY_BYTES), text(limits::MAX_KV_VALUE_BYTES));
    let status = text(limits::MAX_CUSTOM_STATUS_BYTES);
    let of = |id, kind| happened(id, &instance, kind);
    let set = |key: &str, value: &str| EventKind::KeyValueSet {
        key: key.to_string(),
        value: value.to_string(),
        last_updated_at_ms: 0,
    };
    let events = [
        started(&instance, 1),
        of(2, EventKind::CustomStatusUpdated { status: Some(status.clone()) }),
        of(3, set(&key, &value)),
        of(4, set("", "")),
        scheduled(5, &instance),
    ];
    let (session, tag) = (text(limits::MAX_SESSION_ID_BYTES), text(limits::MAX_TAG_NAME_BYTES));
    let mut work = routed_activity(&instance, 5, Some(&session), Some(&tag));
    if let WorkItem::ActivityExecute { name, input, .. } = &mut work {
        *name = text(limits::MAX_NAME_BYTES);
        input.clone_from(&large);
    }
    store.commit(&turn, Commit::of(&turn).events(events).work([work.clone()])).await;
    let provider = &store.provider;
    assert_eq!(provider.get_custom_status(&instance, 0).await.expect("read"), Some((Some(status), 1)));
    assert_eq!(provider.get_kv_value(&instance, &key).await.expect("read"), Some(value));
    assert_eq!(provider.get_kv_value(&instance, "").await.expect("read"), Some(String::new()));
    let config = SessionFetchConfig { owner_id: "me".to_string(), lock_timeout: store.lock };
    let tags = TagFilter::tags([tag]);
    let fetched = provider.fetch_work_item(store.lock, Duration::ZERO, Some(&config), &tags);
    assert_eq!(fetched.await.expect("asked").expect("ready").0, work);
    store.send_all([event(&instance, &large), event(&instance, "")]).await;
    let turn = store.turn_of(&instance).await;
    assert_eq!(turn.item.messages, [event(&instance, &large), event(&instance, "")]);
    let ended = completed_event(6, &instance, 1, &large);
    store.commit(&turn, Commit::of(&turn).events([ended]).completes(&large)).await;
    let info = store.admin().get_instance_info(&instance).await.expect("there");
    assert_eq!(info.output, Some(large));
}

/// An orchestration may ask for a version with as long a text as it likes.
pub async fn a_version_may_have_a_long_text(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let digits: Vec<String> = (0..1_500_u64).map(|n| (n * 7_919 % 10_007).to_string()).collect();
    let asked = format!("1.0.0-{}", digits.join("."));
    let mut item = start("a");
    if let WorkItem::StartOrchestration { version, .. } = &mut item {
        *version = Some(asked.clone());
    }
    store.send(item.clone()).await;
    let turn = store.turn_of("a").await;
    assert_eq!((turn.item.version, turn.item.messages), (asked, vec![item]));
}

/// Numbers beyond those that a signed column holds are taken, and a time beyond them never comes.
pub async fn numbers_may_be_as_large_as_they_can(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let last = u64::MAX;
    let schedule = |id| EventKind::TimerCreated { fire_at_ms: id };
    store
        .begin_with("a", |commit| {
            commit
                .events([happened(2, "a", schedule(last))])
                .messages([timer("a", 2, last), timer("a", 3, 1 << 63)])
        })
        .await;
    store.expect_no_turn().await;
    assert_eq!(store.history("a").await.last().map(|event| &event.kind), Some(&schedule(last)));
    let set =
        EventKind::KeyValueSet { key: "k".to_string(), value: "v".to_string(), last_updated_at_ms: last };
    store.send(event("a", "go")).await;
    let turn = store.turn_of("a").await;
    store.commit(&turn, Commit::of(&turn).events([happened(3, "a", set)])).await;
    assert_eq!(store.provider.get_kv_value("a", "k").await.expect("read").as_deref(), Some("v"));
    assert_eq!(store.provider.get_custom_status("a", last).await.expect("read"), None);
    assert!(store.provider.read_with_execution("a", last).await.expect("read").is_empty());
}

//! A fetch brings a bounded number of bytes, and the rest follows in order.

use std::time::Duration;

use duroxide_core::limits::{
    MAX_HISTORY_BYTES_PER_FETCH, MAX_MESSAGE_BYTES_PER_FETCH, MAX_WORK_BYTES_PER_FETCH,
};
use duroxide_core::{EventKind, WorkItem};

use super::ProviderFactory;
use super::fixture::{Commit, Store, cancel, completed, event, happened, queue_message, start};
use crate::stored_bytes::stored_bytes;
use crate::support::{one_turn, one_work};
use crate::{FetchedTurn, FetchedWork, Suspects, TagFilter, TurnRequest, WorkRequest};

/// A message of this many eighths of what a fetch brings, told from others by its number.
fn large(instance: &str, number: usize, eighths: usize) -> WorkItem {
    let data = "x".repeat(eighths * MAX_MESSAGE_BYTES_PER_FETCH / 8);
    queue_message(instance, &format!("{number:08}{data}"))
}

fn bytes_of(messages: &[WorkItem]) -> usize {
    messages.iter().map(stored_bytes).sum()
}

impl Store<'_> {
    async fn fetch_many(&self, max_items: usize) -> Vec<FetchedTurn> {
        let like = one_turn(self.lock, Duration::ZERO, None);
        let request = TurnRequest { max_items, suspects: Suspects::AtMost(max_items), ..like };
        self.provider.fetch_turns(request).await.expect("a fetch does not fail")
    }

    async fn fetch_many_work(&self, max_items: usize) -> Vec<FetchedWork> {
        let like = one_work(self.lock, Duration::ZERO, None, &TagFilter::DefaultOnly);
        let request = WorkRequest { max_items, suspects: Suspects::AtMost(max_items), ..like };
        self.provider.fetch_work(request).await.expect("a fetch does not fail")
    }
}

/// One fetch brings no more than the limit, the rest follow turn by turn, each at once, each in order, each counted when it
/// comes.
pub async fn a_fetch_brings_a_bounded_number_of_bytes(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    let sent: Vec<WorkItem> = (0..20).map(|number| large("a", number, 1)).collect();
    store.send_all(sent.clone()).await;
    let mut brought = Vec::new();
    let mut turns = 0;
    while brought.len() < sent.len() {
        let turn = store.turn_of("a").await;
        let bytes = bytes_of(&turn.item.messages);
        assert!(bytes <= MAX_MESSAGE_BYTES_PER_FETCH, "{bytes} bytes");
        assert_eq!(turn.attempts, 1, "what was left was not counted");
        store.pass(&turn).await;
        brought.extend(turn.item.messages);
        turns += 1;
    }
    assert!(brought == sent, "in the order of their arrival");
    // As many as fit, not fewer.
    assert_eq!(turns, 3);
    store.expect_no_turn().await;
}

/// A message that is larger than the limit comes alone; what is behind it follows.
pub async fn a_message_above_the_limit_of_a_fetch_comes_alone(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    let sent = [event("a", "before"), large("a", 1, 8), event("a", "after")];
    assert!(stored_bytes(&sent[1]) > MAX_MESSAGE_BYTES_PER_FETCH);
    store.send_all(sent.clone()).await;
    for message in sent {
        let turn = store.turn_of("a").await;
        assert!(turn.item.messages == [message], "one message, the next in order");
        store.pass(&turn).await;
    }
    store.expect_no_turn().await;
}

/// The attempts of what a fetch left are not counted, neither when its lock expires nor when it is given back.
pub async fn an_attempt_concerns_only_the_bytes_that_came(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    let sent: Vec<WorkItem> = (0..3).map(|number| large("a", number, 3)).collect();
    store.send_all(sent.clone()).await;
    assert_eq!(store.turn_of("a").await.attempts, 1);
    store.expire_locks().await;
    let turn = store.turn_of("a").await;
    assert_eq!((turn.item.messages.len(), turn.attempts), (2, 2));
    store.abandon(&turn, None).await;
    let turn = store.turn_of("a").await;
    assert_eq!((turn.item.messages.len(), turn.attempts), (2, 3));
    assert!(turn.item.messages == sent[..2], "in the order of their arrival");
    store.pass(&turn).await;
    let turn = store.turn_of("a").await;
    assert!(turn.item.messages == sent[2..], "the rest");
    assert_eq!(turn.attempts, 1);
}

/// All instances of a fetch share its bytes. One of which nothing fits is left as it is, ready at once.
pub async fn the_instances_of_a_fetch_share_its_bytes(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let ids = ["a", "b", "c", "d", "e"];
    for id in ids {
        store.begin(id).await;
    }
    store.send_all(ids.map(|id| large(id, 0, 3))).await;
    for attempts in [1, 2, 3] {
        let mut brought = Vec::new();
        while brought.len() < ids.len() {
            let turns = store.fetch_many(ids.len()).await;
            assert!(!turns.is_empty(), "the rest is ready at once");
            let bytes: usize = turns.iter().map(|turn| bytes_of(&turn.item.messages)).sum();
            assert!(bytes <= MAX_MESSAGE_BYTES_PER_FETCH, "{bytes} bytes");
            for turn in turns {
                assert_eq!(turn.attempts, attempts, "what was left was not counted");
                brought.push(turn.item.instance);
            }
        }
        brought.sort();
        assert_eq!(brought, ids);
        // The next fetches count the attempts that end here.
        store.expire_locks().await;
    }
}

/// A cancel comes with the next fetch, also when more bytes wait than one fetch brings.
pub async fn a_cancel_is_fetched_before_many_bytes(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    let sent: Vec<WorkItem> = (0..4).map(|number| large("a", number, 3)).collect();
    store.send_all(sent.clone()).await;
    store.send(cancel("a")).await;
    let turn = store.turn_of("a").await;
    assert!(turn.item.messages.contains(&cancel("a")), "the first fetch brings the cancel");
    let mut others: Vec<WorkItem> = Vec::new();
    others.extend(turn.item.messages.iter().filter(|message| **message != cancel("a")).cloned());
    store.pass(&turn).await;
    while others.len() < sent.len() {
        let turn = store.turn_of("a").await;
        store.pass(&turn).await;
        others.extend(turn.item.messages);
    }
    assert!(others == sent, "the others keep their order");
    // Before few bytes it has its place in the order.
    store.begin("b").await;
    store.send_all([event("b", "x"), event("b", "y"), cancel("b")]).await;
    assert_eq!(store.turn_of("b").await.item.messages, [event("b", "x"), event("b", "y"), cancel("b")]);
}

/// Large messages of one commit, which a store may hand on without reading them again, come in the same way.
pub async fn large_messages_of_one_turn_follow_in_order(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    store.begin("sender").await;
    store.send(event("sender", "go")).await;
    let turn = store.turn_of("sender").await;
    let sent: Vec<WorkItem> = (0..5).map(|number| large("a", number, 3)).collect();
    store.commit(&turn, Commit::of(&turn).messages(sent.clone())).await;
    let mut brought = Vec::new();
    while brought.len() < sent.len() {
        let turn = store.turn_of("a").await;
        assert!(bytes_of(&turn.item.messages) <= MAX_MESSAGE_BYTES_PER_FETCH);
        store.pass(&turn).await;
        brought.extend(turn.item.messages);
    }
    assert!(brought == sent, "in the order in which they were sent");
}

/// The work items of a fetch are bounded as well, the first of them excepted.
pub async fn a_fetch_brings_a_bounded_number_of_bytes_of_work(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    let with_input = |id: u64, sixteenths: usize| WorkItem::ActivityExecute {
        instance: "a".to_string(),
        execution_id: 1,
        id,
        name: "Act".to_string(),
        input: "x".repeat(sixteenths * MAX_WORK_BYTES_PER_FETCH / 16),
        session_id: None,
        tag: None,
    };
    for id in 2..10 {
        store.queue_work(with_input(id, 7)).await;
    }
    store.queue_work(with_input(10, 16)).await;
    let mut brought = Vec::new();
    while brought.len() < 9 {
        let work = store.fetch_many_work(9).await;
        assert!(!work.is_empty(), "the rest is ready at once");
        let bytes: usize = work.iter().map(|work| stored_bytes(&work.item)).sum();
        assert!(bytes <= MAX_WORK_BYTES_PER_FETCH || work.len() == 1, "{bytes} bytes");
        for work in work {
            assert_eq!(work.attempts, 1, "what was left was not counted");
            let WorkItem::ActivityExecute { id, .. } = work.item else { panic!("no activity") };
            brought.push(id);
        }
    }
    assert_eq!(brought, (2..=10).collect::<Vec<u64>>(), "in the order in which they were queued");
}

/// One fetch does not bring many histories that are large. What it leaves is not counted.
pub async fn a_fetch_brings_histories_of_bounded_size(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let ids = ["large1", "large2", "large3", "large4"];
    for id in ids {
        let result = "x".repeat(usize::try_from(MAX_HISTORY_BYTES_PER_FETCH).expect("a size") / 5);
        let completed =
            |event_id| happened(event_id, id, EventKind::ActivityCompleted { result: result.clone() });
        store.begin_with(id, |commit| commit.events((2..5).map(completed))).await;
    }
    store.send_all(ids.map(|id| event(id, "go"))).await;
    let mut brought = Vec::new();
    while brought.len() < ids.len() {
        let turns = store.fetch_many(ids.len()).await;
        assert!(!turns.is_empty(), "the rest is ready at once");
        let besides_first = turns.iter().skip(1).flat_map(|turn| &turn.item.history);
        let bytes: u64 = besides_first.map(|event| stored_bytes(event) as u64).sum();
        assert!(bytes <= MAX_HISTORY_BYTES_PER_FETCH, "{bytes} bytes besides the first history");
        assert!(turns.iter().all(|turn| turn.attempts == 1), "what was left was not counted");
        brought.extend(turns.into_iter().map(|turn| turn.item.instance));
    }
    brought.sort();
    assert_eq!(brought, ids);
}

/// A start comes with what waits for its instance as far as that fits.
pub async fn a_start_comes_before_large_messages_that_came_early(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let early: Vec<WorkItem> = (0..3).map(|number| large("a", number, 4)).collect();
    store.send_all(early.clone()).await;
    store.send(start("a")).await;
    let turn = store.turn_of("a").await;
    assert!(turn.item.messages == [start("a"), early[0].clone()], "the start first");
    store.pass(&turn).await;
    store.send(completed("a", 2)).await;
    let turn = store.turn_of("a").await;
    assert!(turn.item.messages == early[1..2], "then what came early");
}

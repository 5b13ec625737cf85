//! The order of an inbox, and when its messages are visible.

use std::time::Duration;

use duroxide_core::limits::MAX_MESSAGES_PER_FETCH;

use super::ProviderFactory;
use super::fixture::{Store, completed, event, queue_message, start};

/// Messages are admitted in the order of their arrival, of whatever kind they are.
pub async fn messages_are_admitted_in_the_order_of_arrival(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let mut sent = vec![start("a")];
    for n in 0..50 {
        let data = n.to_string();
        sent.push(if n % 2 == 0 { event("a", &data) } else { queue_message("a", &data) });
    }
    sent.push(completed("a", 2));
    store.send_all(sent.clone()).await;
    assert_eq!(store.turn_of("a").await.item.messages, sent);
}

/// Identical messages are separate messages.
pub async fn equal_messages_are_not_merged(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    store
        .send_all([event("a", "x"), event("a", "x"), queue_message("a", "x"), queue_message("a", "x")])
        .await;
    assert_eq!(store.turn_of("a").await.item.messages.len(), 4);
}

/// A message with a delay is visible after it and keeps nothing else waiting.
pub async fn a_delayed_message_is_visible_later(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    store.send_after(event("a", "late"), store.lock).await;
    store.expect_no_turn().await;
    store.send(event("a", "now")).await;
    let turn = store.turn_of("a").await;
    assert_eq!(turn.item.messages, vec![event("a", "now")]);
    store.pass(&turn).await;
    store.expect_no_turn().await;
    factory.advance(store.lock / 2).await;
    store.expect_no_turn().await;
    factory.advance(store.lock / 2).await;
    assert_eq!(store.turn_of("a").await.item.messages, vec![event("a", "late")]);
}

/// A turn does not delete what became visible while it ran.
pub async fn a_turn_deletes_only_the_messages_that_it_was_given(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    store.send_after(event("a", "second"), store.lock / 4).await;
    store.send(event("a", "first")).await;
    let turn = store.turn_of("a").await;
    factory.advance(store.lock / 2).await;
    store.pass(&turn).await;
    assert_eq!(store.turn_of("a").await.item.messages, vec![event("a", "second")]);
}

/// One fetch takes a bounded number of messages; the rest follow in the next turn, in order.
pub async fn a_fetch_takes_a_bounded_number_of_messages(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let extra = 7;
    store.begin("sender").await;
    store.begin("a").await;
    store.send(event("sender", "go")).await;
    let turn = store.turn_of("sender").await;
    let numbered = (0..MAX_MESSAGES_PER_FETCH + extra).map(|n| queue_message("a", &n.to_string()));
    store.commit(&turn, super::fixture::Commit::of(&turn).messages(numbered)).await;
    let turn = store.turn_of("a").await;
    assert_eq!(turn.item.messages.len(), MAX_MESSAGES_PER_FETCH);
    assert_eq!(turn.item.messages[0], queue_message("a", "0"));
    store.pass(&turn).await;
    let turn = store.turn_of("a").await;
    let rest: Vec<_> = (MAX_MESSAGES_PER_FETCH..MAX_MESSAGES_PER_FETCH + extra)
        .map(|n| queue_message("a", &n.to_string()))
        .collect();
    assert_eq!(turn.item.messages, rest);
    assert_eq!(turn.attempts, 1);
}

/// Text comes back as it was sent.
pub async fn text_comes_back_as_it_was_sent(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let odd = "quotes ' \" ; DROP TABLE -- \\ \u{0} \u{1F980} \r\n{}";
    let long = "é".repeat(300_000);
    store.begin("a'\"; --é").await;
    store.send_all([event("a'\"; --é", odd), event("a'\"; --é", &long), event("a'\"; --é", "")]).await;
    let turn = store.turn_of("a'\"; --é").await;
    assert_eq!(
        turn.item.messages,
        vec![event("a'\"; --é", odd), event("a'\"; --é", &long), event("a'\"; --é", "")]
    );
    factory.advance(Duration::from_millis(1)).await;
    assert_eq!(store.history("a'\"; --é").await.len(), 1);
    assert_eq!(store.history("A'\"; --é").await.len(), 0, "ids differ by case");
}

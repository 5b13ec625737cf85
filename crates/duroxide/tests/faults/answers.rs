//! A call that changed nothing says so: the checked calls in their answer, the plain ones in the log and in a counter.

use duroxide::{OrchestrationContext, RuntimeOptions, SendOutcome, StartOutcome};

use crate::common::{Faulty, World, activities, options, orchestrations};
use crate::log::Log;
use crate::recorder::Recorded;

const WITHOUT_EFFECT: &str = "duroxide_client_calls_without_effect_total";

#[tokio::test(start_paused = true)]
async fn a_plain_call_that_changed_nothing_is_logged_at_warn_and_counted() {
    let (recorded, log) = (Recorded::default(), Log::listen());
    let _guard = metrics::set_default_local_recorder(&recorded);
    let world = World::new();
    let client = &world.client;
    client.start_orchestration("o", "Order", "one").await.expect("start");
    client.start_orchestration("o", "Order", "one").await.expect("the same start again");
    client.raise_event("later", "paid", "").await.expect("kept for a later start");
    assert_eq!(log.lines("WARN"), Vec::<String>::new(), "nothing went to waste");

    client.start_orchestration("o", "Order", "two").await.expect("still Ok");
    client.start_orchestration("o", "Refund", "one").await.expect("still Ok");
    client.cancel_instance("nobody", "why").await.expect("still Ok");
    let done = orchestrations().register("Order", |_ctx, input| async move { Ok(input) });
    let runtime = world.start(activities(), done, options()).await;
    assert_eq!(world.output("o").await, "one");
    client.raise_event("o", "paid", "").await.expect("still Ok");
    client.enqueue_event("o", "lines", "").await.expect("still Ok");
    client.cancel_instance("o", "why").await.expect("still Ok");
    let warned = log.lines("WARN");
    assert_eq!(warned.len(), 6, "{warned:#?}");
    let counted = |call: &str, reason: &str| {
        recorded.counter(&format!("{WITHOUT_EFFECT}{{call={call},reason={reason}}}"))
    };
    assert_eq!(counted("start_orchestration", "other_input"), 1);
    assert_eq!(counted("start_orchestration", "other_orchestration"), 1);
    assert_eq!(counted("cancel_instance", "not_found"), 1);
    assert_eq!(counted("cancel_instance", "ended"), 1);
    assert_eq!(counted("raise_event", "ended"), 1);
    assert_eq!(counted("enqueue_event", "ended"), 1);
    runtime.shutdown(None).await;
}

fn exists(orchestration: &str, same_input: bool) -> StartOutcome {
    StartOutcome::AlreadyExists { orchestration: orchestration.to_string(), same_input }
}

/// What a program that accepts orders over a network does: it starts them by the id that the customer sent.
#[tokio::test(start_paused = true)]
async fn a_retrying_caller_is_told_that_its_order_exists_whatever_became_of_it() {
    let world = World::new();
    let client = &world.client;
    let order = async |items: &str| {
        client.start_orchestration_typed_checked("order-1", "Order", items).await.expect("told")
    };
    assert_eq!(order("3 apples").await, StartOutcome::Started);
    assert_eq!(order("3 apples").await, exists("Order", true));
    assert_eq!(order("4 pears").await, exists("Order", false));

    let rounds = orchestrations().register("Order", |ctx: OrchestrationContext, input: String| async move {
        match input.as_str() {
            "3 apples" => ctx.continue_as_new("shipped").await,
            _ => Ok(format!("{input}, paid with {}", ctx.schedule_wait("paid").await)),
        }
    });
    let runtime = world.start(activities(), rounds, options()).await;
    assert_eq!(
        client.raise_event_typed_checked("order-1", "paid", &"a card").await.expect("told"),
        SendOutcome::Delivered
    );
    assert_eq!(world.output("order-1").await, "shipped, paid with a card");
    assert_eq!(order("3 apples").await, exists("Order", true), "after it continued as new and ended");
    assert_eq!(order("shipped").await, exists("Order", false), "a later input is not the first");
    let refund = client.start_orchestration_versioned_checked("order-1", "Refund", "2.0.0", "3 apples");
    assert_eq!(refund.await.expect("told"), exists("Order", true));
    assert_eq!(client.enqueue_event_checked("order-1", "lines", "").await.expect("told"), SendOutcome::Ended);
    assert_eq!(
        client.cancel_instance_checked("order-1", "too late").await.expect("told"),
        SendOutcome::Ended
    );
    assert_eq!(
        client.cancel_instance_checked("order-2", "a typo").await.expect("told"),
        SendOutcome::NotFound
    );
    assert_eq!(client.raise_event_checked("order-2", "paid", "").await.expect("told"), SendOutcome::Kept);
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn an_event_for_a_poisoned_instance_is_told_as_kept_and_reaches_it_after_the_redrive() {
    let world = World::new();
    let client = &world.client;
    let limited = RuntimeOptions { max_attempts: 1, ..options() };
    let without = world.start(activities(), orchestrations(), limited).await;
    client.start_orchestration("o", "Order", "").await.expect("start");
    assert_eq!(world.failure("o").await.category(), "poison");
    without.shutdown(None).await;
    assert_eq!(client.raise_event_checked("o", "paid", "a card").await.expect("told"), SendOutcome::Kept);
    assert_eq!(client.cancel_instance_checked("o", "why").await.expect("told"), SendOutcome::Ended);
    client.redrive("o").await.expect("redriven");
    let waits = orchestrations().register("Order", |ctx: OrchestrationContext, _input: String| async move {
        Ok(ctx.schedule_wait("paid").await)
    });
    let with = world.start(activities(), waits, options()).await;
    assert_eq!(world.output("o").await, "a card");
    with.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn a_store_without_the_extension_is_read_for_a_checked_call_only() {
    let world = World::with(Faulty::plain);
    let client = &world.client;
    client.start_orchestration("o", "Order", "one").await.expect("start");
    client.start_orchestration("o", "Refund", "one").await.expect("still Ok");
    client.cancel_instance("nobody", "why").await.expect("still Ok");
    assert_eq!(world.store.calls("orchestration_status"), 0, "the plain calls stay as cheap as they were");
    assert_eq!(
        client.start_orchestration_checked("o", "Order", "one").await.expect("told"),
        exists("Order", false),
        "such a store cannot read the input of an instance that has not begun"
    );
    assert_eq!(client.cancel_instance_checked("nobody", "why").await.expect("told"), SendOutcome::NotFound);
    assert_eq!(world.store.calls("orchestration_status"), 2);
}

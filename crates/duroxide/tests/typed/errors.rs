//! Errors are the program's own types.

use duroxide::prelude::*;
use serde::{Deserialize, Serialize};

use super::{Diary, check};

#[derive(Debug, Clone, PartialEq, thiserror::Error, Serialize, Deserialize)]
enum PayError {
    #[error("card declined")]
    Declined,
    #[error("network: {0}")]
    Network(String),
}

#[derive(Debug, Clone, PartialEq, thiserror::Error, Serialize, Deserialize)]
enum OrderError {
    #[error(transparent)]
    Pay(#[from] CallError<PayError>),
    #[error("out of stock")]
    OutOfStock,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Order {
    id: u32,
    answers: Vec<String>,
}

async fn charge(ctx: ActivityContext, order: Order) -> Result<u32, PayError> {
    let diary = ctx.state::<Diary>();
    diary.write(format!("charge {}", order.id));
    let made = diary.lines().iter().filter(|line| **line == format!("charge {}", order.id)).count();
    match order.answers.get(made - 1).map(String::as_str) {
        Some("declined") => Err(PayError::Declined),
        Some("panic") => panic!("the till is open"),
        Some(cause) => Err(PayError::Network(cause.to_string())),
        None => Ok(order.id),
    }
}

async fn order(ctx: OrchestrationContext, order: Order) -> Result<u32, OrderError> {
    let policy = RetryPolicy::new(5).with_backoff(BackoffStrategy::Fixed { delay: Duration::from_millis(1) });
    let receipt = ctx
        .call(charge, order)
        .retry(policy)
        .retry_if(|error: &PayError| matches!(error, PayError::Network(_)))
        .await;
    match receipt {
        Err(CallError::App(PayError::Declined)) => Err(OrderError::OutOfStock),
        other => Ok(other?),
    }
}

async fn parent(ctx: OrchestrationContext, of: Order) -> Result<String> {
    let failed = ctx.child(order, of).await;
    match failed {
        Err(CallError::App(OrderError::OutOfStock)) => Ok("sorry".to_string()),
        other => Ok(format!("receipt {}", other?)),
    }
}

/// What an order with these answers of the bank comes to, and how often the bank was asked.
async fn check_order(answers: &[&str], expected: Result<u32, CallError<OrderError>>, charges: usize) {
    let of = Order { id: 7, answers: answers.iter().map(ToString::to_string).collect() };
    for store in super::stores().await {
        let diary = Diary::default();
        let app = duroxide::Builder::on_store(store)
            .discover(false)
            .activity("Charge", charge)
            .orchestration("Order", order)
            .state(diary.clone())
            .start()
            .await
            .expect("it starts");
        let result = app.run(order, "o-1", of.clone()).await;
        let result = result.map_err(|error| {
            let RunError::Call(error) = error else { panic!("{error}") };
            error
        });
        assert_eq!(result, expected);
        assert_eq!(diary.lines().len(), charges);
        app.shutdown().await.expect("it stops");
    }
}

#[tokio::test]
async fn the_first_success_is_the_result() {
    check_order(&[], Ok(7), 1).await;
}

#[tokio::test]
async fn errors_that_the_predicate_accepts_are_retried() {
    check_order(&["down", "still down"], Ok(7), 3).await;
}

#[tokio::test]
async fn an_error_that_the_predicate_refuses_is_the_result() {
    check_order(&["down", "declined"], Err(CallError::App(OrderError::OutOfStock)), 2).await;
}

#[tokio::test]
async fn the_last_error_comes_back_as_the_type_that_it_was() {
    let last = CallError::App(PayError::Network("e".to_string()));
    check_order(&["a", "b", "c", "d", "e"], Err(CallError::App(OrderError::Pay(last))), 5).await;
}

#[tokio::test]
async fn a_child_gives_its_error_as_its_type() {
    let diary = Diary::default();
    check(
        move |b| {
            b.activity("Charge", charge)
                .orchestration("Order", order)
                .orchestration("Parent", parent)
                .state(diary.clone())
        },
        |app| async move {
            let of = Order { id: 1, answers: vec!["declined".to_string(); 2] };
            assert_eq!(app.run(parent, "p-1", of).await.expect("it ends"), "sorry");
        },
    )
    .await;
}

async fn panics(_ctx: ActivityContext, _input: ()) -> Result<(), PayError> {
    panic!("the till is open");
}

async fn reports(ctx: OrchestrationContext, _input: ()) -> Result<String> {
    match ctx.call(panics, ()).await {
        Err(CallError::Panicked { message }) => Ok(message),
        other => Err(format!("a panic came back as {other:?}").into()),
    }
}

#[tokio::test]
async fn a_panic_of_an_activity_comes_back_as_a_panic_with_its_text() {
    check(
        |b| b.activity("Panics", panics).orchestration("Reports", reports),
        |app| async move {
            let message = app.run(reports, "r-1", ()).await.expect("it ends");
            assert!(message.contains("the till is open"), "{message}");
        },
    )
    .await;
}

async fn reads(_ctx: OrchestrationContext, path: String) -> Result<String> {
    Ok(std::fs::read_to_string(path)?)
}

#[tokio::test]
async fn any_error_turns_into_a_failure_with_its_text() {
    check(
        |b| b.orchestration("Reads", reads),
        |app| async move {
            let failed = app.run(reads, "r-1", "/no/such/file".to_string()).await.expect_err("no file");
            assert!(
                failed.app().is_some_and(|failure| failure.message().contains("No such file")),
                "{failed:?}"
            );
        },
    )
    .await;
}

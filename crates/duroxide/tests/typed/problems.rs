//! What is wrong at the start of a program.

use duroxide::Builder;
use duroxide::prelude::*;

async fn greet(_ctx: ActivityContext, name: String) -> Result<String> {
    Ok(name)
}

async fn other(_ctx: ActivityContext, name: String) -> Result<String> {
    Ok(name)
}

async fn hello(_ctx: OrchestrationContext, name: String) -> Result<String> {
    Ok(name)
}

async fn check(register: impl FnOnce(Builder) -> Builder, expected: &[&str]) {
    let builder = Duroxide::builder("sqlite::memory:").discover(false);
    let problem = register(builder).start().await.expect_err("it does not start");
    assert!(matches!(problem, OpenError::Handlers { .. }), "{problem:?}");
    let text = problem.to_string();
    for part in expected {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
}

#[tokio::test]
async fn a_closure_is_refused() {
    let expected = ["activity 'Greet' is a closure or a function pointer", "write it as `async fn`"];
    check(
        |b| b.activity("Greet", |_ctx: ActivityContext, name: String| async move { Ok::<_, Failure>(name) }),
        &expected,
    )
    .await;
    let moved = "captured".to_string();
    check(
        |b| {
            b.activity("Greet", move |_ctx: ActivityContext, _name: String| {
                let moved = moved.clone();
                async move { Ok::<_, Failure>(moved) }
            })
        },
        &expected,
    )
    .await;
}

#[tokio::test]
async fn one_function_under_two_names_is_refused() {
    check(|b| b.activity("A", greet).activity("B", greet), &["greet is named twice, 'A' and 'B'"]).await;
    let two_versions = ["hello is named twice, 'Hello@1.0.0' and 'Hello@2.0.0'"];
    check(
        |b| b.orchestration("Hello", hello).orchestration_versioned("Hello", "2.0.0", hello),
        &two_versions,
    )
    .await;
}

#[tokio::test]
async fn two_handlers_of_one_name_are_refused() {
    check(|b| b.activity("Greet", greet).activity("Greet", other), &["Greet"]).await;
}

#[tokio::test]
async fn an_empty_and_a_reserved_name_are_refused() {
    check(|b| b.activity("", greet), &["activity", "empty"]).await;
    check(|b| b.orchestration("", hello), &["orchestration", "empty"]).await;
    check(|b| b.declare_activity("", greet), &["activity", "empty"]).await;
    check(|b| b.declare_orchestration("", hello), &["orchestration", "empty"]).await;
    check(|b| b.activity("__duroxide_x", greet), &["'__duroxide_x' uses reserved prefix '__duroxide'"]).await;
}

#[tokio::test]
async fn what_is_no_version_is_refused() {
    check(|b| b.orchestration_versioned("Hello", "2.0", hello), &["orchestration 'Hello'", "2.0"]).await;
    check(|b| b.declare_orchestration_versioned("Hello", "two", hello), &["orchestration 'Hello'", "two"])
        .await;
}

#[tokio::test]
async fn two_states_of_one_type_are_refused() {
    check(|b| b.state(1_u32).state(2_u32), &["two states of type u32"]).await;
}

#[tokio::test]
async fn all_problems_are_told_at_once() {
    check(
        |b| b.activity("A", greet).activity("B", greet).state(1_u8).state(1_u8),
        &["named twice", "two states"],
    )
    .await;
}

#[tokio::test]
async fn an_unknown_url_is_refused_and_its_password_not_quoted() {
    for url in ["mysql://me:secret@host/db", "secret", ""] {
        let problem = Duroxide::builder(url).discover(false).start().await.expect_err("no such store");
        assert!(matches!(problem, OpenError::Store(_)), "{problem:?}");
        let text = problem.to_string();
        assert!(text.contains("sqlite:") && !text.contains("secret"), "{text}");
    }
}

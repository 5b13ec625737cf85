//! Handlers that attributes have entered into the program's list.

use duroxide::prelude::*;

#[duroxide::activity]
async fn greet(_ctx: ActivityContext, name: String) -> Result<String> {
    Ok(format!("Hello, {name}!"))
}

#[duroxide::orchestration]
async fn hello(ctx: OrchestrationContext, name: String) -> Result<String> {
    Ok(ctx.call(greet, name).await?)
}

/// Its stored name is not the function's.
#[duroxide::orchestration(name = "Greeting", version = "2.0.0")]
pub(crate) async fn greeting_v2(ctx: OrchestrationContext, name: String) -> Result<String, String> {
    let greeted = ctx.call(inner::r#match, name).await.map_err(|error| error.to_string())?;
    Ok(format!("{greeted}{}", ctx.orchestration_version()))
}

mod inner {
    use duroxide::prelude::*;

    #[duroxide::activity]
    pub(super) async fn r#match(_ctx: ActivityContext, name: String) -> Result<String> {
        Ok(format!("{name} v"))
    }
}

#[tokio::test]
async fn handlers_with_attributes_are_registered_under_their_names_and_versions() {
    let app = Duroxide::open("sqlite::memory:").await.expect("it starts");
    assert_eq!(app.run(hello, "hello-1", "world".to_string()).await.expect("greeted"), "Hello, world!");
    assert_eq!(app.run(greeting_v2, "g-1", "a".to_string()).await.expect("greeted"), "a v2.0.0");
    let info = app.client().get_instance_info("g-1").await.expect("it exists");
    assert_eq!(
        (info.orchestration_name.as_str(), info.orchestration_version.as_str()),
        ("Greeting", "2.0.0")
    );
    app.shutdown().await.expect("it stops");
}

#[tokio::test]
async fn a_handler_in_a_function_is_registered() {
    #[duroxide::orchestration(name = "InAFunction")]
    async fn local(_ctx: OrchestrationContext, number: u32) -> Result<u32> {
        Ok(number + 1)
    }
    let app = Duroxide::open("sqlite::memory:").await.expect("it starts");
    assert_eq!(app.run(local, "local-1", 1).await.expect("counted"), 2);
    app.shutdown().await.expect("it stops");
}

#[tokio::test]
async fn without_discovery_nothing_of_the_attributes_is_registered() {
    let app = Duroxide::builder("sqlite::memory:").discover(false).start().await.expect("it starts");
    let refused = app.start(hello, "hello-1", "world".to_string()).await.expect_err("it has no name");
    let text = refused.to_string();
    assert!(text.contains("hello has no name on this node: put #[duroxide::orchestration] on it"), "{text}");
    app.shutdown().await.expect("it stops");
}

#[tokio::test]
async fn a_second_name_beside_that_of_the_attribute_is_an_error_at_start() {
    let started = Duroxide::builder("sqlite::memory:").activity("Other", greet).start().await;
    let text = started.expect_err("two names").to_string();
    assert!(text.contains("greet is named twice"), "{text}");
}

#[tokio::test]
async fn a_client_alone_knows_the_names() {
    let app = Duroxide::client_only("sqlite::memory:").await.expect("it opens");
    assert!(app.runtime().is_none());
    let run = app.start(hello, "hello-1", "world".to_string()).await.expect("it is started");
    assert!(run.started());
    let waited = run.result_within(Duration::from_millis(20)).await;
    assert!(matches!(waited, Err(RunError::NotEnded { .. })), "{waited:?}");
}

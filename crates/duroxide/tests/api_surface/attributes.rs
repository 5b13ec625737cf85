//! The attributes, with each of their keys.

use std::sync::Arc;
use std::time::Duration;

use duroxide::prelude::*;
use duroxide::providers::memory::MemoryProvider;
use duroxide::{Builder, FunctionName};

/// The crate under another name, as a program may have it.
mod renamed {
    pub(super) use duroxide as engine;
}

#[duroxide::activity]
async fn plain_activity(_ctx: ActivityContext, input: String) -> Result<String> {
    Ok(input)
}

#[duroxide::activity(name = "NamedActivity")]
async fn named_activity(_ctx: ActivityContext, input: String) -> Result<String, String> {
    Ok(input)
}

#[duroxide::activity(crate = renamed::engine)]
async fn activity_of_renamed(_ctx: ActivityContext, _input: ()) -> Result<()> {
    Ok(())
}

#[duroxide::orchestration]
async fn plain_orchestration(ctx: OrchestrationContext, input: String) -> Result<String> {
    Ok(ctx.call(plain_activity, input).await?)
}

#[duroxide::orchestration(name = "NamedOrchestration", version = "2.0.0")]
async fn named_orchestration(ctx: OrchestrationContext, input: String) -> Result<String, CallError<String>> {
    ctx.call(named_activity, input).await
}

#[duroxide::orchestration(on_cancel = "compensate", within = "10m", crate = renamed::engine)]
async fn compensating(ctx: OrchestrationContext, _input: ()) -> Result<()> {
    ctx.cancellable(ctx.sleep(Duration::from_secs(3600))).await?;
    Ok(())
}

/// The attribute makes a plain test of it.
#[duroxide::test]
async fn the_attribute_of_tests_gives_an_environment(env: TestEnv) -> Result<()> {
    let run = env.start(plain_orchestration, "plain", "given".to_string()).await?;
    assert_eq!(run.result().await?, "given");
    Ok(())
}

pub(crate) fn checked() -> Vec<&'static str> {
    let builder = Builder::on_store(Arc::new(MemoryProvider::new())).with_discovered();
    let names = builder.names();
    check(names.activity_of(plain_activity), "plain_activity", None);
    check(names.activity_of(named_activity), "NamedActivity", None);
    check(names.activity_of(activity_of_renamed), "activity_of_renamed", None);
    check(names.orchestration_of(plain_orchestration), "plain_orchestration", Some("1.0.0"));
    check(names.orchestration_of(named_orchestration), "NamedOrchestration", Some("2.0.0"));
    check(names.orchestration_of(compensating), "compensating", Some("1.0.0"));
    let handlers = builder.handlers().expect("nothing is wrong");
    let version = "1.0.0".parse().expect("a version");
    let handler =
        handlers.orchestrations.resolve_handler_exact("compensating", &version).expect("it is there");
    let within = handler.cancel_policy().map(|policy| policy.compensate_within);
    assert_eq!(within, Some(Duration::from_secs(600)));
    vec![
        "#[duroxide::activity]",
        "#[duroxide::activity(name = \"..\")]",
        "#[duroxide::activity(crate = path)]",
        "#[duroxide::orchestration]",
        "#[duroxide::orchestration(name = \"..\", version = \"..\")]",
        "#[duroxide::orchestration(on_cancel = \"compensate\", within = \"..\")]",
        "#[duroxide::orchestration(crate = path)]",
        "#[duroxide::test] async fn(TestEnv) -> impl TestOutcome",
    ]
}

/// Finds names by the functions themselves.
trait NamesOf {
    fn activity_of<F: 'static>(&self, function: F) -> Option<&FunctionName>;
    fn orchestration_of<F: 'static>(&self, function: F) -> Option<&FunctionName>;
}

impl NamesOf for duroxide::FunctionNames {
    fn activity_of<F: 'static>(&self, _function: F) -> Option<&FunctionName> {
        self.activity::<F>()
    }

    fn orchestration_of<F: 'static>(&self, _function: F) -> Option<&FunctionName> {
        self.orchestration::<F>()
    }
}

#[track_caller]
fn check(found: Option<&FunctionName>, name: &str, version: Option<&str>) {
    let FunctionName { name: found, version: in_version } = found.expect("the attribute has entered it");
    assert_eq!((&**found, in_version.as_deref()), (name, version));
}

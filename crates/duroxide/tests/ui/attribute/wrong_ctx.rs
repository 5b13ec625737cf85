use duroxide::prelude::*;

#[duroxide::activity]
async fn greet(_ctx: OrchestrationContext, name: String) -> Result<String> {
    Ok(name)
}

#[duroxide::orchestration]
async fn hello(_ctx: &OrchestrationContext, name: String) -> Result<String> {
    Ok(name)
}

#[duroxide::orchestration]
async fn turned(name: String, _ctx: OrchestrationContext) -> Result<String> {
    Ok(name)
}

fn main() {}

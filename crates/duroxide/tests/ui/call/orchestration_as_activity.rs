use duroxide::prelude::*;

async fn greet(_ctx: ActivityContext, name: String) -> Result<String> {
    Ok(name)
}

async fn hello(ctx: OrchestrationContext, name: String) -> Result<String> {
    Ok(ctx.call(greet, name).await?)
}

async fn calls(ctx: OrchestrationContext) -> Result<()> {
    ctx.call(hello, "world".to_string()).await?;
    Ok(())
}

fn main() {}

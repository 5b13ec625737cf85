use duroxide::prelude::*;

async fn greet(name: String) -> Result<String> {
    Ok(name)
}

fn not_async(_ctx: ActivityContext, name: String) -> Result<String> {
    Ok(name)
}

async fn calls(ctx: OrchestrationContext) -> Result<()> {
    ctx.call(greet, "world".to_string()).await?;
    ctx.call(not_async, "world".to_string()).await?;
    Ok(())
}

fn main() {}

use duroxide::prelude::*;

async fn greet(_ctx: ActivityContext, name: String) -> Result<String> {
    Ok(name)
}

async fn hello(ctx: OrchestrationContext, name: String) -> Result<String> {
    Ok(ctx.call(greet, name).await?)
}

async fn calls(ctx: OrchestrationContext, app: Duroxide) -> Result<()> {
    ctx.child(greet, "world".to_string()).await?;
    ctx.start(greet, "greet-1", "world".to_string());
    app.start(greet, "greet-2", "world".to_string()).await?;
    app.run(greet, "greet-3", "world".to_string()).await?;
    Ok(())
}

fn main() {}

use duroxide::prelude::*;

async fn greet(_ctx: ActivityContext, name: String) -> Result<String> {
    Ok(name)
}

async fn hello(ctx: OrchestrationContext, name: String) -> Result<String> {
    Ok(ctx.call(greet, name).await?)
}

async fn calls(ctx: OrchestrationContext, app: Duroxide) -> Result<()> {
    ctx.call(greet, 5).await?;
    ctx.child(hello, &["world"]).await?;
    ctx.start(hello, "hello-1", 5);
    app.run(hello, "hello-2", "world").await?;
    app.start(hello, "hello-3", 5).await?;
    Ok(())
}

fn main() {}

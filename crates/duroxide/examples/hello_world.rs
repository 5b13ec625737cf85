//! The smallest program: one orchestration, one activity, one file.
//!
//! Run it with `cargo run --example hello_world`. The file `hello.db` stays: a second run finds the greeting in it.

use duroxide::prelude::*;

#[duroxide::activity]
async fn greet(_ctx: ActivityContext, name: String) -> Result<String> {
    Ok(format!("Hello, {name}!"))
}

#[duroxide::orchestration]
async fn hello(ctx: OrchestrationContext, name: String) -> Result<String> {
    Ok(ctx.call(greet, name).await?)
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example shows what happens")]
async fn main() -> Result<()> {
    let app = Duroxide::open("sqlite:hello.db").await?;
    println!("{}", app.run(hello, "hello-1", "world".to_string()).await?);
    app.shutdown().await
}

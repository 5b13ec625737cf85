use std::rc::Rc;

use duroxide::prelude::*;

#[derive(Debug)]
struct Declined;

async fn charge(_ctx: ActivityContext, _cents: u64) -> Result<(), Declined> {
    Err(Declined)
}

async fn hello(ctx: OrchestrationContext, name: String) -> Result<String> {
    let name = Rc::new(name);
    ctx.sleep(Duration::from_secs(1)).await;
    Ok(name.to_string())
}

async fn greet(_ctx: ActivityContext, name: String) -> Result<String> {
    Ok(name)
}

fn main() {
    let _builder = Duroxide::builder("sqlite:x.db")
        .activity("Charge", charge)
        .orchestration("Hello", hello)
        .orchestration("Greet", greet);
}

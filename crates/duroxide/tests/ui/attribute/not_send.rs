use std::rc::Rc;

use duroxide::prelude::*;

#[duroxide::orchestration]
async fn hello(ctx: OrchestrationContext, name: String) -> Result<String> {
    let name = Rc::new(name);
    ctx.sleep(Duration::from_secs(1)).await;
    Ok(name.to_string())
}

fn main() {}

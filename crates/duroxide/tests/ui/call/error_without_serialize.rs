use duroxide::prelude::*;

#[derive(Debug)]
struct Declined;

async fn charge(_ctx: ActivityContext, _cents: u64) -> Result<(), Declined> {
    Err(Declined)
}

async fn calls(ctx: OrchestrationContext) {
    let _charged = ctx.call(charge, 100).await;
}

fn main() {}

use duroxide::prelude::*;

#[duroxide::activity]
async fn no_input(_ctx: ActivityContext) -> Result<()> {
    Ok(())
}

#[duroxide::activity]
async fn add(_ctx: ActivityContext, one: u32, other: u32) -> Result<u32> {
    Ok(one + other)
}

fn main() {}

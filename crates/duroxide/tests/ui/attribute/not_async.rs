use duroxide::prelude::*;

#[duroxide::activity]
fn greet(_ctx: ActivityContext, name: String) -> Result<String> {
    Ok(name)
}

fn main() {}

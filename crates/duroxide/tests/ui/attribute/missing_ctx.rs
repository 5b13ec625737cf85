use duroxide::prelude::*;

#[duroxide::activity]
async fn greet(name: String) -> Result<String> {
    Ok(name)
}

#[duroxide::orchestration]
async fn hello(name: String, times: u32) -> Result<String> {
    Ok(name.repeat(times as usize))
}

#[duroxide::orchestration]
async fn nothing() -> Result<()> {
    Ok(())
}

fn main() {}

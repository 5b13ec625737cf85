use duroxide::prelude::*;

#[duroxide::activity]
async fn echo<T>(_ctx: ActivityContext, value: T) -> Result<T> {
    Ok(value)
}

#[duroxide::activity]
async fn length(_ctx: ActivityContext, value: impl AsRef<str>) -> Result<usize> {
    Ok(value.as_ref().len())
}

fn main() {}

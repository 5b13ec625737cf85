use std::borrow::Cow;

use duroxide::prelude::*;

#[duroxide::activity]
async fn by_reference(_ctx: ActivityContext, name: &str) -> Result<String> {
    Ok(name.to_string())
}

#[duroxide::activity]
async fn named<'a>(_ctx: ActivityContext, name: &'a str) -> Result<String> {
    Ok(name.to_string())
}

#[duroxide::orchestration]
async fn inside(_ctx: OrchestrationContext, names: Vec<Cow<'_, str>>) -> Result<usize> {
    Ok(names.len())
}

fn main() {}

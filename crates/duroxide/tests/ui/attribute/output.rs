use duroxide::prelude::*;

#[duroxide::activity]
async fn nothing(_ctx: ActivityContext, _name: String) {}

#[duroxide::activity]
async fn unit(_ctx: ActivityContext, _name: String) -> () {}

#[duroxide::orchestration]
async fn text(_ctx: OrchestrationContext, name: String) -> String {
    name
}

fn main() {}

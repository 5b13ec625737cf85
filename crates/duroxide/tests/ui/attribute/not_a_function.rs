#[duroxide::activity]
struct Greeter;

#[duroxide::orchestration]
mod handlers {}

fn main() {}

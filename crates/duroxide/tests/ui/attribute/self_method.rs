use duroxide::prelude::*;

struct Greeter;

impl Greeter {
    #[duroxide::activity]
    async fn greet(&self, _ctx: ActivityContext, name: String) -> Result<String> {
        Ok(name)
    }
}

fn main() {}

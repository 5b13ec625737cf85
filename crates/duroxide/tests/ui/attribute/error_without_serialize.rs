use duroxide::prelude::*;

#[derive(Debug)]
struct Declined;

impl std::fmt::Display for Declined {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("declined")
    }
}

impl std::error::Error for Declined {}

#[duroxide::activity]
async fn charge(_ctx: ActivityContext, _cents: u64) -> Result<(), Declined> {
    Err(Declined)
}

fn main() {}

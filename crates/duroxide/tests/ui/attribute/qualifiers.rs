use duroxide::prelude::*;

#[duroxide::activity]
async unsafe fn dangerous(_ctx: ActivityContext, _input: ()) -> Result<()> {
    Ok(())
}

#[duroxide::activity]
extern "C" fn foreign(_ctx: ActivityContext, _input: ()) -> Result<()> {
    Ok(())
}

#[duroxide::activity]
const fn constant(_ctx: ActivityContext, _input: ()) -> Result<()> {
    Ok(())
}

fn main() {}

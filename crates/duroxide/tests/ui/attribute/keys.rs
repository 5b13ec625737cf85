use duroxide::prelude::*;

#[duroxide::activity(nmae = "Greet")]
async fn unknown(_ctx: ActivityContext, _input: ()) -> Result<()> {
    Ok(())
}

#[duroxide::activity(name = "A", name = "B")]
async fn twice(_ctx: ActivityContext, _input: ()) -> Result<()> {
    Ok(())
}

#[duroxide::activity(version = "1.0.0")]
async fn of_a_version(_ctx: ActivityContext, _input: ()) -> Result<()> {
    Ok(())
}

#[duroxide::activity(name = "")]
async fn empty(_ctx: ActivityContext, _input: ()) -> Result<()> {
    Ok(())
}

#[duroxide::activity(name = "__duroxide_greet")]
async fn reserved(_ctx: ActivityContext, _input: ()) -> Result<()> {
    Ok(())
}

#[duroxide::activity]
async fn __duroxide_function(_ctx: ActivityContext, _input: ()) -> Result<()> {
    Ok(())
}

#[duroxide::orchestration(version = "2.0")]
async fn no_version(_ctx: OrchestrationContext, _input: ()) -> Result<()> {
    Ok(())
}

#[duroxide::orchestration(version = 2)]
async fn a_number(_ctx: OrchestrationContext, _input: ()) -> Result<()> {
    Ok(())
}

#[duroxide::orchestration("Order")]
async fn without_a_key(_ctx: OrchestrationContext, _input: ()) -> Result<()> {
    Ok(())
}

#[duroxide::orchestration(name)]
async fn without_a_value(_ctx: OrchestrationContext, _input: ()) -> Result<()> {
    Ok(())
}

#[duroxide::orchestration(on_cancel = "undo", within = "10m")]
async fn undoes(_ctx: OrchestrationContext, _input: ()) -> Result<()> {
    Ok(())
}

#[duroxide::orchestration(on_cancel = "compensate")]
async fn without_a_time(_ctx: OrchestrationContext, _input: ()) -> Result<()> {
    Ok(())
}

#[duroxide::orchestration(on_cancel = "compensate", within = "ten minutes")]
async fn with_no_time(_ctx: OrchestrationContext, _input: ()) -> Result<()> {
    Ok(())
}

#[duroxide::orchestration(within = "10m")]
async fn time_for_nothing(_ctx: OrchestrationContext, _input: ()) -> Result<()> {
    Ok(())
}

fn main() {}

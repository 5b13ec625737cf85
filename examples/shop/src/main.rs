//! `cargo run -p shop`: the shop on port 8080, its orders in `shop.db`, or in PostgreSQL by `DATABASE_URL`.
//! `cargo run -p shop -- admin instance list`: its command line, which can also replay with the shop's own code.

use std::process::ExitCode;

use duroxide::prelude::*;
use duroxide_cli::Cli;
use shop::world::World;

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "sqlite:shop.db?mode=rwc".to_string());
    let world = World::default();
    let program = Duroxide::builder(url.clone()).state(world.clone());
    if std::env::args_os().nth(1).is_some_and(|word| word == "admin") {
        let cli = Cli::with(program).named("shop admin").default_store(url);
        return Ok(cli.run_from(std::env::args_os().skip(1)).await);
    }
    serve(program, &world).await?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(program: duroxide::Builder, world: &World) -> Result<()> {
    let address = std::env::var("SHOP_ADDRESS").unwrap_or_else(|_| "127.0.0.1:8080".to_string());
    world.put("tea", 1_000);
    world.put("teapot", 10);
    let app = program.start().await?;
    let listener = tokio::net::TcpListener::bind(&address).await?;
    let routes = shop::service::router(app.clone());
    tokio::select! {
        served = async { axum::serve(listener, routes).await } => served?,
        stopped = app.run_until_signal() => stopped?,
    }
    app.shutdown().await
}

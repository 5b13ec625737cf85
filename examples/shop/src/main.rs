//! `cargo run -p shop`: the shop on port 8080, its orders in `shop.db`, or in PostgreSQL by `DATABASE_URL`.

use duroxide::prelude::*;
use shop::world::World;

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "sqlite:shop.db?mode=rwc".to_string());
    let address = std::env::var("SHOP_ADDRESS").unwrap_or_else(|_| "127.0.0.1:8080".to_string());
    let world = World::default();
    world.put("tea", 1_000);
    world.put("teapot", 10);
    let app = Duroxide::builder(url).state(world).start().await?;
    let listener = tokio::net::TcpListener::bind(&address).await?;
    let routes = shop::service::router(app.clone());
    tokio::select! {
        served = async { axum::serve(listener, routes).await } => served?,
        stopped = app.run_until_signal() => stopped?,
    }
    app.shutdown().await
}

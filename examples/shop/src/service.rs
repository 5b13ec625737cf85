//! The HTTP service: orders are placed, looked at, approved and cancelled.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use duroxide::OrchestrationStatus;
use duroxide::prelude::*;

use crate::model::{APPROVED, Approval, Order};
use crate::order::order;

type Answer = std::result::Result<(StatusCode, String), (StatusCode, String)>;

/// The routes of the shop.
pub fn router(app: Duroxide) -> Router {
    Router::new()
        .route("/orders", post(place))
        .route("/orders/{id}", get(look).delete(cancel))
        .route("/orders/{id}/approval", post(approve))
        .with_state(app)
}

/// Placing an order twice places it once: the id is the customer's.
async fn place(State(app): State<Duroxide>, Json(body): Json<Order>) -> Answer {
    let id = instance_of(&body.id);
    match app.start(order, &id, body).await {
        Ok(run) if run.started() => Ok((StatusCode::CREATED, id)),
        Ok(_) => Ok((StatusCode::OK, id)),
        Err(error @ StartError::Exists { .. }) => Err((StatusCode::CONFLICT, error.to_string())),
        Err(error) => Err((StatusCode::BAD_REQUEST, error.to_string())),
    }
}

async fn look(State(app): State<Duroxide>, Path(id): Path<String>) -> Answer {
    let status = app.handle(order, instance_of(&id)).status().await.map_err(unavailable)?;
    match status {
        OrchestrationStatus::NotFound => Err((StatusCode::NOT_FOUND, format!("no order {id}"))),
        OrchestrationStatus::Running { custom_status, .. } => {
            Ok((StatusCode::ACCEPTED, custom_status.unwrap_or_else(|| "in progress".to_string())))
        }
        OrchestrationStatus::Completed { output, .. } => Ok((StatusCode::OK, output)),
        OrchestrationStatus::Failed { details, .. } => Ok((StatusCode::OK, details.display_message())),
    }
}

async fn approve(
    State(app): State<Duroxide>,
    Path(id): Path<String>,
    Json(approval): Json<Approval>,
) -> Answer {
    told(app.raise(instance_of(&id), APPROVED, &approval).await, &id)
}

async fn cancel(State(app): State<Duroxide>, Path(id): Path<String>) -> Answer {
    told(app.handle(order, instance_of(&id)).cancel("by the customer").await, &id)
}

fn told(outcome: std::result::Result<SendOutcome, duroxide::ClientError>, id: &str) -> Answer {
    match outcome.map_err(unavailable)? {
        SendOutcome::Delivered => Ok((StatusCode::ACCEPTED, "delivered".to_string())),
        SendOutcome::Kept => Ok((StatusCode::ACCEPTED, "kept until the order is placed".to_string())),
        SendOutcome::NotFound => Err((StatusCode::NOT_FOUND, format!("no order {id}"))),
        SendOutcome::Ended => Err((StatusCode::CONFLICT, format!("order {id} has ended"))),
    }
}

fn unavailable(error: duroxide::ClientError) -> (StatusCode, String) {
    (StatusCode::SERVICE_UNAVAILABLE, error.to_string())
}

fn instance_of(order: &str) -> String {
    format!("order-{order}")
}

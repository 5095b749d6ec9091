//! `GET /v1/policy?source=NAMESPACE/NAME&destination=NAMESPACE/NAME`: whether one may call the
//! other, and by which rule.

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::{Desk, Fault, Order, Question, answer, closing};
use crate::kinds::WorkloadKey;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    source: String,
    destination: String,
}

pub(super) async fn policy(State(desk): State<Desk>, Query(request): Query<Request>) -> Response {
    let (source, destination) = (key(&request.source), key(&request.destination));
    let (Some(source), Some(destination)) = (source, destination) else {
        let error = "write source and destination as NAMESPACE/NAME".to_owned();
        return (StatusCode::BAD_REQUEST, Json(Fault { error })).into_response();
    };
    let question = Question {
        source,
        destination,
    };
    match desk.order(|reply| Order::Explain(question, reply)).await {
        Some(Ok(decision)) => Json(decision).into_response(),
        Some(Err(unknown)) => answer(StatusCode::NOT_FOUND, &unknown),
        None => closing(),
    }
}

fn key(word: &str) -> Option<WorkloadKey> {
    let (namespace, name) = word.split_once('/')?;
    (!namespace.is_empty() && !name.is_empty()).then(|| WorkloadKey::new(namespace, name))
}

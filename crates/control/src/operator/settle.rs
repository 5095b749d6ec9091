//! `POST /v1/settle`: has the sources read at once, and waits until every connected sidecar uses
//! what they say. Whoever takes an instance away asks before it ends it.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use super::{Desk, Order, closing};
use crate::kinds::WorkloadKey;

/// How long is waited if nothing is said.
const TIMEOUT_MILLIS: u64 = 5000;
/// And at most: whoever wants to wait longer asks again.
const TIMEOUT_MILLIS_MAX: u64 = 60_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Request {
    #[serde(default = "timeout_millis")]
    timeout_ms: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    /// Whether all use what the sources say.
    settled: bool,
    /// Who does not, as NAME.NAMESPACE.
    behind: Vec<String>,
    /// What is wrong with the sources; then it is what they said before that is used.
    #[serde(skip_serializing_if = "String::is_empty")]
    faults: String,
}

const fn timeout_millis() -> u64 {
    TIMEOUT_MILLIS
}

pub(super) async fn settle(State(desk): State<Desk>, Json(request): Json<Request>) -> Response {
    let Some(reading) = desk.order(Order::Read).await else {
        return closing();
    };
    let limit = Duration::from_millis(request.timeout_ms.min(TIMEOUT_MILLIS_MAX));
    let behind = desk.proxies.settle(reading.generation, limit).await;
    let name = |key: &WorkloadKey| format!("{}.{}", key.name, key.namespace);
    let answer = Answer {
        settled: behind.is_empty(),
        behind: behind.iter().map(name).collect(),
        faults: reading.faults,
    };
    Json(answer).into_response()
}

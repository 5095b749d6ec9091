//! A request at a service of the sample: its body is read, then the role answers. Called by
//! `session` for each.

use super::{
    Options, Role, details,
    gateway::Gateway,
    productpage::Productpage,
    ratings::Ratings,
    reply::{self, Reply},
    reviews::Reviews,
    upstream::Client,
};
use bytes::Bytes;
use http::{Method, Request, StatusCode, request::Parts};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde_json::json;
use std::cell::{Cell, RefCell};

/// Bytes of a request's body: a rating has about a hundred.
const BODY_BYTES_MAX: usize = 1 << 20;

/// One service.
pub(super) struct Service {
    name: String,
    work: Work,
    answers: Cell<u64>,
}

enum Work {
    Productpage(Productpage),
    Details,
    Reviews(Reviews),
    Ratings(RefCell<Ratings>),
    Gateway(Gateway),
}

impl Service {
    /// With the clients of those that its role calls.
    pub(super) fn build(options: &Options, callees: Vec<Client>) -> Self {
        let work = match options.role {
            Role::Productpage => Work::Productpage(Productpage::build(callees)),
            Role::Details => Work::Details,
            Role::Reviews => Work::Reviews(Reviews::build(options.version, callees)),
            Role::Ratings => Work::Ratings(RefCell::default()),
            Role::Gateway => Work::Gateway(Gateway::build(callees)),
        };
        Self {
            name: options.name.clone(),
            work,
            answers: Cell::new(0),
        }
    }

    /// How many requests it has answered.
    pub(super) fn answers(&self) -> u64 {
        self.answers.get()
    }

    /// The answer to a request, whatever became of it.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Reply {
        let (head, body) = request.into_parts();
        let reply = match Limited::new(body, BODY_BYTES_MAX).collect().await {
            Ok(body) => self.work(&head, body.to_bytes()).await,
            Err(error) => {
                let reason = format!("the body is unusable: {error}");
                reply::error(StatusCode::BAD_REQUEST, &reason)
            }
        };
        self.answers.set(self.answers.get() + 1);
        reply
    }

    async fn work(&self, head: &Parts, body: Bytes) -> Reply {
        if matches!(head.uri.path(), "/health" | "/actuator/health") {
            return reply::json(StatusCode::OK, &json!({"status": "UP"}));
        }
        if let Work::Gateway(gateway) = &self.work {
            return gateway.pass(head, body).await;
        }
        if let Work::Ratings(ratings) = &self.work {
            return ratings.borrow_mut().answer(head, &body);
        }
        if !matches!(head.method, Method::GET | Method::HEAD) {
            let reason = "there is nothing to change here: use GET";
            return reply::error(StatusCode::METHOD_NOT_ALLOWED, reason);
        }
        match &self.work {
            Work::Productpage(productpage) => productpage.answer(head, &self.name).await,
            Work::Reviews(reviews) => reviews.answer(head, &self.name).await,
            _ => details::answer(head, &self.name),
        }
    }
}

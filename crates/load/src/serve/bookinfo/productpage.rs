//! The productpage service: a book's page and the same as JSON, put together from what details
//! and reviews answer. They are asked at the same time.

use super::{
    catalogue::BOOKS,
    details::Details,
    page,
    reply::{self, Reply},
    reviews::ReviewList,
    upstream::{Call, Client, Failure},
};
use http::{StatusCode, request::Parts};
use serde_json::json;

const API: &str = "/api/v1/products";

pub(super) struct Productpage {
    details: Client,
    reviews: Client,
}

/// A book's two halves, each there or not.
pub(super) struct Halves {
    pub(super) details: Result<Details, Failure>,
    pub(super) reviews: Result<ReviewList, Failure>,
}

impl Halves {
    /// Of the answer that is made of them; a book that nobody knows is not found.
    fn status(&self) -> StatusCode {
        match self.failure() {
            None => StatusCode::OK,
            Some(failure) => failure.status(),
        }
    }

    fn failure(&self) -> Option<&Failure> {
        let of_reviews = || self.reviews.as_ref().err();
        self.details.as_ref().err().or_else(of_reviews)
    }
}

impl Productpage {
    /// With the clients of details and reviews.
    pub(super) fn build(callees: Vec<Client>) -> Self {
        let mut callees = callees.into_iter();
        let mut next = || callees.next().expect("it calls details and reviews");
        Self {
            details: next(),
            reviews: next(),
        }
    }

    /// The answer of the service that calls itself `name`.
    pub(super) async fn answer(&self, head: &Parts, name: &str) -> Reply {
        let path = head.uri.path();
        if let Some(rest) = path.strip_prefix(API) {
            return match rest {
                "" | "/" => list(),
                id => self.book_as_json(head, id.trim_start_matches('/')).await,
            };
        }
        let id = match path {
            "/" | "/productpage" => BOOKS[0].id,
            _ => match path.strip_prefix("/productpage/") {
                Some(id) => id,
                None => return reply::not_found(),
            },
        };
        let halves = self.halves(head, id).await;
        reply::html(halves.status(), page::html(id, name, &halves))
    }

    async fn book_as_json(&self, head: &Parts, id: &str) -> Reply {
        let halves = self.halves(head, id).await;
        match (&halves.details, &halves.reviews) {
            (Ok(details), Ok(reviews)) => {
                let book = json!({"id": id, "details": details, "reviews": reviews});
                reply::json(StatusCode::OK, &book)
            }
            _ => {
                let failure = halves.failure().map(ToString::to_string);
                reply::error(halves.status(), &failure.unwrap_or_default())
            }
        }
    }

    async fn halves(&self, head: &Parts, id: &str) -> Halves {
        let call = |what| Call::on_behalf_of(&head.headers, format!("/{what}/{id}"));
        let (details, reviews) = (call("details"), call("reviews"));
        let (details, reviews) =
            tokio::join!(self.details.read(&details), self.reviews.read(&reviews));
        Halves { details, reviews }
    }
}

/// All books, without asking anybody.
fn list() -> Reply {
    let books: Vec<_> = BOOKS
        .iter()
        .map(|book| json!({"id": book.id, "title": book.title}))
        .collect();
    reply::json(StatusCode::OK, &books)
}

//! The details service: `GET /details/ID`. Pure.

use super::{
    catalogue,
    reply::{self, Reply},
};
use http::{StatusCode, request::Parts};
use serde::{Deserialize, Serialize};

/// What there is to know about a book.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Details {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) author: String,
    pub(super) year: String,
    pub(super) pages: u16,
    pub(super) publisher: String,
    pub(super) language: String,
    pub(super) summary: String,
    pub(super) served_by: String,
}

/// The answer of the service that calls itself `name`.
pub(super) fn answer(head: &Parts, name: &str) -> Reply {
    let id = head.uri.path().strip_prefix("/details/");
    let Some(book) = id.and_then(catalogue::find) else {
        return reply::not_found();
    };
    let details = Details {
        id: book.id.to_owned(),
        title: book.title.to_owned(),
        author: book.author.to_owned(),
        year: book.year.to_owned(),
        pages: book.pages,
        publisher: book.publisher.to_owned(),
        language: book.language.to_owned(),
        summary: book.summary.to_owned(),
        served_by: name.to_owned(),
    };
    reply::json(StatusCode::OK, &details)
}

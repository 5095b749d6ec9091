//! The reviews service: `GET /reviews/PRODUCT`. Its versions differ in the stars that they show:
//! the first none, the second black ones, the third red ones.

use super::{
    catalogue::{self, Book},
    ratings::Rating,
    reply::{self, Reply},
    upstream::{Call, Client, Failure},
};
use http::{StatusCode, request::Parts};
use serde::{Deserialize, Serialize};

/// Which reviews.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Without stars: nobody is called.
    V1,
    /// Black stars, from ratings.
    V2,
    /// Red stars, from ratings.
    V3,
}

impl Version {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::V1, Self::V2, Self::V3];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V2 => "v2",
            Self::V3 => "v3",
        }
    }

    /// Of its stars; none where there are none.
    fn color(self) -> Option<&'static str> {
        match self {
            Self::V1 => None,
            Self::V2 => Some("black"),
            Self::V3 => Some("red"),
        }
    }
}

/// What readers say of a book.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReviewList {
    pub(super) product_id: String,
    pub(super) version: String,
    pub(super) served_by: String,
    pub(super) reviews: Vec<Review>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Review {
    pub(super) reviewer: String,
    pub(super) text: String,
    /// None where the version shows none, or the reader gave none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rating: Option<Stars>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Stars {
    pub(super) stars: u8,
    pub(super) color: String,
}

pub(super) struct Reviews {
    version: Version,
    ratings: Client,
}

impl Reviews {
    /// With the client of ratings, its only callee.
    pub(super) fn build(version: Version, callees: Vec<Client>) -> Self {
        let mut callees = callees.into_iter();
        let ratings = callees.next().expect("reviews call ratings");
        Self { version, ratings }
    }

    /// The answer of the service that calls itself `name`.
    pub(super) async fn answer(&self, head: &Parts, name: &str) -> Reply {
        let id = head.uri.path().strip_prefix("/reviews/");
        let Some(book) = id.and_then(catalogue::find) else {
            return reply::not_found();
        };
        let ratings = match self.ratings(head, book).await {
            Ok(ratings) => ratings,
            Err(failure) => {
                return reply::error(StatusCode::BAD_GATEWAY, &failure.to_string());
            }
        };
        let list = ReviewList {
            product_id: book.id.to_owned(),
            version: self.version.name().to_owned(),
            served_by: name.to_owned(),
            reviews: reviews(book, self.version.color(), &ratings),
        };
        reply::json(StatusCode::OK, &list)
    }

    async fn ratings(&self, head: &Parts, book: &Book) -> Result<Vec<Rating>, Failure> {
        if self.version.color().is_none() {
            return Ok(Vec::new());
        }
        let path = format!("/ratings/{}", book.id);
        let call = Call::on_behalf_of(&head.headers, path);
        self.ratings.read(&call).await
    }
}

/// Opinions with the stars of those who gave some: the last that they gave.
fn reviews(book: &Book, color: Option<&str>, ratings: &[Rating]) -> Vec<Review> {
    let review = |opinion: &catalogue::Opinion| {
        let by_them = |rating: &&Rating| rating.reviewer_id == opinion.reviewer_id;
        let given = ratings.iter().rev().find(by_them);
        let rating = given.zip(color).map(|(rating, color)| Stars {
            stars: rating.rating,
            color: color.to_owned(),
        });
        Review {
            reviewer: opinion.reviewer.to_owned(),
            text: opinion.text.to_owned(),
            rating,
        }
    };
    book.opinions.iter().map(review).collect()
}

//! The ratings service: `GET /ratings/PRODUCT` and `POST /ratings`, rows in memory. The answers
//! are kept as they are written, so that asking costs next to nothing.

use super::{
    catalogue::ROWS,
    reply::{self, Reply},
};
use bytes::Bytes;
use http::{Method, StatusCode, request::Parts};
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
};

/// Rows kept at most: a sample is no place to store things.
const ROWS_MAX: usize = 10_000;
/// Characters of an id: those of a UUID, and some to spare.
const ID_CHARS_MAX: usize = 64;
const STARS_MAX: u8 = 5;
const NOTHING: Bytes = Bytes::from_static(b"[]");

/// A row, as it is answered.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Rating {
    /// Its own; made here when a row is added.
    #[serde(default)]
    pub(super) id: String,
    pub(super) reviewer_id: String,
    pub(super) product_id: String,
    pub(super) rating: u8,
}

/// All rows, by product.
pub(super) struct Ratings {
    rows: HashMap<String, (Vec<Rating>, Bytes)>,
    count: usize,
}

impl Default for Ratings {
    fn default() -> Self {
        let mut ratings = Self {
            rows: HashMap::new(),
            count: 0,
        };
        for &(id, reviewer, product, stars) in ROWS {
            ratings.add(Rating {
                id: id.to_owned(),
                reviewer_id: reviewer.to_owned(),
                product_id: product.to_owned(),
                rating: stars,
            });
        }
        ratings
    }
}

impl Ratings {
    /// The answer to a request.
    pub(super) fn answer(&mut self, head: &Parts, body: &[u8]) -> Reply {
        let path = head.uri.path();
        match (&head.method, path.strip_prefix("/ratings")) {
            (&Method::GET | &Method::HEAD, Some(rest)) if rest.starts_with('/') => {
                let found = self.rows.get(&rest[1..]);
                reply::written(found.map_or(NOTHING, |(_, written)| written.clone()))
            }
            (&Method::POST, Some("" | "/")) => self.post(body),
            (_, Some(_)) => {
                let reason = "use GET /ratings/PRODUCT or POST /ratings";
                reply::error(StatusCode::METHOD_NOT_ALLOWED, reason)
            }
            _ => reply::not_found(),
        }
    }

    fn post(&mut self, body: &[u8]) -> Reply {
        match read(body) {
            Err(reason) => reply::error(StatusCode::BAD_REQUEST, &reason),
            Ok(_) if self.count >= ROWS_MAX => {
                let reason = format!("there are {ROWS_MAX} ratings already: restart the service");
                reply::error(StatusCode::INSUFFICIENT_STORAGE, &reason)
            }
            Ok(rating) => {
                self.add(rating.clone());
                reply::json(StatusCode::CREATED, &rating)
            }
        }
    }

    fn add(&mut self, rating: Rating) {
        let (rows, written) = self.rows.entry(rating.product_id.clone()).or_default();
        rows.push(rating);
        *written = serde_json::to_vec(rows).expect("plain data is JSON").into();
        self.count += 1;
    }
}

/// A row from the body of a POST, with an id of its own.
fn read(body: &[u8]) -> Result<Rating, String> {
    let mut rating: Rating = serde_json::from_slice(body)
        .map_err(|error| format!("write reviewerId, productId and rating as JSON: {error}"))?;
    for (name, id) in [
        ("reviewerId", &rating.reviewer_id),
        ("productId", &rating.product_id),
    ] {
        if id.is_empty() || id.len() > ID_CHARS_MAX {
            return Err(format!("{name} has 1 to {ID_CHARS_MAX} characters"));
        }
    }
    if !(1..=STARS_MAX).contains(&rating.rating) {
        return Err(format!("a rating is from 1 to {STARS_MAX}"));
    }
    rating.id = fresh_id();
    Ok(rating)
}

/// A random UUID (version 4); the standard library's seeds are random enough for a sample.
fn fresh_id() -> String {
    let random = || RandomState::new().hash_one(());
    let (high, low) = (random(), random());
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        0x8000 | ((low >> 48) & 0x3fff),
        low & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = r#"{"reviewerId":"r","productId":"p","rating":3}"#;

    #[test]
    fn a_row_is_read_with_an_id_of_its_own() {
        let (one, two) = (read(ROW.as_bytes()).unwrap(), read(ROW.as_bytes()).unwrap());
        assert_ne!(one.id, two.id);
        let lengths: Vec<usize> = one.id.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{}", one.id);
        assert_eq!(one.id.as_bytes()[14], b'4', "{}", one.id);
    }

    #[test]
    fn what_is_no_row_is_refused_with_a_reason() {
        let check = |body: &str, hint: &str| {
            let error = read(body.as_bytes()).unwrap_err();
            assert!(error.contains(hint), "{body}: {error}");
        };
        check("", "reviewerId, productId and rating");
        check(&ROW.replace('3', "6"), "1 to 5");
        check(&ROW.replace('3', "0"), "1 to 5");
        check(&ROW.replace("\"r\"", "\"\""), "reviewerId has 1");
        let long = format!("\"{}\"", "p".repeat(ID_CHARS_MAX + 1));
        check(&ROW.replace("\"p\"", &long), "productId has 1");
    }

    #[test]
    fn it_is_full_at_some_point() {
        let mut ratings = Ratings::default();
        let row = |number: usize| ROW.replace("\"p\"", &format!("\"p{number}\""));
        for number in ratings.count..ROWS_MAX {
            assert_eq!(ratings.post(row(number).as_bytes()).status(), 201);
        }
        assert_eq!(ratings.post(ROW.as_bytes()).status(), 507);
    }
}

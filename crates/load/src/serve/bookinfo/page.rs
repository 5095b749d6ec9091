//! The page of a book as HTML. Pure: what could not be had is said in its place, and whatever came
//! from somewhere else is escaped.

use super::{
    catalogue::BOOKS,
    details::Details,
    productpage::Halves,
    reviews::{Review, ReviewList, Stars},
    upstream::Failure,
};
use std::fmt::Write;

/// Has `{{title}}`, `{{other}}`, `{{details}}`, `{{reviews}}` and `{{served}}`.
const PAGE: &str = include_str!("page.html");
const STARS: usize = 5;

/// The whole page, served by the service that calls itself `name`.
pub(super) fn html(id: &str, name: &str, halves: &Halves) -> String {
    let title = halves
        .details
        .as_ref()
        .map(|details| details.title.as_str());
    fill(&[
        ("title", &escape(title.unwrap_or("A book"))),
        ("other", &others(id)),
        ("details", &or_reason(&halves.details, details)),
        ("reviews", &or_reason(&halves.reviews, reviews)),
        ("served", &served(name, halves)),
    ])
}

/// One pass: what is put in is not looked at again.
fn fill(values: &[(&str, &str)]) -> String {
    let mut page = String::with_capacity(PAGE.len() * 2);
    let mut rest = PAGE;
    while let Some((before, after)) = rest.split_once("{{") {
        let (key, after) = after.split_once("}}").unwrap_or((after, ""));
        let value = values.iter().find(|(name, _)| *name == key);
        page.push_str(before);
        page.push_str(value.map_or("", |(_, value)| value));
        rest = after;
    }
    page.push_str(rest);
    page
}

fn or_reason<T>(half: &Result<T, Failure>, show: fn(&T) -> String) -> String {
    match half {
        Ok(half) => show(half),
        Err(failure) => {
            let reason = escape(&failure.to_string());
            format!("<p class=\"failure\">Not to be had just now: {reason}</p>")
        }
    }
}

fn details(details: &Details) -> String {
    let pages = details.pages.to_string();
    let rows = [
        ("Author", &details.author),
        ("First published", &details.year),
        ("Publisher", &details.publisher),
        ("Language", &details.language),
        ("Pages", &pages),
    ];
    let mut text = format!(
        "<h1>{}</h1>\n<p class=\"summary\">{}</p>\n<dl>\n",
        escape(&details.title),
        escape(&details.summary)
    );
    for (name, value) in rows {
        put(
            &mut text,
            format_args!("<dt>{name}</dt><dd>{}</dd>\n", escape(value)),
        );
    }
    text.push_str("</dl>");
    text
}

fn reviews(list: &ReviewList) -> String {
    list.reviews.iter().map(review).collect()
}

fn review(review: &Review) -> String {
    format!(
        "<blockquote><p>{}</p><footer>{} {}</footer></blockquote>\n",
        escape(&review.text),
        escape(&review.reviewer),
        review.rating.as_ref().map(stars).unwrap_or_default()
    )
}

fn stars(rating: &Stars) -> String {
    let full = usize::from(rating.stars).min(STARS);
    let color = if rating.color == "red" {
        "red"
    } else {
        "black"
    };
    format!(
        "<span class=\"stars {color}\" title=\"{full} of {STARS}\">{}{}</span>",
        "★".repeat(full),
        "☆".repeat(STARS - full)
    )
}

fn others(id: &str) -> String {
    let mut text = String::new();
    for book in BOOKS.iter().filter(|book| book.id != id) {
        let (id, title) = (book.id, escape(book.title));
        put(
            &mut text,
            format_args!("<a href=\"/productpage/{id}\">{title}</a>"),
        );
    }
    text
}

/// Who had a part in it.
fn served(name: &str, halves: &Halves) -> String {
    let mut text = format!("<li>productpage <b>{}</b></li>", escape(name));
    if let Ok(details) = &halves.details {
        let name = escape(&details.served_by);
        put(&mut text, format_args!("<li>details <b>{name}</b></li>"));
    }
    if let Ok(list) = &halves.reviews {
        let (version, name) = (escape(&list.version), escape(&list.served_by));
        put(
            &mut text,
            format_args!("<li>reviews {version} <b>{name}</b></li>"),
        );
    }
    text
}

fn put(text: &mut String, piece: std::fmt::Arguments<'_>) {
    text.write_fmt(piece).expect("a string takes everything");
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::StatusCode;

    fn list(text: &str, rating: Option<Stars>) -> ReviewList {
        ReviewList {
            product_id: "p".to_owned(),
            version: "v3".to_owned(),
            served_by: "reviews-0".to_owned(),
            reviews: vec![Review {
                reviewer: "Alma".to_owned(),
                text: text.to_owned(),
                rating,
            }],
        }
    }

    #[test]
    fn a_half_that_is_missing_says_why_and_the_other_is_shown() {
        let failure = Failure::Status("details", StatusCode::SERVICE_UNAVAILABLE);
        let red = Stars {
            stars: 4,
            color: "red".to_owned(),
        };
        let halves = Halves {
            details: Err(failure),
            reviews: Ok(list("fine", Some(red))),
        };
        let page = html("x", "productpage-0", &halves);
        assert!(page.contains("details: status 503"), "{page}");
        assert!(
            page.contains("stars red\" title=\"4 of 5\">★★★★☆<"),
            "{page}"
        );
        assert!(page.contains("reviews v3 <b>reviews-0</b>"), "{page}");
        assert!(page.contains("<b>productpage-0</b>"), "{page}");
    }

    #[test]
    fn what_others_wrote_cannot_become_markup() {
        let halves = Halves {
            details: Err(Failure::Late("details")),
            reviews: Ok(list("<script>{{title}}", None)),
        };
        let page = html("x", "a", &halves);
        assert!(page.contains("&lt;script&gt;{{title}}"), "{page}");
        assert!(!page.contains("<script>"), "{page}");
    }
}

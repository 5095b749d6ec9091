//! The services of the sample over real connections on loopback, with each other and with callees
//! that a test plays itself.

use super::*;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener as StdListener, TcpStream as StdStream},
    time::Duration,
};

const BOOK: &str = "2099a055-1e21-46ef-825e-9e0de93554ea";
const OTHER: &str = "a071c269-369c-4f79-be03-6a41f27d6b5f";
const PATIENCE: Duration = Duration::from_secs(30);

fn options(role: Role, version: Version, callees: &[(Role, SocketAddr)]) -> Options {
    let upstream = |&(role, address): &(Role, SocketAddr)| {
        Upstream::parse(role, &format!("http://{address}")).unwrap()
    };
    Options {
        role,
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        name: format!("{}-0", role.name()),
        version,
        upstreams: callees.iter().map(upstream).collect(),
    }
}

fn serve(role: Role, callees: &[(Role, SocketAddr)]) -> Server {
    start(&options(role, Version::V2, callees)).unwrap()
}

/// Status and body of one request on a connection of its own.
fn ask(address: SocketAddr, request: &str, body: &str) -> (u16, String) {
    let mut stream = StdStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = body.len();
    write!(
        stream,
        "{request} HTTP/1.1\r\nhost: a\r\nx-request-id: 7\r\ncookie: mine\r\n\
         connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), body.to_owned())
}

fn get(address: SocketAddr, path: &str) -> (u16, String) {
    ask(address, &format!("GET {path}"), "")
}

/// A callee played by the test: gives each request's head to `answer`, and what comes of it to
/// the caller. Closes its connection after each answer without having said so.
fn played(mut answer: impl FnMut(&str) -> String + Send + 'static) -> SocketAddr {
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = String::new();
            let mut lines = BufReader::new(stream.try_clone().unwrap());
            while !head.ends_with("\r\n\r\n") && lines.read_line(&mut head).unwrap() > 0 {}
            let body = answer(&head);
            let length = body.len();
            // A caller that has gone away is one that a test is about.
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}"
            );
        }
    });
    address
}

/// An address at which nobody listens.
fn nobody() -> SocketAddr {
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

#[test]
fn a_page_has_its_book_its_reviews_and_their_stars() {
    let details = serve(Role::Details, &[]);
    let ratings = serve(Role::Ratings, &[]);
    for (version, shown) in [
        (Version::V1, None),
        (Version::V2, Some("stars black")),
        (Version::V3, Some("stars red")),
    ] {
        let callee = [(Role::Ratings, ratings.address())];
        let reviews = start(&options(Role::Reviews, version, &callee)).unwrap();
        let callees = [
            (Role::Details, details.address()),
            (Role::Reviews, reviews.address()),
        ];
        let productpage = serve(Role::Productpage, &callees);
        let (status, page) = get(productpage.address(), "/productpage");
        assert_eq!(status, 200, "{page}");
        for part in ["George Eliot", "Jonas", version.name(), "details-0"] {
            assert!(page.contains(part), "{part}: {page}");
        }
        let stars = shown.is_none_or(|stars| page.contains(stars));
        assert!(stars && page.contains("<span") == shown.is_some(), "{page}");
        let path = format!("/api/v1/products/{BOOK}");
        let (status, json) = get(productpage.address(), &path);
        let book: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((status, &book["details"]["id"]), (200, &BOOK.into()));
        assert_eq!(book["reviews"]["version"], version.name());
        let (status, _) = get(productpage.address(), "/productpage/none");
        assert_eq!(status, 404);
    }
}

#[test]
fn ratings_are_the_rows_of_the_original_and_take_more() {
    let ratings = serve(Role::Ratings, &[]);
    let path = format!("/ratings/{BOOK}");
    let row = format!(
        "[{{\"id\":\"160d4b28-3362-4f11-a82a-8f7b14d7fbdf\",\
         \"reviewerId\":\"449e3589-abab-4de0-8ced-239fee452d41\",\
         \"productId\":\"{BOOK}\",\"rating\":5}}]"
    );
    assert_eq!(get(ratings.address(), &path), (200, row));
    let other = get(ratings.address(), &format!("/ratings/{OTHER}")).1;
    assert!(other.contains("\"rating\":1"), "{other}");
    assert_eq!(get(ratings.address(), "/ratings/x"), (200, "[]".to_owned()));
    let row = r#"{"reviewerId":"me","productId":"x","rating":3}"#;
    let (status, answer) = ask(ratings.address(), "POST /ratings", row);
    assert!(status == 201 && answer.contains("\"id\":\""), "{answer}");
    let now = get(ratings.address(), "/ratings/x").1;
    assert_eq!(now, format!("[{answer}]"));
    assert_eq!(ask(ratings.address(), "POST /ratings", "{}").0, 400);
    assert_eq!(ask(ratings.address(), "PUT /ratings", row).0, 405);
    let (_, health) = get(ratings.address(), "/health");
    assert_eq!(health, r#"{"status":"UP"}"#);
}

#[test]
fn the_gateway_takes_the_prefix_off() {
    let ratings = serve(Role::Ratings, &[]);
    let gateway = serve(Role::Gateway, &[(Role::Ratings, ratings.address())]);
    let path = format!("/ratings/{BOOK}");
    let direct = get(ratings.address(), &path);
    let through = get(gateway.address(), &format!("/bookinfo-ratings{path}"));
    assert_eq!(through, direct);
    let row = r#"{"reviewerId":"me","productId":"x","rating":3}"#;
    let posted = ask(gateway.address(), "POST /bookinfo-ratings/ratings", row);
    assert_eq!(posted.0, 201, "{}", posted.1);
    let malformed = ask(gateway.address(), "POST /bookinfo-ratings/ratings", "{");
    assert_eq!(malformed.0, 400, "{}", malformed.1);
    assert_eq!(get(gateway.address(), &path).0, 404);
}

#[test]
fn who_failed_is_said_and_the_rest_is_shown() {
    let details = serve(Role::Details, &[]);
    let reviews = serve(Role::Reviews, &[(Role::Ratings, nobody())]);
    let callees = [
        (Role::Details, details.address()),
        (Role::Reviews, reviews.address()),
    ];
    let productpage = serve(Role::Productpage, &callees);
    let (status, reason) = get(reviews.address(), &format!("/reviews/{BOOK}"));
    assert_eq!(status, 502);
    assert!(reason.contains("ratings: no connection"), "{reason}");
    let (status, page) = get(productpage.address(), "/");
    assert_eq!(status, 502);
    assert!(page.contains("George Eliot"), "{page}");
    assert!(page.contains("reviews: status 502"), "{page}");
}

#[test]
fn trace_headers_go_along_and_cookies_do_not() {
    let (tell, told) = std::sync::mpsc::channel();
    let ratings = played(move |head| {
        tell.send(head.to_ascii_lowercase()).unwrap();
        "[]".to_owned()
    });
    let reviews = serve(Role::Reviews, &[(Role::Ratings, ratings)]);
    assert_eq!(get(reviews.address(), &format!("/reviews/{BOOK}")).0, 200);
    let head = told.recv_timeout(PATIENCE).unwrap();
    assert!(head.contains("x-request-id: 7\r\n"), "{head}");
    assert!(!head.contains("cookie"), "{head}");
}

#[test]
fn a_kept_connection_that_was_closed_is_replaced() {
    let ratings = played(|_| "[]".to_owned());
    let reviews = serve(Role::Reviews, &[(Role::Ratings, ratings)]);
    for _ in 0..20 {
        let (status, text) = get(reviews.address(), &format!("/reviews/{BOOK}"));
        assert_eq!(status, 200, "{text}");
    }
}

#[test]
fn a_request_in_flight_is_answered_before_the_end() {
    let (tell, told) = std::sync::mpsc::channel();
    let (go_on, wait) = std::sync::mpsc::channel();
    let ratings = played(move |_| {
        tell.send(()).unwrap();
        wait.recv().unwrap();
        "[]".to_owned()
    });
    let reviews = serve(Role::Reviews, &[(Role::Ratings, ratings)]);
    let address = reviews.address();
    let asking = std::thread::spawn(move || get(address, &format!("/reviews/{BOOK}")));
    told.recv_timeout(PATIENCE).unwrap();
    reviews.stop();
    go_on.send(()).unwrap();
    assert_eq!(asking.join().unwrap().0, 200);
    assert_eq!(reviews.join(), 1);
    assert!(StdStream::connect(address).is_err());
}

//! One request for a page → its answer. Pure but for the providers, and for Envoy's own pages.
//! Called by `admin::serve`. Must never answer to a method that could mean a change.

use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Uri};
use serde::Serialize;
use serde_json::json;

use super::{Phase, State, Surface};
use crate::envoy;
use crate::telemetry::metrics;

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

type Make = fn(&State, &str) -> Response<Page>;

/// A row of the table of pages.
struct Row {
    path: &'static str,
    /// Whether it is on the metrics address as well.
    scraped: bool,
    what: &'static str,
    make: Make,
}

const fn row(path: &'static str, scraped: bool, what: &'static str, make: Make) -> Row {
    Row {
        path,
        scraped,
        what,
        make,
    }
}

/// THE table of pages.
static ROWS: &[Row] = &[
    row(
        "/ready",
        false,
        "200 when serving, 503 when starting or draining",
        ready,
    ),
    row(
        "/config_dump",
        false,
        "configuration in force (JSON)",
        config_dump,
    ),
    row(
        "/clusters",
        false,
        "clusters; of each endpoint, who cannot reach it and what is in flight (JSON)",
        clusters,
    ),
    row(
        "/certs",
        false,
        "certificates in use (JSON), null without any",
        certificates,
    ),
    row(
        "/control",
        false,
        "conversation with the control plane (JSON), null without any",
        control,
    ),
    row("/stats", false, "metrics; ?format=json for JSON", stats),
    row("/metrics", true, "metrics in Prometheus text", prometheus),
    row("/stats/prometheus", true, "the same", prometheus),
];

pub(super) async fn answer(
    state: &State,
    which: Surface,
    request: &Request<Incoming>,
) -> Response<Page> {
    let rows = || {
        ROWS.iter()
            .filter(|row| which == Surface::Admin || row.scraped)
    };
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = text(
            StatusCode::METHOD_NOT_ALLOWED,
            "only GET and HEAD".to_owned(),
        );
        response
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    let uri = request.uri();
    if let Some(envoy) = &state.envoy
        && let Some(target) = target_at_envoy(which, uri)
    {
        return pass_on(envoy, &target).await;
    }
    match rows().find(|row| row.path == uri.path()) {
        Some(row) => (row.make)(state, uri.query().unwrap_or("")),
        None => {
            let pages = rows().map(|row| format!("{:18} {}\n", row.path, row.what));
            let mut pages = pages.collect::<String>();
            if state.envoy.is_some() && which == Surface::Admin {
                let of_envoy = envoy::PAGES.join(" ");
                pages += &format!("{:18} Envoy's own: {of_envoy}\n", envoy::PREFIX);
            }
            text(
                StatusCode::NOT_FOUND,
                format!("no such page; there are\n{pages}"),
            )
        }
    }
}

/// What Envoy is to be asked for, if it is one of its pages.
fn target_at_envoy(which: Surface, uri: &Uri) -> Option<String> {
    let path = match uri.path() {
        path @ "/stats/prometheus" => path,
        path if which == Surface::Admin => path.strip_prefix(envoy::PREFIX)?,
        _ => return None,
    };
    let is_shown = envoy::PAGES.contains(&path);
    let query = uri.query().map(|query| format!("?{query}"));
    is_shown.then(|| format!("{path}{}", query.unwrap_or_default()))
}

/// Envoy's page as it comes.
async fn pass_on(envoy: &envoy::Admin, target: &str) -> Response<Page> {
    let answered = match envoy.page(target).await {
        Ok(answered) => answered,
        Err(error) => return text(StatusCode::BAD_GATEWAY, format!("{error:#}\n")),
    };
    let kind = answered.headers().get(CONTENT_TYPE).cloned();
    let mut passed = response(answered.status(), TEXT, Page::Passed(answered.into_body()));
    if let Some(kind) = kind {
        passed.headers_mut().insert(CONTENT_TYPE, kind);
    }
    passed
}

fn ready(state: &State, _: &str) -> Response<Page> {
    let unavailable = |why: &str| text(StatusCode::SERVICE_UNAVAILABLE, why.to_owned());
    match () {
        () if state.is_in(Phase::Ready) => text(StatusCode::OK, "ready\n".to_owned()),
        () if state.is_in(Phase::Draining) => unavailable("draining\n"),
        () => unavailable("not ready\n"),
    }
}

/// `applied` lags behind `generation` until the last worker has taken the change over.
fn config_dump(state: &State, _: &str) -> Response<Page> {
    let snapshot = state.snapshot.load();
    let applied = state.described.get().map(|described| (described.applied)());
    show(&json!({
        "generation": snapshot.generation,
        "applied": applied,
        "config": *snapshot.config,
    }))
}

fn clusters(state: &State, _: &str) -> Response<Page> {
    show(&state.snapshot.load().describe_clusters())
}

fn certificates(state: &State, _: &str) -> Response<Page> {
    show(&state.snapshot.load().certificates())
}

fn control(state: &State, _: &str) -> Response<Page> {
    show(&state.control.load().as_deref())
}

fn stats(state: &State, query: &str) -> Response<Page> {
    match query
        .split('&')
        .find_map(|pair| pair.strip_prefix("format="))
    {
        None | Some("text" | "prometheus") => prometheus(state, query),
        Some("json") => show(&state.described.get().map(|known| known.registry.to_json())),
        Some(_) => text(
            StatusCode::BAD_REQUEST,
            "format is text or json\n".to_owned(),
        ),
    }
}

fn prometheus(state: &State, _: &str) -> Response<Page> {
    match state.described.get() {
        Some(described) => {
            let page = Page::Pieces(Box::new(described.registry.page()));
            response(StatusCode::OK, metrics::CONTENT_TYPE, page)
        }
        None => text(StatusCode::SERVICE_UNAVAILABLE, "starting\n".to_owned()),
    }
}

fn text(status: StatusCode, text: String) -> Response<Page> {
    response(status, TEXT, Page::Whole(text))
}

fn show(value: &impl Serialize) -> Response<Page> {
    match serde_json::to_string_pretty(value) {
        Ok(text) => response(StatusCode::OK, JSON, Page::Whole(text + "\n")),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

fn response(status: StatusCode, kind: &'static str, page: Page) -> Response<Page> {
    let mut response = Response::new(page);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The body of an answer.
pub(super) enum Page {
    /// Empty once it was sent.
    Whole(String),
    Pieces(Box<metrics::Page>),
    /// From somebody else, as it comes.
    Passed(Incoming),
}

impl Body for Page {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let piece = match &mut *self {
            Self::Whole(text) if text.is_empty() => None,
            Self::Whole(text) => Some(std::mem::take(text)),
            Self::Pieces(pieces) => pieces.next(),
            Self::Passed(body) => return Pin::new(body).poll_frame(ctx),
        };
        Poll::Ready(piece.map(|text| Ok(Frame::data(text.into()))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(text) => text.is_empty(),
            Self::Pieces(_) => false,
            Self::Passed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        match self {
            Self::Whole(text) => hyper::body::SizeHint::with_exact(text.len() as u64),
            Self::Pieces(_) => hyper::body::SizeHint::default(),
            Self::Passed(body) => body.size_hint(),
        }
    }
}

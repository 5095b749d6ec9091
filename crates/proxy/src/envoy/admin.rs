//! Envoy's own admin pages, asked over its unix socket: for the companion, and for those who ask
//! that. Used by `envoy` and `admin`. Must never pass a request on that could change anything.

use anyhow::{Context, ensure};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{CONNECTION, HOST};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

/// Beneath which Envoy's pages are on ours.
pub(crate) const PREFIX: &str = "/envoy";
/// Those that only show.
pub(crate) const PAGES: [&str; 12] = [
    "/certs",
    "/clusters",
    "/config_dump",
    "/contention",
    "/init_dump",
    "/listeners",
    "/memory",
    "/ready",
    "/runtime",
    "/server_info",
    "/stats",
    "/stats/prometheus",
];

/// For an answer's head: Envoy makes the whole page first.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest page that is read here: a listener takes a few hundred bytes of its.
const PAGE_BYTES_MAX: usize = 8 << 20;
/// How often it is asked whether it serves.
const LOOK_PERIOD: Duration = Duration::from_millis(20);

/// Where Envoy answers.
pub(crate) struct Admin {
    socket: PathBuf,
}

/// What is in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Active {
    /// Connections of clients.
    pub(super) connections: u64,
    /// Requests, and connections that are passed on unread.
    pub(super) work: u64,
}

impl Admin {
    pub(super) const fn new(socket: PathBuf) -> Self {
        Self { socket }
    }

    /// The page at `target`, a path with a query or none.
    ///
    /// # Errors
    /// When Envoy does not answer.
    pub(crate) async fn page(&self, target: &str) -> anyhow::Result<Response<Incoming>> {
        self.send(Method::GET, target).await
    }

    async fn send(&self, method: Method, target: &str) -> anyhow::Result<Response<Incoming>> {
        let request = Request::builder()
            .method(method)
            .uri(target)
            .header(HOST, "envoy")
            .header(CONNECTION, "close")
            .body(String::new())?;
        let answer = async {
            let stream = UnixStream::connect(&self.socket).await?;
            let (mut sender, driver) =
                hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
            // It ends with the answer; how, whoever reads that is told.
            tokio::spawn(async move { drop(driver.await) });
            anyhow::Ok(sender.send_request(request).await?)
        };
        let answered = timeout(ANSWER_TIMEOUT, answer).await;
        answered.context("Envoy does not answer")?
    }

    /// The text of a page that is there.
    async fn text(&self, method: Method, target: &str) -> anyhow::Result<String> {
        let response = self.send(method, target).await?;
        let status = response.status();
        ensure!(
            status == StatusCode::OK,
            "Envoy answers {target} with {status}"
        );
        let read = timeout(ANSWER_TIMEOUT, read(response.into_body())).await;
        read.context("Envoy does not go on")?
    }

    /// Has Envoy do something.
    ///
    /// # Errors
    /// When it does not.
    pub(super) async fn act(&self, target: &str) -> anyhow::Result<()> {
        self.text(Method::POST, target).await.map(drop)
    }

    /// Waits until Envoy has its configuration and its workers run.
    pub(super) async fn until_live(&self) {
        while !self.is_live().await {
            sleep(LOOK_PERIOD).await;
        }
    }

    async fn is_live(&self) -> bool {
        // It is not there yet, or says that it is not: both change.
        if self.text(Method::GET, "/ready").await.is_err() {
            return false;
        }
        let started = "/stats?filter=^listener_manager.workers_started$";
        let started = self.text(Method::GET, started).await;
        started.is_ok_and(|page| gauges(&page).any(|(_, value)| value == 1))
    }

    /// What is in flight; `None` if that cannot be known.
    pub(super) async fn active(&self) -> Option<Active> {
        let target = "/stats?filter=downstream_(cx|rq)_active$";
        let page = self.text(Method::GET, target).await.ok()?;
        active(&page)
    }

    /// The listeners that Envoy has, with their real addresses; none if it does not say.
    pub(super) async fn listeners(&self) -> Vec<(String, SocketAddr)> {
        let page = self.text(Method::GET, "/listeners?format=json").await;
        page.map_or_else(|_| Vec::new(), |page| listeners(&page))
    }
}

async fn read(mut body: Incoming) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|ctx| Pin::new(&mut body).poll_frame(ctx)).await {
        let data: Bytes = frame?.into_data().unwrap_or_default();
        let most = PAGE_BYTES_MAX;
        ensure!(
            bytes.len() + data.len() <= most,
            "a page has more than {most} bytes"
        );
        bytes.extend_from_slice(&data);
    }
    Ok(String::from_utf8(bytes)?)
}

/// Lines `NAME: NUMBER`.
fn gauges(page: &str) -> impl Iterator<Item = (&str, u64)> {
    let line = |line: &'_ str| -> Option<(usize, u64)> {
        let (name, value) = line.rsplit_once(": ")?;
        Some((name.len(), value.trim().parse().ok()?))
    };
    page.lines()
        .filter_map(move |text| line(text).map(|(length, value)| (&text[..length], value)))
}

/// Sums up the lines of listeners, requests and unread connections; not those of workers, which
/// are in them, nor of the admin pages. `None` if there is no line of a listener.
fn active(page: &str) -> Option<Active> {
    let mut active = Active::default();
    let mut is_known = false;
    for (name, value) in gauges(page) {
        let is_admin = name.starts_with("listener.admin.") || name.starts_with("http.admin.");
        match name.split_once('.') {
            _ if is_admin || name.contains(".worker_") => {}
            Some(("listener", _)) => {
                active.connections += value;
                is_known = true;
            }
            Some(("http", rest)) if rest.ends_with("rq_active") => active.work += value,
            Some(("tcp", _)) => active.work += value,
            _ => {}
        }
    }
    is_known.then_some(active)
}

/// `envoy.admin.v3.Listeners`, as far as it is looked at.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    listener_statuses: Vec<Shown>,
}

#[derive(Deserialize)]
struct Shown {
    name: String,
    local_address: Address,
}

#[derive(Deserialize)]
struct Address {
    socket_address: Option<Socket>,
}

#[derive(Deserialize)]
struct Socket {
    address: IpAddr,
    port_value: u16,
}

fn listeners(page: &str) -> Vec<(String, SocketAddr)> {
    let page = serde_json::from_str(page);
    let Page { listener_statuses } = page.unwrap_or(Page {
        listener_statuses: Vec::new(),
    });
    let bound = listener_statuses.into_iter().filter_map(|shown| {
        let socket = shown.local_address.socket_address?;
        Some((
            shown.name,
            SocketAddr::new(socket.address, socket.port_value),
        ))
    });
    bound.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_flight_is_summed_up_once() {
        let page = "http.admin.downstream_cx_active: 1\nhttp.admin.downstream_rq_active: 1\n\
                    http.in.downstream_cx_active: 4\nhttp.in.downstream_rq_active: 3\n\
                    listener.0.0.0.0_1.downstream_cx_active: 4\n\
                    listener.0.0.0.0_1.worker_0.downstream_cx_active: 4\n\
                    listener.[__]_1.downstream_cx_active: 2\n\
                    listener.admin.downstream_cx_active: 1\ntcp.db.downstream_cx_active: 2\n";
        let expected = Active {
            connections: 6,
            work: 5,
        };
        assert_eq!(active(page), Some(expected));
        assert_eq!(
            active("http.in.downstream_rq_active: 0\nx: P0(1,2)\n"),
            None
        );
    }

    #[test]
    fn listeners_are_read_from_their_page() {
        let page = r#"{"listener_statuses": [
            {"name": "in", "local_address": {"socket_address": {
                "address": "::1", "port_value": 15003}}},
            {"name": "pipe", "local_address": {"pipe": {"path": "/x"}}}]}"#;
        let expected = vec![("in".to_owned(), "[::1]:15003".parse().unwrap())];
        assert_eq!(listeners(page), expected);
        assert_eq!((listeners("{}"), listeners("")), (Vec::new(), Vec::new()));
    }
}

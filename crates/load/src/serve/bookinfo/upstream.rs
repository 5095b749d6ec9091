//! Calls to another service over connections that are kept. A kept connection that its other end
//! has closed meanwhile is replaced without anybody noticing, where nothing can happen twice.

use super::Role;
use crate::Error;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header::HOST};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{
    body::Incoming,
    client::conn::http1::{SendRequest, handshake},
};
use hyper_util::rt::TokioIo;
use std::{cell::RefCell, io, time::Duration};
use tokio::{
    net::{TcpStream, lookup_host},
    task::spawn_local,
    time::timeout,
};

/// Where the services of the sample listen unless something else is said.
const PORT: u16 = 9080;
/// A connection that takes longer will hardly come.
const CONNECT_MAX: Duration = Duration::from_secs(1);
/// A whole call, all of its attempts. Callers of ours would give up about then.
const CALL_MAX: Duration = Duration::from_secs(5);
/// Bytes of an answer: the sample's own are far below, and a caller holds it whole.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Connections kept while nobody needs them: as many as a measurement keeps busy at once.
const IDLE_MAX: usize = 256;

/// Where a callee is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Who it is.
    pub role: Role,
    /// Name or address with a port, as in a URL.
    authority: String,
}

impl Upstream {
    /// Reads `http://HOST[:PORT]`, where `role` is to be found.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn parse(role: Role, url: &str) -> Result<Self, Error> {
        let wrong = |reason| Error::Url {
            url: url.to_owned(),
            reason,
        };
        let parsed: Uri = url.parse().map_err(|_| wrong("it is no URL"))?;
        if parsed.scheme_str() != Some("http") {
            return Err(wrong("services of the sample speak plain http"));
        }
        if !matches!(parsed.path(), "" | "/") || parsed.query().is_some() {
            return Err(wrong("a path is the caller's affair: leave it out"));
        }
        let host = parsed.host().ok_or_else(|| wrong("there is no host"))?;
        let port = parsed.port_u16().unwrap_or(80);
        Ok(Self {
            role,
            authority: format!("{host}:{port}"),
        })
    }
}

/// The clients of a role: for each that it calls, in the order of [`Role::callees`].
///
/// # Errors
/// An upstream that the role does not call.
pub(super) fn of_role(role: Role, given: &[Upstream]) -> Result<Vec<Client>, Error> {
    let callees = role.callees();
    if let Some(stray) = given.iter().find(|up| !callees.contains(&up.role)) {
        let (name, stray) = (role.name(), stray.role.name());
        let known: Vec<&str> = callees.iter().map(|callee| callee.name()).collect();
        return Err(Error::Plan(match known.is_empty() {
            true => format!("{name} calls nobody: leave the upstream {stray} out"),
            false => format!(
                "{name} does not call {stray}: it calls {}",
                known.join(", ")
            ),
        }));
    }
    let client = |callee: &Role| {
        let found = given.iter().rev().find(|up| up.role == *callee);
        let authority = found.map(|up| up.authority.clone());
        Client::new(
            *callee,
            authority.unwrap_or_else(|| format!("{}:{PORT}", callee.name())),
        )
    };
    Ok(callees.iter().map(client).collect())
}

/// A request to a callee.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) method: Method,
    /// Path and query.
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Call {
    /// A GET of this path on behalf of a request with these headers: those that tell which
    /// requests belong together go along.
    pub(super) fn on_behalf_of(headers: &HeaderMap, path: String) -> Self {
        let traced = TRACE_HEADERS
            .iter()
            .filter_map(|name| Some((http::HeaderName::from_static(name), headers.get(*name)?)));
        Self {
            method: Method::GET,
            path,
            headers: traced.map(|(name, value)| (name, value.clone())).collect(),
            body: Bytes::new(),
        }
    }
}

/// What tells that requests belong together.
const TRACE_HEADERS: &[&str] = &[
    "x-request-id",
    "traceparent",
    "tracestate",
    "baggage",
    "b3",
    "x-b3-traceid",
    "x-b3-spanid",
    "x-b3-parentspanid",
    "x-b3-sampled",
    "x-b3-flags",
];

/// What a callee answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// Why there is no answer. Says who did not give it.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The name leads nowhere.
    #[error("{0}: the name {1} has no address: {2}")]
    Resolve(&'static str, String, io::Error),
    /// Nobody takes the connection.
    #[error("{0}: no connection: {1}")]
    Connect(&'static str, io::Error),
    /// The connection broke, or what came is no HTTP.
    #[error("{0}: no answer: {1}")]
    Broken(&'static str, hyper::Error),
    /// It took too long.
    #[error("{0}: no answer within {seconds} s", seconds = CALL_MAX.as_secs())]
    Late(&'static str),
    /// The answer breaks off, or is too long to hold.
    #[error("{0}: the answer is unusable: {1}")]
    Body(&'static str, String),
    /// An answer that is of no use.
    #[error("{0}: status {code}", code = .1.as_u16())]
    Status(&'static str, StatusCode),
    /// Not what such a service answers.
    #[error("{0}: the answer is not understood: {1}")]
    Meaning(&'static str, serde_json::Error),
}

impl Failure {
    /// What its caller answers because of it.
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Status(_, StatusCode::NOT_FOUND) => StatusCode::NOT_FOUND,
            _ => StatusCode::BAD_GATEWAY,
        }
    }
}

type Sender = SendRequest<Full<Bytes>>;

/// The way to one callee.
pub(super) struct Client {
    role: Role,
    authority: String,
    idle: RefCell<Vec<Sender>>,
}

/// How one attempt ended without an answer.
struct Broken {
    failure: Failure,
    /// Nothing of the request can have had an effect.
    unsent: bool,
}

impl Client {
    fn new(role: Role, authority: String) -> Self {
        Self {
            role,
            authority,
            idle: RefCell::new(Vec::new()),
        }
    }

    /// The callee's name.
    pub(super) fn name(&self) -> &'static str {
        self.role.name()
    }

    /// One call; of whatever status, an answer is a success.
    pub(super) async fn call(&self, call: &Call) -> Result<Answer, Failure> {
        let late = |_| Err(Failure::Late(self.name()));
        timeout(CALL_MAX, self.attempt(call))
            .await
            .unwrap_or_else(late)
    }

    /// A call whose answer must be 200, and JSON.
    pub(super) async fn read<T>(&self, call: &Call) -> Result<T, Failure>
    where
        T: serde::de::DeserializeOwned,
    {
        let answer = self.call(call).await?;
        if answer.status != StatusCode::OK {
            return Err(Failure::Status(self.name(), answer.status));
        }
        serde_json::from_slice(&answer.body).map_err(|error| Failure::Meaning(self.name(), error))
    }

    async fn attempt(&self, call: &Call) -> Result<Answer, Failure> {
        loop {
            let kept = self.idle.borrow_mut().pop();
            let Some(sender) = kept else {
                let fresh = self.connect().await?;
                return self.exchange(fresh, call).await.map_err(|end| end.failure);
            };
            match self.exchange(sender, call).await {
                // The other end had closed it while nobody looked.
                Err(end) if end.unsent || call.method == Method::GET => {}
                result => return result.map_err(|end| end.failure),
            }
        }
    }

    async fn connect(&self) -> Result<Sender, Failure> {
        let unknown = |error| Failure::Resolve(self.name(), self.authority.clone(), error);
        let addresses = lookup_host(&self.authority).await.map_err(unknown)?;
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in addresses {
            match timeout(CONNECT_MAX, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return self.shake_hands(stream).await,
                Ok(Err(error)) => last = error,
                Err(_) => last = io::ErrorKind::TimedOut.into(),
            }
        }
        Err(Failure::Connect(self.name(), last))
    }

    async fn shake_hands(&self, stream: TcpStream) -> Result<Sender, Failure> {
        let nodelay = stream.set_nodelay(true);
        nodelay.map_err(|error| Failure::Connect(self.name(), error))?;
        let made = handshake(TokioIo::new(stream)).await;
        let (sender, connection) = made.map_err(|error| Failure::Broken(self.name(), error))?;
        // How it ends, the requests on it say.
        spawn_local(async { drop(connection.await) });
        Ok(sender)
    }

    async fn exchange(&self, mut sender: Sender, call: &Call) -> Result<Answer, Broken> {
        let broken = |unsent| {
            move |error| Broken {
                failure: Failure::Broken(self.name(), error),
                unsent,
            }
        };
        sender.ready().await.map_err(broken(true))?;
        let request = self.request(call);
        let response = match sender.try_send_request(request).await {
            Ok(response) => response,
            Err(mut error) => {
                let unsent = error.take_message().is_some();
                return Err(broken(unsent)(error.into_error()));
            }
        };
        let answer = self.whole(response).await.map_err(|failure| Broken {
            failure,
            unsent: false,
        })?;
        let mut idle = self.idle.borrow_mut();
        if idle.len() < IDLE_MAX && !sender.is_closed() {
            idle.push(sender);
        }
        Ok(answer)
    }

    fn request(&self, call: &Call) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(call.body.clone()));
        *request.method_mut() = call.method.clone();
        // A path that is none was refused when it came in, or is one of ours.
        *request.uri_mut() = call.path.parse().unwrap_or_default();
        request.headers_mut().clone_from(&call.headers);
        let host =
            HeaderValue::from_str(&self.authority).expect("an authority is a header's value");
        request.headers_mut().insert(HOST, host);
        request
    }

    async fn whole(&self, response: http::Response<Incoming>) -> Result<Answer, Failure> {
        let (head, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| {
            let reason = match error.downcast_ref::<LengthLimitError>() {
                Some(_) => format!("it has more than {ANSWER_BYTES_MAX} bytes"),
                None => error.to_string(),
            };
            Failure::Body(self.name(), reason)
        })?;
        Ok(Answer {
            status: head.status,
            headers: head.headers,
            body: body.to_bytes(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upstream_is_a_url_without_a_path() {
        let check = |url, expected: Option<&str>| {
            let parsed = Upstream::parse(Role::Ratings, url).ok();
            let authority = parsed.map(|upstream| upstream.authority);
            assert_eq!(authority.as_deref(), expected, "{url}");
        };
        check("http://ratings:9080", Some("ratings:9080"));
        check("http://ratings/", Some("ratings:80"));
        check("http://[::1]:8080", Some("[::1]:8080"));
        check("https://ratings", None);
        check("http://ratings/x", None);
        check("ratings:9080", None);
    }

    #[test]
    fn only_callees_have_upstreams() {
        let upstream = Upstream::parse(Role::Details, "http://a").unwrap();
        let error = |role| of_role(role, std::slice::from_ref(&upstream)).err();
        let text = |role| error(role).map(|error| error.to_string());
        assert_eq!(text(Role::Productpage), None);
        let reviews = text(Role::Reviews).unwrap();
        assert!(reviews.contains("it calls ratings"), "{reviews}");
        let ratings = text(Role::Ratings).unwrap();
        assert!(ratings.contains("calls nobody"), "{ratings}");
    }

    #[test]
    fn what_belongs_together_stays_together() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-request-id", "7"),
            ("cookie", "a"),
            ("traceparent", "00"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        let call = Call::on_behalf_of(&headers, "/".to_owned());
        assert_eq!(call.headers.len(), 2);
        assert_eq!(call.headers["x-request-id"], "7");
    }
}

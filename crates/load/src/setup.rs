//! What all threads of a run share: the plan in its final form. Made once before the run; nothing
//! in here changes while requests flow, but for `end`.

use crate::{Error, Plan, Protocol, clock, http2, target::Target, tls::Client};
use bytes::Bytes;
use std::{net::SocketAddr, sync::atomic::AtomicU64, time::Duration};

/// What all threads share and none changes.
pub(crate) struct Setup {
    pub(crate) protocol: Protocol,
    pub(crate) address: SocketAddr,
    /// What a request sends: with HTTP/1 head and body, with HTTP/2 the body, with gRPC a message
    /// behind its prefix, with TCP the message.
    pub(crate) request: Bytes,
    /// The head of a request over HTTP/2; none for protocols that have none, or have it in
    /// `request`.
    pub(crate) head: Option<http::Request<()>>,
    /// The method is HEAD.
    pub(crate) to_head: bool,
    /// Streams on each connection of HTTP/2.
    pub(crate) streams: u32,
    pub(crate) tls: Option<Client>,
    pub(crate) congestion: Option<String>,
    /// Nanoseconds.
    pub(crate) timeout: u64,
    pub(crate) stall_before_send: Duration,
    /// An earlier end of the window, if the run is stopped; else `u64::MAX`.
    pub(crate) end: AtomicU64,
}

impl Setup {
    /// Reads the plan's files and finds the target's address.
    pub(crate) fn build(plan: &Plan) -> Result<Self, Error> {
        let target = match plan.protocol {
            Protocol::Tcp => Target::parse_address(&plan.url)?,
            Protocol::Http1 | Protocol::Http2 | Protocol::Grpc(_) => Target::parse(&plan.url)?,
        };
        if target.tls && plan.protocol.has_streams() {
            let reason = "HTTP/2 is spoken in plaintext only, with prior knowledge: write http://";
            return Err(Error::Plan(reason.to_owned()));
        }
        let settings = plan.tls.clone().unwrap_or_default();
        let (head, request) = match plan.protocol {
            Protocol::Http1 => (None, target.request(plan)?.into()),
            Protocol::Tcp => (None, Bytes::copy_from_slice(&plan.body)),
            Protocol::Http2 | Protocol::Grpc(_) => {
                let (head, body) = http2::request::build(&target, plan)?;
                (Some(head), body)
            }
        };
        Ok(Self {
            protocol: plan.protocol,
            address: target.address(plan)?,
            request,
            head,
            to_head: plan.method == "HEAD",
            streams: plan.streams,
            tls: target
                .tls
                .then(|| Client::build(&settings, &target.host))
                .transpose()?,
            congestion: plan.congestion.clone(),
            timeout: clock::duration(plan.timeout),
            stall_before_send: plan.stall_before_send,
            end: AtomicU64::new(u64::MAX),
        })
    }
}

//! Filters: what a route changes about a request, its body's handling and its answer. An enum in a
//! `Vec`, run by a `for`; only those that declare it may wait.

use crate::exchange::Exchange;
use rt::Reactor;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

/// One filter, compiled.
pub(crate) enum Filter {
    SetRequestHeader(Header),
    AddRequestHeader(Header),
    RemoveRequestHeader(Box<str>),
    SetResponseHeader(Header),
    AddResponseHeader(Header),
    RemoveResponseHeader(Box<str>),
    /// Proves the room for filters that wait and see the body: holds each request for a while,
    /// with its whole body in memory.
    Hold {
        delay: Duration,
        buffer_bytes: usize,
    },
}

/// A header line, formatted once.
pub(crate) struct Header {
    name: Box<str>,
    line: Box<[u8]>,
}

/// What a filter decides about a request.
pub(crate) enum Verdict {
    Continue,
    /// The one boxed future of the path: for filters that ask somebody else.
    Wait(Pin<Box<dyn Future<Output = ()>>>),
}

/// How much of the request's body a filter must see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BodyMode {
    /// Nothing: the plain path.
    None,
    /// All of it, up to so many bytes, before the request goes on.
    Buffer(usize),
}

impl Header {
    fn build(name: &str, value: &str) -> Self {
        Self {
            name: name.into(),
            line: format!("{name}: {value}\r\n").into_bytes().into(),
        }
    }
}

impl Filter {
    pub(crate) fn build(filter: &model::Filter) -> Self {
        match filter {
            model::Filter::SetRequestHeader { name, value } => {
                Self::SetRequestHeader(Header::build(name, value))
            }
            model::Filter::AddRequestHeader { name, value } => {
                Self::AddRequestHeader(Header::build(name, value))
            }
            model::Filter::AddResponseHeader { name, value } => {
                Self::AddResponseHeader(Header::build(name, value))
            }
            model::Filter::RemoveRequestHeader { name } => {
                Self::RemoveRequestHeader(name.as_str().into())
            }
            model::Filter::SetResponseHeader { name, value } => {
                Self::SetResponseHeader(Header::build(name, value))
            }
            model::Filter::RemoveResponseHeader { name } => {
                Self::RemoveResponseHeader(name.as_str().into())
            }
            model::Filter::Hold {
                delay,
                buffer_bytes,
            } => Self::Hold {
                delay: *delay,
                buffer_bytes: *buffer_bytes,
            },
        }
    }

    /// What this filter must see of the request's body.
    pub(crate) fn body_mode(&self) -> BodyMode {
        match self {
            Self::Hold { buffer_bytes, .. } if *buffer_bytes > 0 => BodyMode::Buffer(*buffer_bytes),
            _ => BodyMode::None,
        }
    }

    /// Applies to the request's head.
    pub(crate) fn on_request(
        &self,
        exchange: &mut Exchange,
        bytes: &[u8],
        reactor: &Rc<Reactor>,
    ) -> Verdict {
        match self {
            Self::SetRequestHeader(header) => {
                exchange.drop_request_line(bytes, &header.name);
                exchange.request_extra.extend_from_slice(&header.line);
            }
            Self::AddRequestHeader(header) => {
                exchange.request_extra.extend_from_slice(&header.line);
            }
            Self::RemoveRequestHeader(name) => exchange.drop_request_line(bytes, name),
            Self::Hold { delay, .. } => {
                let (reactor, delay) = (Rc::clone(reactor), *delay);
                return Verdict::Wait(Box::pin(async move { reactor.sleep(delay).await }));
            }
            Self::SetResponseHeader(_)
            | Self::AddResponseHeader(_)
            | Self::RemoveResponseHeader(_) => {}
        }
        Verdict::Continue
    }

    /// Applies to the answer's head.
    pub(crate) fn on_response(&self, exchange: &mut Exchange, bytes: &[u8]) {
        match self {
            Self::SetResponseHeader(header) => {
                exchange.drop_response_line(bytes, &header.name);
                exchange.response_extra.extend_from_slice(&header.line);
            }
            Self::AddResponseHeader(header) => {
                exchange.response_extra.extend_from_slice(&header.line);
            }
            Self::RemoveResponseHeader(name) => exchange.drop_response_line(bytes, name),
            Self::SetRequestHeader(_)
            | Self::AddRequestHeader(_)
            | Self::RemoveRequestHeader(_)
            | Self::Hold { .. } => {}
        }
    }
}

/// The most that any of `filters` must see.
pub(crate) fn body_mode(filters: &[Filter]) -> BodyMode {
    filters
        .iter()
        .map(Filter::body_mode)
        .max()
        .unwrap_or(BodyMode::None)
}

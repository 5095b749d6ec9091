//! HTTP/2 connections, of both sides and both dialects: the edges of `wire::h2`. A connection is
//! one [`Mux`]: a driver task reads and writes it, requests hold a [`Handle`] on their stream.
//! Decides nothing about a request.

mod drive;
mod extended;
mod handle;
mod mux;
pub(crate) mod serve;

pub(crate) use handle::{Came, Handle};
pub(crate) use mux::{Life, Mux};
pub(crate) use serve::Desk;

use crate::error::Error;
use crate::exchange::Exchange;
use crate::record::Record;
use std::fmt::Write;

/// The downstream side of one request.
pub(crate) struct Link {
    pub(crate) stream: Handle,
    /// The request's head as text, see `wire::h2`.
    pub(crate) text: Vec<u8>,
}

/// Answers a request ourselves.
pub(crate) fn answer(link: &Link, exchange: &Exchange, error: &Error, record: &mut Record) {
    let (stream, status) = (&link.stream, error.status());
    if error.is_redirect() {
        record.status = status;
        stream.send_status(status, &exchange.response_extra, Some(b""));
    } else if exchange.is_grpc(&link.text) {
        // The status of the call, not that of HTTP, is what its client looks at.
        let grpc = error.grpc_status();
        let mut lines = String::new();
        let reason = error.reason();
        write!(
            lines,
            "content-type: application/grpc\r\ngrpc-status: {grpc}\r\ngrpc-message: {reason}\r\n"
        )
        .expect("writing to memory does not fail");
        record.status = 200;
        stream.send_status(200, lines.as_bytes(), Some(b""));
    } else {
        let body = format!("{}\n", error.reason());
        let mut lines = String::new();
        write!(
            lines,
            "content-type: text/plain\r\ncontent-length: {}\r\n",
            body.len()
        )
        .expect("writing to memory does not fail");
        record.status = status;
        let head_only = exchange.request.method == wire::http1::Method::Head;
        let body = if head_only { "" } else { &body };
        stream.send_status(status, lines.as_bytes(), Some(body.as_bytes()));
    }
    record.answered = true;
}

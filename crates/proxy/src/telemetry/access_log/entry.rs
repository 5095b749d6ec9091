//! What is logged of one request or unread connection, and its line as text or JSON. Filled by
//! `record`.
//! Must never write a byte of a peer's unescaped.

use std::io::Write as _;

use model::LogFormat;
use time::OffsetDateTime;

use super::escape::{json_string, quoted};
use crate::error::Flag;

/// One request, as it ended. Empty slices are shown as absent.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// When the head had arrived, in µs since 1970 (UTC).
    pub start_us: u64,
    /// As received.
    pub method: &'a [u8],
    /// As received, with its query.
    pub path: &'a [u8],
    /// The Host header, or the authority of an absolute target; of an unread connection, the
    /// server name of the application's own TLS.
    pub authority: &'a [u8],
    /// `HTTP/2`, `HTTP/1.1` or `HTTP/1.0`; `TCP` for a connection that was passed on unread.
    pub protocol: &'a str,
    /// 0: nothing was answered.
    pub status: u16,
    /// Why it ended other than by the upstream's answer.
    pub flag: Flag,
    /// Body bytes from the downstream.
    pub bytes_in: u64,
    /// Body bytes to the downstream.
    pub bytes_out: u64,
    /// From `start_us` to the end of the answer.
    pub duration_us: u64,
    /// Of the endpoint that answered last.
    pub upstream: Option<std::net::SocketAddr>,
    /// SPIFFE id of the downstream peer.
    pub peer: &'a str,
    /// The header `x-request-id`.
    pub request_id: &'a [u8],
    /// The second field of the header `traceparent`.
    pub trace_id: &'a [u8],
}

impl Entry<'_> {
    /// Appends one line with its end.
    pub(super) fn write(&self, format: LogFormat, out: &mut Vec<u8>) {
        let written = match format {
            LogFormat::Text => self.write_text(out),
            LogFormat::Json => self.write_json(out),
        };
        written.expect("vectors grow");
    }

    fn write_text(&self, out: &mut Vec<u8>) -> std::io::Result<()> {
        write_time(self.start_us, out)?;
        out.extend_from_slice(b" \"");
        self.write_request_line(out)?;
        write!(out, "\" {} {}", self.status, self.flag.label())?;
        write!(out, " {} {} ", self.bytes_in, self.bytes_out)?;
        write_millis(self.duration_us, out)?;
        match self.upstream {
            Some(address) => write!(out, " {address}")?,
            None => out.extend_from_slice(b" -"),
        }
        for field in [
            self.authority,
            self.peer.as_bytes(),
            self.request_id,
            self.trace_id,
        ] {
            out.extend_from_slice(b" \"");
            quoted(if field.is_empty() { b"-" } else { field }, out);
            out.push(b'"');
        }
        out.push(b'\n');
        Ok(())
    }

    fn write_request_line(&self, out: &mut Vec<u8>) -> std::io::Result<()> {
        if self.method.is_empty() {
            // It could not be read, or was not to be.
            let protocol = if self.protocol.is_empty() {
                "-"
            } else {
                self.protocol
            };
            return out.write_all(protocol.as_bytes());
        }
        quoted(self.method, out);
        out.push(b' ');
        quoted(self.path, out);
        write!(out, " {}", self.protocol)
    }

    fn write_json(&self, out: &mut Vec<u8>) -> std::io::Result<()> {
        out.extend_from_slice(b"{\"start\":\"");
        write_time(self.start_us, out)?;
        out.push(b'"');
        for (name, value) in [
            ("method", self.method),
            ("path", self.path),
            ("authority", self.authority),
            ("protocol", self.protocol.as_bytes()),
            ("flag", self.flag.label().as_bytes()),
            ("peer", self.peer.as_bytes()),
            ("request_id", self.request_id),
            ("trace_id", self.trace_id),
        ] {
            if !value.is_empty() {
                write!(out, ",\"{name}\":")?;
                json_string(value, out);
            }
        }
        if let Some(address) = self.upstream {
            write!(out, ",\"upstream\":\"{address}\"")?;
        }
        write!(out, ",\"status\":{},\"duration_ms\":", self.status)?;
        write_millis(self.duration_us, out)?;
        writeln!(
            out,
            ",\"bytes_in\":{},\"bytes_out\":{}}}",
            self.bytes_in, self.bytes_out
        )
    }
}

/// RFC 3339 with microseconds.
fn write_time(unix_us: u64, out: &mut Vec<u8>) -> std::io::Result<()> {
    let seconds = i64::try_from(unix_us / 1_000_000).unwrap_or(i64::MAX);
    let time = OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (year, month, day) = time.to_calendar_date();
    let (hour, minute, second) = time.to_hms();
    let month = u8::from(month);
    write!(
        out,
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"
    )?;
    write!(out, ".{:06}Z", unix_us % 1_000_000)
}

fn write_millis(micros: u64, out: &mut Vec<u8>) -> std::io::Result<()> {
    write!(out, "{}.{:03}", micros / 1000, micros % 1000)
}

//! The four forms of a request target (RFC 9112, section 3.2). Called once per request.
//! Never decodes or normalizes: the target goes to the next hop as it was written.

use super::host;
use super::line::Span;
use super::reject::Reject;
use super::request::Method;

/// Where the parts of a target are.
pub(crate) struct Target {
    pub(crate) authority: Option<Span>,
    pub(crate) path: Span,
    /// The port that need not be written after the authority.
    pub(crate) default_port: &'static [u8],
}

/// Finds the parts of the target at `span`, which has no control bytes and no spaces.
#[inline]
pub(crate) fn split(buf: &[u8], span: Span, method: Method) -> Result<Target, Reject> {
    let text = span.of(buf);
    // A fragment is never sent; a reader that cuts it off sees another path than one that does not.
    // Without an early exit, so that it is done sixteen bytes at a time.
    if text.iter().fold(false, |found, b| found | (*b == b'#')) {
        return Err(Reject::BadTarget);
    }
    let whole = Target {
        authority: None,
        path: span,
        default_port: b"",
    };
    match text.first() {
        Some(_) if method == Method::Connect => match host::is_authority_form(text) {
            true => Ok(whole),
            false => Err(Reject::BadTarget),
        },
        Some(b'/') => Ok(whole),
        Some(b'*') if text.len() == 1 && method == Method::Options => Ok(whole),
        _ => absolute(text, span),
    }
}

/// `http://authority/path?query`. Userinfo is refused (RFC 9110, section 4.2.4).
#[cold]
fn absolute(text: &[u8], span: Span) -> Result<Target, Reject> {
    let (scheme, default_port): (usize, &[u8]) = match () {
        () if starts_with(text, b"http://") => (7, b"80"),
        () if starts_with(text, b"https://") => (8, b"443"),
        () => return Err(Reject::BadTarget),
    };
    let rest = &text[scheme..];
    let len = rest
        .iter()
        .position(|b| matches!(b, b'/' | b'?'))
        .unwrap_or(rest.len());
    if len == 0 || !host::is_host_and_port(&rest[..len]) {
        return Err(Reject::BadTarget);
    }
    let start = span.start as usize + scheme;
    let path = Span {
        start: (start + len) as u32,
        end: span.end,
    };
    Ok(Target {
        authority: Some(Span::at(start, len)),
        path,
        default_port,
    })
}

fn starts_with(text: &[u8], scheme: &[u8]) -> bool {
    text.get(..scheme.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
}

//! Reads a message with the codec under test, as the proxy would.

use wire::http1::{
    Body, BodyError, Framing, Limits, Line, Method, Parsed, RequestHead, ResponseHead,
};

use super::verdict::{Message, Ours};

const LIMITS: Limits = Limits {
    head_bytes: 65536,
    headers: 100,
};

/// The first request in `bytes`, after which the connection is closed.
pub(crate) fn read_request(bytes: &[u8]) -> Ours {
    let mut head = RequestHead::default();
    match head.parse(bytes, &LIMITS) {
        Err(reject) => return Ours::BadHead(reject),
        Ok(Parsed::Partial) => return Ours::Cut,
        Ok(Parsed::Complete) => {}
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let target = text(head.target.of(bytes));
    let start = format!(
        "{} {target} {:?}",
        text(head.method_span.of(bytes)),
        head.version
    );
    read_body(bytes, start, &head.lines, head.framing, head.len)
}

/// The first final response in `bytes` to a request with this method.
pub(crate) fn read_response(mut bytes: &[u8], method: Method) -> Ours {
    let mut head = ResponseHead::default();
    loop {
        match head.parse(bytes, &LIMITS, method) {
            Err(reject) => return Ours::BadHead(reject),
            Ok(Parsed::Partial) => return Ours::Cut,
            Ok(Parsed::Complete) if head.status < 200 && head.status != 101 => {
                bytes = &bytes[head.len..];
            }
            Ok(Parsed::Complete) => break,
        }
    }
    let start = format!("{} {:?}", head.status, head.version);
    read_body(bytes, start, &head.lines, head.framing, head.len)
}

fn read_body(bytes: &[u8], start: String, lines: &[Line], framing: Framing, from: usize) -> Ours {
    let lines = lines.iter().map(|line| {
        let name = String::from_utf8_lossy(line.name.of(bytes)).to_lowercase();
        (name, line.value.of(bytes).to_vec())
    });
    let mut lines: Vec<_> = lines.collect();
    lines.sort();
    match decode(framing, &bytes[from..]) {
        Ok(body) => Ours::Accepted(Message { start, lines, body }),
        Err(BodyError::Truncated) => Ours::Cut,
        Err(error) => Ours::BadBody(error),
    }
}

fn decode(framing: Framing, bytes: &[u8]) -> Result<Vec<u8>, BodyError> {
    let (mut body, mut payload, mut at) = (Body::new(framing), Vec::new(), 0);
    while at < bytes.len() && !body.is_done() {
        let decoded = body.decode(&bytes[at..])?;
        payload.extend_from_slice(&bytes[at..][decoded.payload]);
        at += decoded.consumed;
    }
    body.end_of_input()?;
    Ok(payload)
}

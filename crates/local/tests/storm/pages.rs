//! One request over HTTP/1.1 to a page, on a connection of its own; what a page of metrics says.

use std::io::{self, Read, Write};

/// The body of the answer, whatever its status; the pages here are not chunked.
pub(crate) fn fetch<S: Read + Write>(
    stream: io::Result<S>,
    (method, path): (&str, &str),
) -> io::Result<String> {
    let mut stream = stream?;
    let head = "host: leno\r\nconnection: close\r\ncontent-length: 0";
    write!(stream, "{method} {path} HTTP/1.1\r\n{head}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .ok_or(io::ErrorKind::UnexpectedEof)?;
    let head = head.to_lowercase();
    Ok(match head.contains("transfer-encoding: chunked") {
        true => unchunked(body),
        false => body.to_owned(),
    })
}

fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap_or(0);
        let Some((chunk, rest)) = rest.split_at_checked(size).filter(|_| size > 0) else {
            break;
        };
        whole.push_str(chunk);
        body = rest.strip_prefix("\r\n").unwrap_or(rest);
    }
    whole
}

/// The sum of all series of a name whose labels contain `label`.
pub(crate) fn sum(page: &str, name: &str, label: &str) -> u64 {
    let value = |line: &str| {
        let rest = line.strip_prefix(name)?;
        let labels = rest.starts_with('{') || rest.starts_with(' ');
        let value = rest.rsplit(' ').next()?;
        (labels && rest.contains(label)).then(|| value.parse().unwrap_or(0))
    };
    page.lines().filter_map(value).sum::<u64>()
}

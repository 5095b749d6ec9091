//! One request of HTTP/1.0 and its answer, which ends with the connection. Used by whoever asks the
//! control plane or a sidecar, on threads that may wait. Must never wait beyond its time, nor read
//! without end: who is asked may be somebody else's.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A connection that waits for so long and no longer.
pub(crate) trait Connection: Read + Write {
    /// For each step from now on.
    fn wait_for(&self, limit: Duration) -> io::Result<()>;
}

impl Connection for TcpStream {
    fn wait_for(&self, limit: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(limit))?;
        self.set_write_timeout(Some(limit))
    }
}

impl Connection for UnixStream {
    fn wait_for(&self, limit: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(limit))?;
        self.set_write_timeout(Some(limit))
    }
}

/// What is asked, and what may come of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    /// With its query.
    pub(crate) path: &'a str,
    /// What is sent, as JSON; none: a page is asked for.
    pub(crate) body: Option<&'a str>,
    /// Until the answer is there.
    pub(crate) within: Duration,
    /// The longest answer, with its head.
    pub(crate) bytes_max: usize,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// With its reason, as in `404 Not Found`.
    pub(crate) status: String,
    pub(crate) body: String,
}

impl Answer {
    /// Whether what was asked for was done.
    pub(crate) fn is_good(&self) -> bool {
        self.status.starts_with('2')
    }
}

/// Asks whoever is at the other end.
///
/// # Errors
/// When it takes too long, says too much, or speaks something else.
pub(crate) fn ask(connection: impl Connection, request: Request<'_>) -> io::Result<Answer> {
    let mut connection = Timed {
        connection,
        end: Instant::now() + request.within,
    };
    let (method, body) = match request.body {
        Some(body) => ("POST", body),
        None => ("GET", ""),
    };
    let (path, length) = (request.path, body.len());
    let head = format!(
        "{method} {path} HTTP/1.0\r\nhost: leno\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n"
    );
    connection.write_all((head + body).as_bytes())?;
    let mut answer = Vec::new();
    let bytes_max = request.bytes_max as u64;
    connection.take(bytes_max + 1).read_to_end(&mut answer)?;
    if answer.len() > request.bytes_max {
        return Err(strange(&format!("it says more than {bytes_max} bytes")));
    }
    read(&String::from_utf8_lossy(&answer)).ok_or_else(|| strange("what it says is no HTTP"))
}

fn read(answer: &str) -> Option<Answer> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let (version, status) = head.lines().next()?.split_once(' ')?;
    version.starts_with("HTTP/1.").then(|| Answer {
        status: status.to_owned(),
        body: body.to_owned(),
    })
}

fn strange(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

/// All steps have one time together.
struct Timed<C> {
    connection: C,
    end: Instant,
}

impl<C: Connection> Timed<C> {
    fn limit(&self) -> io::Result<()> {
        let left = self.end.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(ErrorKind::TimedOut.into()),
            false => self.connection.wait_for(left),
        }
    }
}

impl<C: Connection> Read for Timed<C> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.limit()?;
        self.connection.read(bytes)
    }
}

impl<C: Connection> Write for Timed<C> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.limit()?;
        self.connection.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.connection.flush()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::thread;

    /// Asks somebody who `says` that, and gives what they heard.
    fn asked(says: &'static str, request: Request<'_>) -> (io::Result<Answer>, String) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let other = thread::spawn(move || {
            let mut head = [0; 1024];
            let read = theirs.read(&mut head).unwrap();
            theirs.write_all(says.as_bytes()).unwrap();
            String::from_utf8_lossy(&head[..read]).into_owned()
        });
        (ask(ours, request), other.join().unwrap())
    }

    const PAGE: Request<'_> = Request {
        path: "/certs",
        body: None,
        within: Duration::from_secs(30),
        bytes_max: 64,
    };

    #[test]
    fn an_answer_ends_with_its_connection() {
        let (answer, heard) = asked("HTTP/1.0 200 OK\r\nserver: x\r\n\r\n{\"a\":\n1}", PAGE);
        let answer = answer.unwrap();
        assert_eq!((&*answer.body, answer.is_good()), ("{\"a\":\n1}", true));
        assert!(heard.starts_with("GET /certs HTTP/1.0\r\n"), "{heard}");
        let sent = Request {
            body: Some("{}"),
            ..PAGE
        };
        let (answer, heard) = asked("HTTP/1.1 404 Not Found\r\n\r\nnobody", sent);
        let answer = answer.unwrap();
        assert_eq!(
            (&*answer.status, answer.is_good()),
            ("404 Not Found", false)
        );
        assert!(heard.starts_with("POST ") && heard.ends_with("length: 2\r\n\r\n{}"));
    }

    #[test]
    fn who_says_too_much_or_something_else_is_not_believed() {
        let said = |says| asked(says, PAGE).0.unwrap_err().to_string();
        for says in ["SSH-2.0-x\r\n", "SSH 2\r\n\r\n", "", "HTTP/1.0 200 OK\r\n"] {
            assert_eq!(said(says), "what it says is no HTTP");
        }
        let long = "HTTP/1.0 200 OK\r\n\r\n...............................................";
        assert_eq!(said(long), "it says more than 64 bytes");
    }

    /// A byte now and then is no sign of life.
    #[test]
    fn who_never_comes_to_an_end_is_not_waited_for() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        thread::spawn(move || while theirs.write_all(b".").is_ok() {});
        let endless = Request {
            within: Duration::from_millis(50),
            bytes_max: usize::MAX / 2,
            ..PAGE
        };
        let error = ask(ours, endless).unwrap_err();
        assert!(matches!(
            error.kind(),
            ErrorKind::TimedOut | ErrorKind::WouldBlock
        ));
    }
}

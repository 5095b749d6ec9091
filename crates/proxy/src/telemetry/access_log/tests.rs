//! Lines as they are written, and what happens when they cannot be.

use std::io::Read as _;
use std::os::fd::OwnedFd;

use super::*;
use crate::error::Flag;

const ENTRY: Entry<'static> = Entry {
    start_us: 1_763_635_447_000_123,
    method: b"GET",
    path: b"/echo?size=10",
    authority: b"echo:8080",
    protocol: "HTTP/1.1",
    status: 200,
    flag: Flag::None,
    bytes_in: 0,
    bytes_out: 10,
    duration_us: 1_234,
    upstream: None,
    peer: "spiffe://cluster.local/ns/default/sa/a",
    request_id: b"",
    trace_id: b"",
};

fn line(format: LogFormat, entry: &Entry<'_>) -> String {
    let mut out = Vec::new();
    entry.write(format, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn a_text_line_has_its_columns() {
    let entry = Entry {
        upstream: "[::1]:80".parse().ok(),
        ..ENTRY
    };
    assert_eq!(
        line(LogFormat::Text, &entry),
        "2025-11-20T10:44:07.000123Z \"GET /echo?size=10 HTTP/1.1\" 200 - 0 10 1.234 [::1]:80 \
         \"echo:8080\" \"spiffe://cluster.local/ns/default/sa/a\" \"-\" \"-\"\n"
    );
}

#[test]
fn a_json_line_leaves_out_what_is_absent() {
    let text = line(
        LogFormat::Json,
        &Entry {
            flag: Flag::NoRoute,
            request_id: b"r1",
            ..ENTRY
        },
    );
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        value,
        serde_json::json!({
            "start": "2025-11-20T10:44:07.000123Z",
            "method": "GET",
            "path": "/echo?size=10",
            "authority": "echo:8080",
            "protocol": "HTTP/1.1",
            "status": 200,
            "flag": "NR",
            "bytes_in": 0,
            "bytes_out": 10,
            "duration_ms": 1.234,
            "peer": "spiffe://cluster.local/ns/default/sa/a",
            "request_id": "r1",
        })
    );
}

/// `field` must come back from JSON as `json`, and stand in the text line as `text`.
#[track_caller]
fn check(field: &[u8], text: &str, json: &str) {
    let entry = Entry {
        path: field,
        authority: field,
        request_id: field,
        ..ENTRY
    };
    let written = line(LogFormat::Text, &entry);
    assert!(
        written.contains(&format!("\"GET {text} HTTP/1.1\"")),
        "{written}"
    );
    assert!(written.contains(&format!(" \"{text}\" ")), "{written}");
    assert_eq!(written.matches('\n').count(), 1, "{written:?}");
    assert!(
        written
            .trim_end()
            .bytes()
            .all(|b| (b' '..=b'~').contains(&b)),
        "{written:?}"
    );
    let written = line(LogFormat::Json, &entry);
    assert_eq!(written.matches('\n').count(), 1, "{written:?}");
    assert!(
        !written.trim_end().chars().any(char::is_control),
        "{written:?}"
    );
    let value: serde_json::Value = serde_json::from_str(&written).unwrap();
    assert_eq!(
        (&value["path"], &value["request_id"]),
        (&json.into(), &json.into())
    );
}

#[test]
fn a_peer_cannot_forge_lines_or_fields() {
    check(b"a\r\nb", "a\\x0d\\x0ab", "a\r\nb");
    check(b"\" 200 - \"", "\\\" 200 - \\\"", "\" 200 - \"");
    check(b"\\", "\\\\", "\\");
    check(b"\0\x1b[2J\x7f", "\\x00\\x1b[2J\\x7f", "\0\u{1b}[2J\u{7f}");
    check(
        "é\u{85}\u{2028}".as_bytes(),
        "\\xc3\\xa9\\xc2\\x85\\xe2\\x80\\xa8",
        "é\u{85}\u{2028}",
    );
    check(b"a\xff\xfeb", "a\\xff\\xfeb", "a\u{fffd}\u{fffd}b");
    let long = vec![b'a'; 5000];
    let cut = "a".repeat(2048) + "...";
    check(&long, &cut, &cut);
}

#[test]
fn every_sender_reaches_the_file_and_it_is_appended_to() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.log");
    std::fs::write(&path, "before\n").unwrap();
    let config = model::AccessLog {
        path: path.clone(),
        format: LogFormat::Text,
    };
    let dropped = Arc::new(AtomicU64::new(0));
    let log = AccessLog::open(&config, Arc::clone(&dropped)).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let sender = log.sender();
            scope.spawn(move || (0..500).for_each(|_| sender.record(&ENTRY)));
        }
    });
    log.close(Duration::from_secs(60));
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("before\n"));
    assert_eq!(
        text.lines()
            .filter(|line| line.ends_with("\"-\" \"-\""))
            .count(),
        1500
    );
    assert_eq!(dropped.load(Ordering::Relaxed), 0);
}

#[test]
fn lines_are_written_without_being_asked_to() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let file = File::from(OwnedFd::from(writer));
    let dropped = Arc::default();
    let writer = Writer::start(file, Arc::clone(&dropped)).unwrap();
    let log = AccessLog {
        format: LogFormat::Text,
        dropped,
        writer,
    };
    let sender = log.sender();
    for _ in 0..2 {
        sender.record(&ENTRY);
        let mut line = vec![0; line(LogFormat::Text, &ENTRY).len()];
        reader.read_exact(&mut line).unwrap();
    }
}

#[test]
fn a_full_pipe_drops_and_counts_and_never_blocks() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let dropped: Arc<AtomicU64> = Arc::default();
    let writer = Writer::start(File::from(OwnedFd::from(writer)), Arc::clone(&dropped)).unwrap();
    let log = AccessLog {
        format: LogFormat::Json,
        dropped: Arc::clone(&dropped),
        writer,
    };
    let sender = log.sender();
    let mut sent = 0;
    while dropped.load(Ordering::Relaxed) == 0 {
        sender.record(&ENTRY);
        sent += 1;
    }
    drop(sender);
    let read = move || {
        let mut text = String::new();
        reader
            .read_to_string(&mut text)
            .map(|_| text.lines().count() as u64)
    };
    let written = std::thread::Builder::new().spawn(read).unwrap();
    log.close(Duration::from_secs(60));
    assert_eq!(
        written.join().unwrap().unwrap() + dropped.load(Ordering::Relaxed),
        sent
    );
}

#[test]
fn a_file_that_cannot_be_opened_is_an_error() {
    let config = model::AccessLog {
        path: "/nowhere/access.log".into(),
        format: LogFormat::Text,
    };
    assert!(AccessLog::open(&config, Arc::default()).is_err());
}

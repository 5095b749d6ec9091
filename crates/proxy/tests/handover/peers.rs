//! Whoever else comes to where a successor is expected.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};

use testkit::{DEADLINE, EchoServer, ProxyProcess, Sidecar, until};

use crate::world::{PROXY, Place, ended, says, spawn, start};

/// What a successor says first.
const TAKE: &[u8; 23] = b"{\"take\":{\"version\":1}}\n";

fn serving(place: &Place, app: &EchoServer) -> (String, ProxyProcess) {
    let yaml = Sidecar::inbound(app.addr()).with(&place.key()).yaml();
    let proxy = start(&yaml);
    (yaml, proxy)
}

/// What is answered to `said`, until the connection ends.
fn answer(place: &Place, said: &[u8]) -> String {
    let mut stream = UnixStream::connect(place.path()).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    // It need not be listened to to the end.
    let _ = stream.write_all(said);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

#[test]
fn what_is_no_successor_is_turned_away() {
    let (place, app) = (Place::new(), EchoServer::start());
    let (yaml, old) = serving(&place, &app);
    let mode = place.path().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for (said, expected) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], ""),
        (b"\"ready\"\n", "version 1 is spoken here"),
        (b"{\"take\":{\"version\":2}}\n", "version 1 is spoken here"),
        (&[&TAKE[..], b"{\n"].concat(), "what no proxy does"),
        (&[b'x'; 3 << 20], ""),
    ] {
        let answer = answer(&place, said);
        assert!(answer.contains(expected), "{answer}");
        assert!(!answer.contains("\"go\""), "{answer}");
        // One place: it is free again before the next one comes.
        until("it goes on", || old.admin("/ready").text() == "ready\n");
    }
    let new = start(&yaml);
    assert_eq!(new.addr(), old.addr());
    old_ended(old);
}

/// It has complained, and ends well.
#[expect(
    clippy::disallowed_methods,
    reason = "how long it takes is not looked at"
)]
fn old_ended(old: ProxyProcess) {
    let exit = old.wait(std::time::Instant::now());
    assert!(exit.status.success(), "{exit:?}");
}

#[test]
fn one_who_says_nothing_is_in_nobodys_way_for_ever() {
    let (place, app) = (Place::new(), EchoServer::start());
    let (yaml, old) = serving(&place, &app);
    let silent = UnixStream::connect(place.path()).unwrap();
    let Err(exit) = ProxyProcess::try_start(PROXY, &yaml, &[]) else {
        panic!("two at once")
    };
    assert!(exit.stderr.contains("another one"), "{}", exit.stderr);
    drop(silent);
    says(&old, "it ended before it was ready");
    let new = start(&yaml);
    assert_eq!(new.addr(), old.addr());
    ended(old);
}

#[test]
fn predecessor_that_says_rubbish_is_not_succeeded() {
    let (place, app) = (Place::new(), EchoServer::start());
    let yaml = Sidecar::inbound(app.addr()).with(&place.key()).yaml();
    for (said, expected) in [
        ("rubbish\n", "what no proxy does"),
        ("\"go\"\n", "says Go"),
        ("{\"refuse\":{\"why\":\"not now\"}}\n", "refuses: not now"),
        (
            "{\"give\":{\"sockets\":[{\"role\":\"admin\",\"asked\":\"[::]:1\"}]}}\n",
            "it ended before it had given its sockets",
        ),
    ] {
        let _ = std::fs::remove_file(place.path());
        let listener = UnixListener::bind(place.path()).unwrap();
        let other = spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut heard = [0; TAKE.len()];
            stream.read_exact(&mut heard).unwrap();
            assert_eq!(&heard, TAKE);
            stream.write_all(said.as_bytes()).unwrap();
        });
        let Err(exit) = ProxyProcess::try_start(PROXY, &yaml, &[]) else {
            panic!("it starts: {said}")
        };
        other.join().unwrap();
        assert!(exit.stderr.contains(expected), "{}", exit.stderr);
    }
}

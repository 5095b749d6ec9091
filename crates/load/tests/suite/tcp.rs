//! TCP: what is sent must come back, and the echo server sends it back.

use crate::world::{local, run, scripted};
use load::{Failure, Outcome, Plan, Protocol, Rate, report, serve};
use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    time::Duration,
};

fn plan(address: SocketAddr, bytes: usize) -> Plan {
    Plan {
        protocol: Protocol::Tcp,
        body: (0..bytes).map(|index| index as u8).collect(),
        rate: Rate::PerSecond(100.0),
        duration: Duration::from_secs(1),
        ..Plan::new(address.to_string())
    }
}

fn echo() -> (serve::Server, SocketAddr) {
    let mut options = serve::Options::new(local());
    options.tcp = Some(local());
    let server = serve::start(&options).unwrap();
    let address = server.tcp_address().unwrap();
    (server, address)
}

fn all_well(outcome: &Outcome) -> u64 {
    assert_eq!(outcome.failed(), 0, "{:?}", outcome.failures);
    assert_eq!(outcome.statuses.get(&200), Some(&outcome.requests));
    outcome.requests
}

#[test]
fn an_open_loop_gets_every_echo() {
    let (server, address) = echo();
    let outcome = run(&plan(address, 1024));
    assert_eq!(all_well(&outcome), 100);
    assert_eq!(outcome.bytes_sent, 100 * 1024);
    assert_eq!(outcome.bytes_received, 100 * 1024);
    assert_eq!(outcome.reconnects, 0);
    let json = report::fortio(&outcome);
    assert_eq!(
        (&json["RunType"], &json["RetCodes"]["OK"]),
        (&"TCP".into(), &100.into())
    );
    assert_eq!(json["Leno"]["Protocol"], "tcp");
    server.stop();
    assert_eq!(server.join().unwrap().connections, 4);
}

#[test]
fn a_closed_loop_sends_again_when_the_echo_is_whole() {
    let (_server, address) = echo();
    let mut plan = plan(address, 3_000_000);
    plan.rate = Rate::Max;
    plan.url = format!("tcp://{address}");
    let outcome = run(&plan);
    let requests = all_well(&outcome);
    assert!(requests >= 4, "{requests}");
    assert_eq!(outcome.bytes_received, requests * 3_000_000);
}

#[test]
fn an_echo_must_be_what_was_sent() {
    let wrong = |mut stream: TcpStream| {
        let mut bytes = [0; 16];
        while stream.read_exact(&mut bytes).is_ok() {
            bytes[15] ^= 1;
            let _ = stream.write_all(&bytes);
        }
    };
    let outcome = run(&plan(scripted(wrong), 16));
    assert_eq!(outcome.failures.get(&Failure::WrongEcho), Some(&100));
}

#[test]
fn an_echo_cut_short_is_a_failure() {
    let short = |mut stream: TcpStream| {
        let mut bytes = [0; 16];
        let _ = stream.read_exact(&mut bytes);
        let _ = stream.write_all(&bytes[..15]);
    };
    let outcome = run(&plan(scripted(short), 16));
    assert_eq!(outcome.failures.get(&Failure::Closed), Some(&100));
}

#[test]
fn mistakes_are_explained() {
    let address = "127.0.0.1:1".parse().unwrap();
    let check = |change: fn(&mut Plan), hint: &str| {
        let mut plan = plan(address, 8);
        change(&mut plan);
        let text = load::run(&plan, &mut |_| {}).unwrap_err().to_string();
        assert!(text.contains(hint), "{text}");
    };
    check(|plan| plan.body.clear(), "something to send");
    check(|plan| plan.url = "http://a/".to_owned(), "write HOST:PORT");
    check(|plan| plan.streams = 2, "needs the protocol http2 or grpc");
}

#[test]
fn the_server_echoes_to_the_end_for_a_half_closed_client() {
    let (_server, address) = echo();
    let mut stream = TcpStream::connect(address).unwrap();
    let sent = vec![b'x'; 8_000_000];
    let mut writer = stream.try_clone().unwrap();
    let all = sent.clone();
    let writing = std::thread::spawn(move || {
        writer.write_all(&all).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut echoed = Vec::new();
    stream.read_to_end(&mut echoed).unwrap();
    writing.join().unwrap();
    assert!(echoed == sent, "{} bytes came back", echoed.len());
}

//! Much at once: requests of every kind while connections come, go and are replaced. Whatever the
//! schedule, every request gets the one answer that is its own.

use crate::world::{PROXY, pattern, same};
use std::thread;
use testkit::{EchoServer, Pair, RawClient, Sidecar, until};

/// Numbers that look random and are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap()
    }
}

/// Requests of all sizes and framings over one connection; now and then the client leaves early.
fn wander(addr: std::net::SocketAddr, seed: u64, body: &[u8]) {
    let mut random = Random(seed);
    let mut client = RawClient::connect(addr);
    for _ in 0..60 {
        let size = [0, 1, 100, 5_000, 17_000, 70_000, 200_000][random.below(7)];
        let size = random.below(size + 1);
        match random.below(8) {
            0 => assert_eq!(client.get(&format!("/bytes/{size}")).body.len(), size),
            1 => {
                client.send(format!("GET /bytes/{size} HTTP/1.1\r\nHost: a\r\n\r\n"));
                client.reset();
                client = RawClient::connect(addr);
            }
            2 => {
                client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf");
                client = RawClient::connect(addr);
            }
            3 => {
                let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
                let chunk = match size {
                    0 => String::new(),
                    size => format!("{size:x}\r\n"),
                };
                let end: &[u8] = if size == 0 {
                    b"0\r\n\r\n"
                } else {
                    b"\r\n0\r\n\r\n"
                };
                client.send([head.as_bytes(), chunk.as_bytes(), &body[..size], end].concat());
                same(&client.response().body, &body[..size]);
            }
            _ => same(&client.post("/", &body[..size]).body, &body[..size]),
        }
    }
}

#[test]
fn every_request_gets_its_own_answer() {
    let many = |sidecar: Sidecar| sidecar.workers(2);
    let few = |sidecar: Sidecar| sidecar.workers(2).with("limits: {streamsPerConnection: 3}");
    let pair = Pair::start_with(PROXY, EchoServer::start(), many, few);
    let body = pattern(200_001);
    thread::scope(|scope| {
        for seed in 1..=12 {
            let (addr, body) = (pair.outbound.addr(), &body);
            scope.spawn(move || wander(addr, seed * 0x9e37_79b9, body));
        }
        for _ in 0..4 {
            pair.outbound.reload(|| drop(pair.ca.identity("client")));
            pair.inbound.reload(|| drop(pair.ca.identity("server")));
        }
    });
    until("nothing is left", || {
        pair.outbound.metric("leno_requests_active", &[]) < 0.5
            && pair.inbound.metric("leno_requests_active", &[]) < 0.5
    });
    for flag in ["UC", "UF", "UR", "UPE", "UTLS", "SI", "IE"] {
        let failed = pair
            .outbound
            .metric("leno_requests_total", &[("flag", flag)]);
        assert!(failed < 0.5, "{failed} of {flag}");
    }
}

/// Asks now and then, about as seldom as connections are ended for.
#[track_caller]
fn ask_seldom(pair: &Pair<EchoServer>) {
    let mut client = pair.client();
    for round in 0..120 {
        assert_eq!(
            client.post("/", format!("{round}")).text(),
            round.to_string()
        );
        let mut looks = 0;
        until("a while is over", || {
            looks += 1;
            looks > 3 + round % 3
        });
    }
    assert!(pair.hop_connections() > 1.5, "none was ended");
}

#[test]
fn servers_that_end_idle_connections_soon_fail_no_request() {
    let hasty = |sidecar: Sidecar| sidecar.with("limits: {idleTimeout: 20ms}");
    let pair = Pair::start_with(PROXY, EchoServer::start(), hasty, |outbound| outbound);
    ask_seldom(&pair);
}

#[test]
fn clients_side_that_gives_idle_connections_up_soon_fails_no_request() {
    let hasty = |sidecar: Sidecar| sidecar.with("limits: {poolIdleTimeout: 20ms}");
    let pair = Pair::start_with(PROXY, EchoServer::start(), |inbound| inbound, hasty);
    ask_seldom(&pair);
}

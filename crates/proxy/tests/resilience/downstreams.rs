//! Clients that send half a request, garbage, or do not read what they asked for.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use testkit::{EchoServer, ProxyProcess, RawClient, Sidecar, TestCa, until};

use crate::{Baseline, REQUESTS, Random, send, start};

#[test]
fn half_a_request_holds_nothing_for_long() {
    let app = EchoServer::start();
    let sidecar = Sidecar::inbound(app.addr()).with("limits: {headerTimeout: 1s}");
    let proxy = start(&sidecar);
    let baseline = Baseline::of(&proxy);
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let whole = "POST /half HTTP/1.1\r\nhost: test\r\ncontent-length: 50\r\n\r\n0123456789";
    let head = whole.len() - 10;
    let mut waiting = Vec::new();
    for number in 0..1_000 {
        let mut client = RawClient::connect(proxy.addr());
        client.send(&whole[..1 + random.below(whole.len())]);
        match number % 4 {
            0 => client.reset(),
            1 => client.half_close(),
            2 => {
                let mut client = RawClient::connect(proxy.addr());
                client.send(&whole[..1 + random.below(head - 1)]);
                waiting.push(client);
            }
            _ => drop(client),
        }
    }
    let mut good = RawClient::connect(proxy.addr());
    assert_eq!(good.post("/", "served").text(), "served");
    for mut client in waiting {
        assert_eq!(client.response().status(), 408);
    }
    drop(good);
    let late = [("status_class", "4xx"), ("flag", "DT")];
    proxy.metric_becomes(REQUESTS, &late, 250.0);
    baseline.comes_back(&proxy);
    assert!(app.requests().iter().all(|request| request.target() == "/"));
}

/// Sends bytes, says that was all, and returns the statuses that come back.
fn throw(addr: SocketAddr, bytes: &[u8]) -> Vec<u16> {
    let mut client = RawClient::connect(addr);
    // The proxy may have refused, and closed, before all of it was sent.
    if client.try_send(bytes).is_ok() {
        let _ = client.stream().shutdown(std::net::Shutdown::Write);
    }
    let (answers, _) = client.read_to_end();
    let text = String::from_utf8_lossy(&answers).into_owned();
    let heads = text.match_indices("HTTP/1.1 ");
    heads
        .map(|(at, mark)| text[at + mark.len()..][..3].parse().unwrap())
        .collect()
}

fn throw_many(proxy: &ProxyProcess, count: usize, mut make: impl FnMut() -> Vec<u8>) -> Seen {
    let mut kept = RawClient::connect(proxy.addr());
    let mut seen = Seen::default();
    for number in 0..count {
        for status in throw(proxy.addr(), &make()) {
            *seen.entry(status).or_default() += 1;
        }
        if number % 100 == 0 {
            assert_eq!(kept.get("/").status(), 200);
        }
    }
    seen
}

type Seen = BTreeMap<u16, usize>;

#[test]
fn garbage_is_refused_and_harms_nobody() {
    let app = EchoServer::start();
    let proxy = start(&Sidecar::inbound(app.addr()).listener("protocol: http"));
    let baseline = Baseline::of(&proxy);
    let mut random = Random(0xd1b5_4a32_d192_ed03);
    let seen = throw_many(&proxy, 3_000, || {
        let count = 1 + random.below(400);
        let mut bytes = random.bytes(count);
        if random.below(2) == 0 {
            bytes.extend(b"\r\n\r\n");
        }
        bytes
    });
    assert!(
        seen.keys().all(|status| [400, 501, 505].contains(status)),
        "{seen:?}"
    );
    assert!(seen[&400] > 1_000, "{seen:?}");
    let refused = seen.values().sum::<usize>() as f64;
    proxy.metric_becomes(
        REQUESTS,
        &[("flag", "DPE"), ("status_class", "4xx")],
        refused,
    );
    baseline.comes_back(&proxy);
}

#[test]
fn damaged_requests_are_answered_or_refused() {
    let app = EchoServer::start();
    let proxy = start(&Sidecar::inbound(app.addr()));
    let baseline = Baseline::of(&proxy);
    let mut random = Random(0x8cb9_2ba7_2f3d_8dd7);
    let whole = "GET /a HTTP/1.1\r\nhost: test\r\nconnection: keep-alive\r\n\r\n\
                 POST /b HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n\r\n\
                 5\r\nhello\r\n0\r\ntrailer: yes\r\n\r\n\
                 PUT /c HTTP/1.1\r\nhost: test\r\ncontent-length: 3\r\nexpect: x\r\n\r\nabc";
    let seen = throw_many(&proxy, 2_000, || {
        let mut bytes = whole.as_bytes().to_vec();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len());
            bytes[at] = match random.below(3) {
                0 => random.byte(),
                1 => b"\r\n :;,\0\t"[random.below(8)],
                _ => bytes[random.below(bytes.len())],
            };
        }
        bytes
    });
    assert!(seen[&200] > 1_000 && seen[&400] > 100, "{seen:?}");
    let known = [200, 400, 408, 417, 431, 501, 502, 505];
    assert!(seen.keys().all(|status| known.contains(status)), "{seen:?}");
    baseline.comes_back(&proxy);
}

#[test]
fn garbage_where_tls_is_expected_is_refused_and_harms_nobody() {
    let (ca, app) = (TestCa::new(), EchoServer::start());
    let server = ca.identity("server");
    let sidecar = Sidecar::inbound(app.addr()).identity(&server);
    let proxy = start(&sidecar.listener("protocol: http"));
    let baseline = Baseline::of(&proxy);
    let mut random = Random(0x5851_f42d_4c95_7f2d);
    throw_many(&proxy, 1_000, || {
        let count = 1 + random.below(400);
        [&[22, 3, 1][..], &random.bytes(count)].concat()
    });
    let failures = [("side", "downstream")];
    until("nearly all of 1,000 are counted", || {
        proxy.metric("leno_tls_handshake_failures_total", &failures) > 900.0
    });
    baseline.comes_back(&proxy);
}

#[test]
fn client_that_closes_its_half_gets_its_answer_and_leaves_nothing() {
    let app = EchoServer::start();
    let proxy = start(&Sidecar::inbound(app.addr()));
    let baseline = Baseline::of(&proxy);
    for number in 0..300 {
        let mut client = RawClient::connect(proxy.addr());
        if number % 3 > 0 {
            client.send("GET /bytes/5000 HTTP/1.1\r\nhost: test\r\n\r\n");
        }
        client.half_close();
        if number % 3 == 1 {
            assert_eq!(client.response().body.len(), 5000);
        }
        client.read_to_end();
    }
    baseline.comes_back(&proxy);
}

#[test]
fn slow_reader_costs_little_and_delays_nobody() {
    const SIZE: usize = 50 << 20;
    let app = EchoServer::start();
    let proxy = start(&Sidecar::inbound(app.addr()));
    let baseline = Baseline::of(&proxy);
    let before = proxy.anon_kib();
    let mut slow: Vec<_> = (0..4).map(|_| RawClient::connect(proxy.addr())).collect();
    for client in &mut slow {
        client.send(format!("GET /bytes/{SIZE} HTTP/1.1\r\nhost: test\r\n\r\n"));
    }
    until("the proxy serves the slow", || {
        let active = proxy.metric("leno_requests_active", &[]);
        (active - 4.0).abs() < 0.5
    });
    send(proxy.addr(), 4, 400).is_only(&[200]);
    let grown = proxy.anon_kib().saturating_sub(before);
    assert!(grown < 4096, "{grown} KiB for four slow readers");
    for client in &mut slow {
        assert_eq!(client.response().body.len(), SIZE);
    }
    drop(slow);
    baseline.comes_back(&proxy);
}

//! What broken peers do to the proxy: endpoints that are down, upstreams that end in the middle,
//! clients that send half of it, garbage, or too much at once. Nothing may be lost but what they
//! broke themselves: no descriptor, no memory, no other request.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops where its world is not as it should be"
)]

mod downstreams;
mod endpoints;
mod overload;
mod upstreams;

use std::net::SocketAddr;

use testkit::traffic::Tally;
use testkit::{ProxyProcess, RawClient, Sidecar, Traffic, until};

const REQUESTS: &str = "leno_requests_total";
const ACTIVE: &str = "leno_connections_active";
const UPSTREAM_ACTIVE: &str = "leno_upstream_connections_active";
const GET: &str = "GET / HTTP/1.1\r\nhost: test\r\n\r\n";

fn start(sidecar: &Sidecar) -> ProxyProcess {
    start_yaml(&sidecar.yaml())
}

fn start_yaml(yaml: &str) -> ProxyProcess {
    ProxyProcess::start(env!("CARGO_BIN_EXE_leno-proxy"), yaml)
}

fn send(addr: SocketAddr, clients: usize, requests: usize) -> Tally {
    Traffic::with(clients, requests, move || RawClient::connect(addr)).join()
}

/// Deterministic chance.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).unwrap()
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.byte()).collect()
    }
}

/// What a proxy holds when nobody uses it.
struct Baseline {
    descriptors: usize,
}

impl Baseline {
    /// After one request, so that what is kept for ever is there.
    fn of(proxy: &ProxyProcess) -> Self {
        assert_eq!(RawClient::connect(proxy.addr()).get("/").status(), 200);
        proxy.metric_becomes(ACTIVE, &[], 0.0);
        let held = proxy.open_fds() - upstream_connections(proxy);
        Self { descriptors: held }
    }

    /// Everything that came is gone again, idle upstream connections excepted.
    #[track_caller]
    fn comes_back(&self, proxy: &ProxyProcess) {
        until("all descriptors are back", || {
            let expected = self.descriptors + upstream_connections(proxy);
            // Scrapes take descriptors as well.
            proxy.open_fds() <= expected + 2 && proxy.metric(ACTIVE, &[]) < 0.5
        });
        assert!(!proxy.stderr().contains("panicked"), "{}", proxy.stderr());
        let internal = proxy.metric(REQUESTS, &[("flag", "IE")]);
        assert!(
            internal < 0.5,
            "{internal} internal errors\n{}",
            proxy.stderr()
        );
    }
}

fn upstream_connections(proxy: &ProxyProcess) -> usize {
    proxy.metric(UPSTREAM_ACTIVE, &[]) as usize
}

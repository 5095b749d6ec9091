//! Handovers under every kind of load.

use std::sync::atomic::Ordering;

use testkit::{EchoServer, Pair, ProxyProcess, RawClient, Traffic};

use crate::world::{
    LONG_BYTES, Load, PARTS, PROXY, Parrot, Place, brief, bytes, ended, names, start, streams,
};

/// Longer than five handovers take anywhere.
const DRAIN: &str = "limits: {handoverTimeout: 200s}";

fn sidecar(place: &Place, app: &EchoServer, parrot: &Parrot, workers: usize) -> String {
    let (key, app, parrot) = (place.key(), app.addr(), parrot.addr);
    let listener = |name, more: &str| {
        format!("- {{name: {name}, direction: outbound, address: \"127.0.0.1:0\", {more}}}\n")
    };
    let listeners = [
        listener("main", "protocol: http, routes: [{cluster: app}]"),
        listener("odd", "protocol: http, routes: [{cluster: parrot}]"),
        listener("raw", "protocol: tcp, routes: [{cluster: parrot}]"),
    ];
    format!(
        "workload: {{name: w}}\nworkers: {workers}\nadmin: 127.0.0.1:0\nmetrics: 127.0.0.1:0\n\
         dns: 127.0.0.1:0\n{key}\n{DRAIN}\nlisteners:\n{}\
         - {{name: web, direction: outbound, address: \"10.78.0.1:80\", bind: false, \
         names: [web], routes: [{{cluster: app}}]}}\n\
         clusters:\n- {{name: app, protocol: http1, endpoints: [{{address: \"{app}\"}}]}}\n\
         - {{name: parrot, endpoints: [{{address: \"{parrot}\"}}]}}\n",
        listeners.concat()
    )
}

/// Connections that outlive every handover.
struct Lasting {
    socket: RawClient,
    raw: RawClient,
    download: RawClient,
}

impl Lasting {
    fn open(proxy: &ProxyProcess) -> Self {
        let mut socket = RawClient::connect(proxy.listener("odd"));
        socket.send(
            "GET /chat HTTP/1.1\r\nhost: test\r\nconnection: upgrade\r\n\
             upgrade: websocket\r\n\r\n",
        );
        assert_eq!(socket.response().status(), 101);
        let raw = RawClient::connect(proxy.listener("raw"));
        let mut download = RawClient::connect(proxy.listener("odd"));
        download.send("GET /long HTTP/1.1\r\nhost: test\r\n\r\n");
        Self {
            socket,
            raw,
            download,
        }
    }

    fn go_on(&mut self, round: usize) {
        for client in [&mut self.socket, &mut self.raw] {
            let message = format!("round {round}");
            client.send(&message);
            client.expect(&message);
        }
        PARTS.store(round, Ordering::SeqCst);
    }
}

#[test]
fn five_handovers_lose_nothing() {
    let (place, app, parrot) = (Place::new(), EchoServer::start(), Parrot::start());
    let mut serving = start(&sidecar(&place, &app, &parrot, 1));
    let (main, raw) = (serving.addr(), serving.listener("raw"));
    let (admin, questions) = (serving.admin_addr(), serving.names_addr());
    let mut lasting = Lasting::open(&serving);
    let kept = Traffic::start(main, 2);
    let loads = [
        Load::start("a connection per request", 2, brief(main)),
        Load::start("streams", 2, streams(main)),
        Load::start("bytes", 2, bytes(raw)),
        Load::start("names", 1, names(questions)),
    ];
    let mut succeeded = Vec::new();
    for (round, workers) in [(1, 2), (2, 3), (3, 1), (4, 2), (5, 1)] {
        lasting.go_on(round);
        kept.goes_on(30);
        loads.iter().for_each(|load| load.goes_on(15));
        let successor = start(&sidecar(&place, &app, &parrot, workers));
        assert_eq!(successor.addr(), main);
        assert_eq!(successor.listener("raw"), raw);
        assert_eq!(successor.admin_addr(), admin);
        assert_eq!(successor.names_addr(), questions);
        let dump = successor.admin("/config_dump").text();
        assert!(dump.contains(&format!("\"workers\": {workers}")), "{dump}");
        succeeded.push(std::mem::replace(&mut serving, successor));
    }
    kept.goes_on(30);
    loads.iter().for_each(|load| load.goes_on(15));
    lasting.go_on(6);
    let body = lasting.download.response().body;
    assert_eq!(body.len(), LONG_BYTES);
    drop(lasting);
    kept.finish().is_only(&[200]);
    loads.into_iter().for_each(Load::finish);
    succeeded.into_iter().for_each(ended);
    assert!(serving.terminate().status.success());
    assert!(!place.path().exists());
}

#[test]
fn sidecars_of_both_sides_of_the_hop_are_succeeded() {
    let places = [Place::new(), Place::new()];
    let keys = places.each_ref().map(|place| place.key());
    let mut pair = Pair::start_with(
        PROXY,
        EchoServer::start(),
        |inbound| {
            let inbound = inbound.cluster("protocol: http1");
            inbound.with(&keys[0]).with(DRAIN)
        },
        |outbound| outbound.with(&keys[1]).with(DRAIN),
    );
    let addr = pair.outbound.addr();
    let kept = Traffic::start(addr, 4);
    let streams = Load::start("streams", 2, streams(addr));
    let mut succeeded = Vec::new();
    for _ in 0..5 {
        kept.goes_on(50);
        streams.goes_on(20);
        let next = start(&pair.configs.inbound.yaml());
        assert_eq!(next.addr(), pair.inbound.addr());
        succeeded.push(std::mem::replace(&mut pair.inbound, next));
        kept.goes_on(50);
        let next = start(&pair.configs.outbound.yaml());
        succeeded.push(std::mem::replace(&mut pair.outbound, next));
    }
    kept.goes_on(50);
    streams.goes_on(20);
    kept.finish().is_only(&[200]);
    streams.finish();
    succeeded.into_iter().for_each(ended);
}

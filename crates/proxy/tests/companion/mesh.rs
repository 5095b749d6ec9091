//! Two workloads on Envoy that call each other over mesh TLS.

use model::{Cluster, Direction, Endpoint, Listener, TlsMode, Transport};
use testkit::{EchoServer, ProxyProcess, RawClient, Traffic, until};

use crate::world::{World, cluster, listener};

/// `caller` calls `server`, which lets in who is of the mesh.
struct Pair {
    world: World,
    caller: ProxyProcess,
    server: ProxyProcess,
    _app: EchoServer,
}

fn pair() -> Option<Pair> {
    let app = EchoServer::start();
    let world = World::new()?;
    world.plane.cluster(&cluster("app", app.addr()));
    world.plane.listener(&Listener {
        tls: TlsMode::Strict,
        ..listener("inbound", "app")
    });
    let server = world.start_as("server");
    let endpoint = Endpoint {
        address: server.listener("inbound"),
        transport: Transport::Mtls,
        identities: vec!["spiffe://cluster.local/ns/default/sa/server".to_owned()],
    };
    world.plane.cluster(&Cluster {
        endpoints: vec![endpoint],
        ..cluster("server", server.listener("inbound"))
    });
    world.plane.listener(&Listener {
        direction: Direction::Outbound,
        ..listener("main", "server")
    });
    let caller = world.start_as("caller");
    Some(Pair {
        world,
        caller,
        server,
        _app: app,
    })
}

/// The serial number of the certificate that the companion has.
fn serial(proxy: &ProxyProcess) -> String {
    let serial = proxy.page("/certs")["certificateChain"][0]["serial"].clone();
    plain(serial.as_str().unwrap())
}

/// As both write it.
fn plain(serial: &str) -> String {
    let serial = serial.replace(':', "").to_lowercase();
    serial.trim_start_matches('0').to_owned()
}

/// The serial numbers of the certificates that its Envoy has.
fn serials_at_envoy(proxy: &ProxyProcess) -> Vec<String> {
    let page = proxy.page("/envoy/certs");
    let all = page["certificates"].as_array().unwrap().iter();
    let chains = all.flat_map(|one| one["cert_chain"].as_array().unwrap());
    chains
        .map(|one| plain(one["serial_number"].as_str().unwrap()))
        .collect()
}

#[test]
fn two_of_them_speak_mesh_tls() {
    let Some(pair) = pair() else { return };
    let answer = RawClient::connect(pair.caller.addr()).get("/");
    assert_eq!(answer.status(), 200);
    assert!(serials_at_envoy(&pair.server).contains(&serial(&pair.server)));
    // Whoever comes in plaintext is not let in.
    let mut stranger = RawClient::connect(pair.server.listener("inbound"));
    stranger.send("GET / HTTP/1.1\r\nhost: server\r\n\r\n");
    assert_eq!(stranger.read_to_end().0, b"", "closed without a word");
}

#[test]
fn a_new_certificate_reaches_envoy_without_a_failed_request() {
    let Some(pair) = pair() else { return };
    let both = [&pair.caller, &pair.server];
    let before = both.map(serial);
    let traffic = Traffic::start(pair.caller.addr(), 4);
    traffic.goes_on(100);
    pair.world.plane.rotate();
    for (proxy, before) in both.into_iter().zip(&before) {
        until("Envoy has another certificate", || {
            let now = serial(proxy);
            now != *before && serials_at_envoy(proxy).contains(&now)
        });
    }
    traffic.goes_on(100);
    traffic.finish().is_only(&[200]);
}

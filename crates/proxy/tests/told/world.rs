//! Services at virtual addresses, a sidecar that is told of them, and connections to them. A PROXY
//! header says what the kernel says of a redirected connection.

use std::net::SocketAddr;

use model::{Backend, Balance, Cluster, Discovery, Listener, ListenerProtocol, Protocol, Route};
use serde_json::Value;
pub(crate) use testkit::parts::{cluster, listener};
use testkit::proxy::Launched;
use testkit::{ControlPlane, ProxyProcess, RawClient, until};

pub(crate) const PROXY: &str = env!("CARGO_BIN_EXE_leno-proxy");
pub(crate) const WEB: &str = "10.78.0.1:80";
pub(crate) const MAIL: &str = "10.78.0.2:25";

/// A control plane that tells where redirected connections are taken, and no service yet.
pub(crate) fn plane() -> ControlPlane {
    let plane = ControlPlane::start();
    plane.cluster(&Cluster {
        passthrough: true,
        balance: Balance::OriginalDestination,
        protocol: Protocol::Tcp,
        discovery: Discovery::Static,
        ..cluster("passthrough", &[])
    });
    plane.listener(&Listener {
        address: "127.0.0.1:0".parse().unwrap(),
        bind: true,
        original_destination: true,
        proxy_protocol: true,
        protocol: ListenerProtocol::Auto,
        ..listener("outbound", WEB, "passthrough")
    });
    plane
}

/// A control plane that tells of one service, too.
pub(crate) fn plane_with(address: &str, endpoints: &[SocketAddr]) -> ControlPlane {
    let plane = plane();
    serve(&plane, "web", address, endpoints);
    plane
}

/// A service whose endpoints are told at once.
#[track_caller]
pub(crate) fn serve(plane: &ControlPlane, name: &str, address: &str, endpoints: &[SocketAddr]) {
    plane.cluster(&cluster(name, endpoints));
    plane.listener(&listener(name, address, name));
}

/// A service whose endpoints are told at first use.
#[track_caller]
pub(crate) fn serve_on_demand(
    plane: &ControlPlane,
    name: &str,
    address: &str,
    endpoints: &[SocketAddr],
) {
    plane.cluster(&Cluster {
        discovery: Discovery::OnDemand,
        ..cluster(name, endpoints)
    });
    plane.listener(&listener(name, address, name));
}

pub(crate) fn route(backends: &[(&str, u32)]) -> Route {
    let backend = |(cluster, weight): &(&str, u32)| Backend {
        cluster: (*cluster).to_owned(),
        weight: *weight,
    };
    Route {
        backends: backends.iter().map(backend).collect(),
        ..Route::to("")
    }
}

/// The sidecar beside `caller`, ready.
#[track_caller]
pub(crate) fn start(plane: &ControlPlane) -> ProxyProcess {
    ProxyProcess::start(PROXY, &plane.sidecar("caller", ""))
}

#[track_caller]
pub(crate) fn launch(yaml: &str) -> Launched {
    ProxyProcess::launch(PROXY, yaml, &[])
}

/// A connection that was made to `destination`.
#[track_caller]
pub(crate) fn connect(proxy: &ProxyProcess, destination: &str) -> RawClient {
    connect_at(proxy.listener("outbound"), destination)
}

#[track_caller]
pub(crate) fn connect_at(outbound: SocketAddr, destination: &str) -> RawClient {
    let destination: SocketAddr = destination.parse().unwrap();
    let (ip, port) = (destination.ip(), destination.port());
    let mut client = RawClient::connect(outbound);
    client.send(format!("PROXY TCP4 192.0.2.7 {ip} 40000 {port}\r\n"));
    client
}

/// The status of one request on a connection of its own.
#[track_caller]
pub(crate) fn ask(proxy: &ProxyProcess, destination: &str) -> u16 {
    connect(proxy, destination).get("/").status()
}

/// Waits until the configuration is as expected and every worker has it.
#[track_caller]
pub(crate) fn applied(proxy: &ProxyProcess, what: &str, expected: impl Fn(&Value) -> bool) {
    until(what, || {
        let dump = proxy.page("/config_dump");
        dump["applied"] == dump["generation"] && expected(&dump["config"])
    });
}

/// Whether a listener or a cluster is in the configuration.
pub(crate) fn has(config: &Value, kind: &str, name: &str) -> bool {
    let mut all = config[kind].as_array().unwrap().iter();
    all.any(|one| one["name"] == name)
}

/// Waits until the log says something.
#[track_caller]
pub(crate) fn says(proxy: &ProxyProcess, words: &str) {
    let said = || proxy.stderr().contains(words);
    until(&format!("the log says `{words}`"), said);
}

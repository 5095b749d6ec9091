//! A gateway's sidecar that is told its listener and certificates, and applications behind it.

use std::net::SocketAddr;

use model::{Backend, Cluster, Edge, HostMatch, Listener, Protocol, Route, Shown};
use serde_json::Value;
use testkit::browser::certificate;
use testkit::{Browser, ControlPlane, ProxyProcess, parts, until};
use xds::resource::Resource;
use xds::secret::Certificate;

pub(crate) const PROXY: &str = env!("CARGO_BIN_EXE_leno-proxy");
pub(crate) const SHOP: &str = "shop.example";

/// A control plane that tells of an application called `app`.
pub(crate) fn plane(app: SocketAddr) -> ControlPlane {
    let plane = ControlPlane::start();
    plane.cluster(&cluster("app", app, Protocol::Auto));
    plane
}

pub(crate) fn cluster(name: &str, address: SocketAddr, protocol: Protocol) -> Cluster {
    Cluster {
        protocol,
        ..parts::cluster(name, &[address])
    }
}

pub(crate) fn listener(edge: Edge, routes: Vec<Route>) -> Listener {
    Listener {
        bind: true,
        edge: Some(edge),
        upgrades: vec!["websocket".to_owned()],
        request_id: true,
        forwarded_for: true,
        routes,
        ..parts::listener("gateway", "127.0.0.1:0", "")
    }
}

/// Leads everything to the application.
pub(crate) fn to_app() -> Vec<Route> {
    vec![Route::to("app")]
}

pub(crate) fn exact(host: &str) -> HostMatch {
    HostMatch::Exact(host.to_owned())
}

pub(crate) fn shown(host: HostMatch, certificate: &str) -> Shown {
    Shown {
        hosts: vec![host],
        certificate: certificate.to_owned(),
    }
}

/// TLS for `shop.example` with the certificate of that name.
pub(crate) fn shop() -> Edge {
    Edge::Tls(vec![shown(exact(SHOP), SHOP)])
}

/// Tells a certificate for `host` under that name; its chain.
pub(crate) fn tell_certificate(plane: &ControlPlane, host: &str) -> String {
    let (chain, key) = certificate(&[host]);
    tell(plane, host, &chain, &key);
    chain
}

#[track_caller]
pub(crate) fn tell(plane: &ControlPlane, name: &str, chain: &str, key: &str) {
    plane.set([Resource::Certificate(Certificate {
        name: name.to_owned(),
        chain: chain.to_owned(),
        key: key.to_owned().into(),
    })]);
}

/// The sidecar of a gateway, ready.
#[track_caller]
pub(crate) fn start(plane: &ControlPlane) -> ProxyProcess {
    ProxyProcess::start(PROXY, &plane.sidecar("edge", ""))
}

/// A gateway with TLS for `shop.example` in front of the application, and who trusts it.
#[track_caller]
pub(crate) fn secured(app: SocketAddr) -> (ControlPlane, ProxyProcess, Browser) {
    let plane = plane(app);
    let chain = tell_certificate(&plane, SHOP);
    plane.listener(&listener(shop(), to_app()));
    let proxy = start(&plane);
    (plane, proxy, Browser::trusting(&chain))
}

pub(crate) fn gateway(proxy: &ProxyProcess) -> SocketAddr {
    proxy.listener("gateway")
}

/// A route with a share for each of these.
pub(crate) fn backend(cluster: &str) -> Vec<Backend> {
    Route::to(cluster).backends
}

/// Waits until every worker has what `expected` looks for in the certificates.
#[track_caller]
pub(crate) fn certificates_become(proxy: &ProxyProcess, expected: impl Fn(&Value) -> bool) {
    until("the certificates are others", || {
        let certs: Value = serde_json::from_str(&proxy.admin("/certs").text()).unwrap();
        let dump: Value = serde_json::from_str(&proxy.admin("/config_dump").text()).unwrap();
        dump["applied"] == dump["generation"] && expected(&certs["shown"])
    });
}

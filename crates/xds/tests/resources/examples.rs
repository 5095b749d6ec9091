//! A few resources in full, for the other tests to begin with, and the seeds made of them.

use std::time::Duration;

use model::{
    Balance, Cluster, Direction, Discovery, Endpoint, Listener, ListenerProtocol, Protocol, Route,
    TlsMode, Transport,
};

pub(crate) const HELLO: &str = "spiffe://cluster.local/ns/default/sa/hello";

pub(crate) fn route(cluster: &str) -> Route {
    Route::to(cluster)
}

pub(crate) fn listener() -> Listener {
    Listener {
        name: "example".to_owned(),
        direction: Direction::Outbound,
        address: "10.78.0.1:80".parse().unwrap(),
        additional_addresses: vec!["[fd78::1]:80".parse().unwrap()],
        bind: false,
        original_destination: false,
        names: vec!["hello.default.svc.cluster.local".to_owned()],
        hosts: Vec::new(),
        port_name: None,
        tls: TlsMode::Disabled,
        edge: None,
        protocol: ListenerProtocol::Http,
        detect_timeout: Duration::from_millis(50),
        upgrades: vec!["websocket".to_owned()],
        connect: false,
        proxy_protocol: false,
        request_id: false,
        forwarded_for: false,
        routes: vec![route("outbound|80|hello.default.svc.cluster.local")],
    }
}

pub(crate) fn endpoint() -> Endpoint {
    Endpoint {
        address: "10.77.0.2:8080".parse().unwrap(),
        transport: Transport::Leno,
        identities: vec![HELLO.to_owned()],
    }
}

pub(crate) fn cluster() -> Cluster {
    Cluster {
        name: "outbound|80|hello.default.svc.cluster.local".to_owned(),
        balance: Balance::LeastRequest,
        protocol: Protocol::Http1,
        proxy_protocol: None,
        discovery: Discovery::OnDemand,
        passthrough: false,
        endpoints: vec![endpoint()],
    }
}

pub(crate) fn passthrough() -> Cluster {
    Cluster {
        name: "passthrough".to_owned(),
        balance: Balance::OriginalDestination,
        protocol: Protocol::Tcp,
        proxy_protocol: None,
        discovery: Discovery::Static,
        passthrough: true,
        endpoints: Vec::new(),
    }
}

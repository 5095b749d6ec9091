//! HTTP/2 inside mesh TLS, for clients and servers that speak it themselves.

use crate::world::{pattern, post, start};
use identity::tls::{ALPN_H2, ALPN_PUBLIC_H2, Tickets, server_config};
use testkit::{H2Client, H2Server, MeshConnector, Sidecar, TestCa};

/// Bodies of many streams, which share records.
#[track_caller]
fn many_at_once(client: &mut H2Client) {
    let body = pattern(100_000);
    let mut calls: Vec<_> = (0..50).map(|_| client.call(&post("/"), false)).collect();
    calls.iter_mut().for_each(|call| call.send_all(&body));
    for call in calls {
        assert!(call.answer().body == body);
    }
}

#[test]
fn http2_inside_mesh_tls_is_served() {
    let (ca, app) = (TestCa::new(), H2Server::start());
    let (server, client) = (ca.identity("server"), ca.identity("client"));
    let sidecar = Sidecar::inbound(app.addr()).identity(&server).strict();
    let proxy = start(&sidecar.allow(std::slice::from_ref(&client.id)));
    for alpn in [ALPN_H2, ALPN_PUBLIC_H2] {
        let connector = MeshConnector::with_alpn(&client.credentials(), &server.id, &[alpn]);
        let mut client = H2Client::connect_tls(proxy.addr(), &connector);
        let body = pattern(1 << 20);
        assert!(client.post("/", &body).body == body);
        many_at_once(&mut client);
        assert_eq!(client.get("/trailers").grpc_status(), Some("0"));
    }
}

#[test]
fn http2_goes_on_inside_mesh_tls() {
    let ca = TestCa::new();
    let (server, client) = (ca.identity("server"), ca.identity("client"));
    let config = server_config(&server.credentials(), &[ALPN_H2], &Tickets::new()).unwrap();
    let upstream = H2Server::start_tls(config);
    let sidecar = Sidecar::outbound(&[upstream.addr()])
        .identity(&client)
        .mtls(&[server.id])
        .cluster("protocol: http2");
    let proxy = start(&sidecar);
    let mut client = H2Client::connect(proxy.addr());
    let body = pattern(1 << 20);
    assert!(client.post("/", &body).body == body);
    let mut http1 = testkit::RawClient::connect(proxy.addr());
    assert!(http1.post("/", &body).body == body);
    assert_eq!(upstream.connection_count(), 1);
    many_at_once(&mut client);
}

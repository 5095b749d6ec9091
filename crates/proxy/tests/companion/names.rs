//! Names: the companion answers for them, since Envoy does not.

use std::net::{IpAddr, UdpSocket};

use testkit::{DEADLINE, EchoServer, ProxyProcess, until};
use wire::dns::{Answer, Kind};

use crate::world::{PROXY, World, listener};
use model::{Direction, Listener};

/// Addresses that are answered.
#[track_caller]
fn ask(proxy: &ProxyProcess, name: &str) -> Vec<IpAddr> {
    let mut message = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        message.push(u8::try_from(label.len()).unwrap());
        message.extend_from_slice(label.as_bytes());
    }
    message.extend_from_slice(&[0, 0, u8::try_from(Kind::A.0).unwrap(), 0, 1]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    socket.connect(proxy.names_addr()).unwrap();
    socket.send(&message).unwrap();
    let mut out = [0; 512];
    let length = socket.recv(&mut out).expect("an answer");
    let answer = Answer::parse(&out[..length]).unwrap();
    let records = answer
        .records()
        .filter(|(_, record)| record.kind == Kind::A);
    let octets = records.map(|(_, record)| <[u8; 4]>::try_from(record.data).unwrap());
    octets.map(IpAddr::from).collect()
}

fn named(name: &str, address: &str) -> Listener {
    Listener {
        direction: Direction::Outbound,
        bind: false,
        address: address.parse().unwrap(),
        names: vec![format!("{name}.default.svc.cluster.local")],
        ..listener(name, "app")
    }
}

#[test]
fn names_are_those_of_the_listeners_that_are_told() {
    let app = EchoServer::start();
    let Some(world) = World::before(app.addr()) else {
        return;
    };
    world.plane.listener(&named("mail", "10.78.0.1:25"));
    let yaml = world.yaml("web", "") + "dns: 127.0.0.1:0\n";
    let proxy = ProxyProcess::start(PROXY, &yaml);
    let (mail, shop): (IpAddr, IpAddr) = ([10, 78, 0, 1].into(), [10, 78, 0, 2].into());
    assert_eq!(ask(&proxy, "mail.default.svc.cluster.local"), [mail]);
    assert!(ask(&proxy, "shop.default").is_empty());
    world.plane.listener(&named("shop", "10.78.0.2:80"));
    until("the new name is known", || {
        ask(&proxy, "shop.default") == [shop]
    });
}

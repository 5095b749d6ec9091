//! Ports of services by name, and names of addresses.

use model::{Host, Listener};

use super::*;

/// A service at two ports that have names, and a headless one of two instances.
fn names() -> Names {
    let service = |name: &str, addresses: &[&str]| {
        let config = config_with([(name.to_owned(), addresses.to_vec())]);
        Listener::clone(&config.listeners[0])
    };
    let shop = |port: u16, name: &str| Listener {
        port_name: Some(name.to_owned()),
        ..service(
            "shop.default.svc.cluster.local",
            &[&format!("10.78.0.4:{port}"), &format!("[fd78::4]:{port}")],
        )
    };
    let host = |number: u8, v6: &str| Host {
        name: format!("db-{number}.db.data.svc.cluster.local"),
        addresses: vec![[10, 77, 0, number].into(), v6.parse().unwrap()],
    };
    let db = Listener {
        port_name: Some("postgres".to_owned()),
        hosts: vec![host(5, "fd77::5"), host(6, "fd77::6")],
        ..service(
            "db.data.svc.cluster.local",
            &[
                "10.77.0.5:5432",
                "10.77.0.6:5432",
                "[fd77::5]:5432",
                "[fd77::6]:5432",
            ],
        )
    };
    let mut config = config();
    config.listeners = [shop(80, "http"), shop(443, "https"), db]
        .map(Arc::new)
        .to_vec();
    Names::build(&config)
}

/// What an answer says of services, as `port host`, and of other names, and the addresses that go
/// with it.
fn read(message: &[u8]) -> (Vec<String>, Vec<String>) {
    let answer = Answer::parse(message).unwrap();
    let (mut said, mut additional) = (Vec::new(), Vec::new());
    for (section, record) in answer.records() {
        let mut owner = Vec::new();
        record.owner(&mut owner).unwrap();
        let owner = Name::from_wire(&owner).unwrap().to_string();
        let name = |at| Name::from_wire(&record.data[at..]).unwrap().to_string();
        match record.kind {
            Kind::SRV => {
                assert_eq!(record.data[..4], [0, 0, 0, 1], "priority and weight");
                let port = u16::from_be_bytes([record.data[4], record.data[5]]);
                said.push(format!("{port} {}", name(6)));
            }
            Kind::PTR => said.push(name(0)),
            Kind::A => additional.push(format!("{owner} {}", record.data[3])),
            Kind::AAAA => additional.push(format!("{owner} :{}", record.data[15])),
            Kind::OPT => assert_eq!(section, Section::Additional),
            _ => assert_eq!(section, Section::Authority),
        }
    }
    said.sort();
    (said, additional)
}

#[track_caller]
fn check(name: &str, kind: Kind, expected: &[&str], more: &[&str]) {
    let (answered, message) = ask(&names(), &query(name, kind, OPT));
    let is_found = answered == Answered::Found;
    assert_eq!(is_found, !expected.is_empty(), "{name}: {answered:?}");
    let (said, mut additional) = read(&message);
    additional.sort();
    assert_eq!((said, additional), (owned(expected), owned(more)), "{name}");
}

fn owned(all: &[&str]) -> Vec<String> {
    all.iter().map(|&one| one.to_owned()).collect()
}

#[test]
fn a_port_of_a_service_is_found_by_name() {
    check(
        "_https._tcp.shop.default.svc.cluster.local",
        Kind::SRV,
        &["443 shop.default.svc.cluster.local"],
        &[
            "shop.default.svc.cluster.local 4",
            "shop.default.svc.cluster.local :4",
        ],
    );
}

#[test]
fn a_headless_service_is_its_instances() {
    check(
        "_Postgres._TCP.db.data.svc.cluster.local",
        Kind::SRV,
        &[
            "5432 db-5.db.data.svc.cluster.local",
            "5432 db-6.db.data.svc.cluster.local",
        ],
        &[
            "db-5.db.data.svc.cluster.local 5",
            "db-5.db.data.svc.cluster.local :5",
            "db-6.db.data.svc.cluster.local 6",
            "db-6.db.data.svc.cluster.local :6",
        ],
    );
    let addresses = |name| addresses(&ask(&names(), &query(name, Kind::A, &[])).1);
    let one: Vec<IpAddr> = vec!["10.77.0.6".parse().unwrap()];
    assert_eq!(addresses("db-6.db.data.svc.cluster.local"), one);
    assert_eq!(addresses("db.data").len(), 2);
}

#[test]
fn what_is_not_there_is_no_data_or_no_name() {
    for (name, kind, expected) in [
        (
            "shop.default.svc.cluster.local",
            Kind::SRV,
            Answered::NoData,
        ),
        (
            "_tcp.shop.default.svc.cluster.local",
            Kind::SRV,
            Answered::NoData,
        ),
        (
            "_http._tcp.shop.default.svc.cluster.local",
            Kind::A,
            Answered::NoData,
        ),
        (
            "_http._udp.shop.default.svc.cluster.local",
            Kind::SRV,
            Answered::NoName,
        ),
        (
            "_smtp._tcp.shop.default.svc.cluster.local",
            Kind::SRV,
            Answered::NoName,
        ),
        ("db-7.db.data.svc.cluster.local", Kind::A, Answered::NoName),
    ] {
        let (answered, _) = ask(&names(), &query(name, kind, &[]));
        assert_eq!(answered, expected, "{name}");
    }
}

#[test]
fn an_address_has_the_names_of_its_services_and_instances() {
    check(
        "4.0.78.10.in-addr.arpa",
        Kind::PTR,
        &["shop.default.svc.cluster.local"],
        &[],
    );
    let both = [
        "db-5.db.data.svc.cluster.local",
        "db.data.svc.cluster.local",
    ];
    check("5.0.77.10.IN-ADDR.arpa", Kind::PTR, &both, &[]);
    let v6 = "6.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.7.7.d.f.ip6.arpa";
    let both = [
        "db-6.db.data.svc.cluster.local",
        "db.data.svc.cluster.local",
    ];
    check(v6, Kind::PTR, &both, &[]);
    for name in [
        "4.0.78.11.in-addr.arpa",
        "4.0.78.in-addr.arpa",
        "4.0.78.10.0.in-addr.arpa",
        "+4.0.78.10.in-addr.arpa",
        "x.0.78.10.in-addr.arpa",
        "256.0.78.10.in-addr.arpa",
        "in-addr.arpa",
        "arpa",
        &v6[2..],
        "06.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.7.7.d.f.ip6.arpa",
    ] {
        check(name, Kind::PTR, &[], &[]);
    }
}

#[test]
fn an_instances_own_name_comes_first() {
    let (_, message) = ask(&names(), &query("5.0.77.10.in-addr.arpa", Kind::PTR, &[]));
    let answer = Answer::parse(&message).unwrap();
    let (_, first) = answer.records().next().unwrap();
    let name = Name::from_wire(first.data).unwrap().to_string();
    assert_eq!(name, "db-5.db.data.svc.cluster.local");
}

fn first(config: &mut Config) -> &mut Listener {
    Arc::make_mut(&mut config.listeners[0])
}

#[test]
fn a_table_is_built_again_when_a_name_changes() {
    let old = config();
    let changed = |change: fn(&mut Config)| {
        let mut new = config();
        change(&mut new);
        !Names::are_same(&old, &new)
    };
    assert!(!changed(|_| {}));
    assert!(!changed(|new| new.clusters.clear()));
    assert!(changed(|new| new.workload.namespace = "data".to_owned()));
    assert!(changed(|new| new.listeners.truncate(1)));
    assert!(changed(|new| first(new).names.clear()));
    assert!(changed(|new| first(new).address.set_port(81)));
    assert!(changed(|new| first(new).additional_addresses.clear()));
    assert!(changed(|new| first(new).port_name = Some("http".to_owned())));
    let host = Host {
        name: "a.test".to_owned(),
        addresses: Vec::new(),
    };
    let mut new = config();
    first(&mut new).hosts = vec![host];
    assert!(!Names::are_same(&old, &new));
}

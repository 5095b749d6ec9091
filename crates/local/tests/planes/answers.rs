//! What is asked is answered alike, whoever carries it there.

use std::net::IpAddr;

use crate::ask::{echo, request, status};
use crate::decisions::{pairs, refuses_nothing};
use crate::file::{PLANES, every, place};
use crate::world::{Haste, World};

/// Requests that differ in what a data plane has to do for them.
const HEADS: [&str; 7] = [
    "GET / HTTP/1.1",
    "GET /a/b?size=300000 HTTP/1.1",
    "GET /?status=404&size=10 HTTP/1.1",
    "GET /?status=503 HTTP/1.1",
    "HEAD /?size=1000 HTTP/1.1",
    "GET /%7Euser/./x//y?a=b%20c HTTP/1.1\r\nX-Own: one\r\nx-own: two",
    "OPTIONS / HTTP/1.1\r\naccept: */*",
];

/// An answer without what is each hop's own affair: how header names are written, in which order,
/// when it was, and what is said of the connection.
fn told(answer: &str) -> (Vec<String>, String) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let mut lines: Vec<_> = head.lines().map(str::to_lowercase).collect();
    lines.retain(|line| {
        !["date:", "connection:"]
            .iter()
            .any(|own| line.starts_with(own))
    });
    lines.sort();
    (lines, body.to_owned())
}

#[test]
fn answers_are_the_same_on_every_data_plane() {
    let Some(world) = World::with_envoy(Haste::default()) else {
        return;
    };
    world.up(&every(&world));
    for head in HEADS {
        let ask = |[caller, callee]: [&str; 2]| {
            let [address, _] = world.virtual_addresses(place("open", callee));
            world.inside(&format!("friend-{caller}"), || {
                told(&request((address, 80).into(), head).unwrap())
            })
        };
        let expected = ask(["leno", "leno"]);
        assert!(
            expected.0.iter().any(|line| line.starts_with("http/1.1 ")),
            "{expected:?}"
        );
        for pair in pairs() {
            assert_eq!(ask(pair), expected, "{pair:?}: {head}");
        }
    }
    refuses_nothing(&world);
}

/// A headless Service is called at the addresses of its instances.
#[test]
fn headless_services_are_answered_for() {
    let Some(world) = World::with_envoy(Haste::default()) else {
        return;
    };
    world.up(&every(&world));
    for [caller, callee] in pairs() {
        for address in instances(&world, callee) {
            let found = world.inside(&format!("friend-{caller}"), || {
                [status(address, 8080, "/"), echo(address, 9090)]
            });
            assert_eq!(found, ["200", "ping"], "{caller} → {callee} at {address}");
        }
        let name = format!("http://heads-{callee}.default.svc.cluster.local:8080/");
        let words = [
            "load", &name, "-c", "2", "--qps", "50", "-t", "500ms", "--json", "-",
        ];
        let output = world
            .leno(&format!("friend-{caller}"), &words)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let codes: serde_json::Value = serde_json::from_str(&said).unwrap();
        let codes = codes["RetCodes"].as_object().unwrap();
        assert!(
            codes.keys().all(|code| code == "200") && !codes.is_empty(),
            "{codes:?}"
        );
    }
    refuses_nothing(&world);
}

fn instances(world: &World, plane: &str) -> Vec<IpAddr> {
    assert!(PLANES.contains(&plane));
    let state = world.state();
    let found = state.workload(&format!("open-{plane}").parse().unwrap());
    found.unwrap().addresses.clone()
}

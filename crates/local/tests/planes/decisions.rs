//! Who may call whom is decided alike: by every caller's data plane, for every callee's.

use std::net::IpAddr;

use crate::ask::{ENDED, echo, status};
use crate::file::{PLANES, every, place};
use crate::world::{Haste, World};

/// Caller, Service, path, status.
const REQUESTS: [(&str, &str, &str, &str); 9] = [
    ("friend", "open", "/", "200"),
    ("foe", "open", "/", "200"),
    ("friend", "strict", "/", "200"),
    // It is told of nobody whom it may not call.
    ("foe", "strict", "/", ENDED),
    ("friend", "routed", "/strict/a", "200"),
    ("foe", "routed", "/strict/a", "403"),
    ("foe", "routed", "/strict", "403"),
    ("foe", "routed", "/strictly", "200"),
    ("foe", "routed", "/", "200"),
];

/// Caller, Service, what comes back on a connection whose bytes nobody reads.
const STREAMS: [(&str, &str, &str); 4] = [
    ("friend", "open", "ping"),
    ("foe", "open", "ping"),
    ("friend", "strict", "ping"),
    ("foe", "strict", ENDED),
];

#[test]
fn who_may_call_whom_is_the_same_on_every_data_plane() {
    let Some(world) = World::with_envoy(Haste::default()) else {
        return;
    };
    world.up(&every(&world));
    let mut wrong = Vec::new();
    for [caller_plane, plane] in pairs() {
        let asked = |caller: &str, ask: &(dyn Fn() -> String + Sync)| {
            world.inside(&format!("{caller}-{caller_plane}"), ask)
        };
        for (caller, callee, path, expected) in REQUESTS {
            for address in world.virtual_addresses(place(callee, plane)) {
                let found = asked(caller, &|| status(address, 80, path));
                let what = format!("{caller}-{caller_plane} → {callee}-{plane}{path} ({address})");
                note(&mut wrong, &what, &found, expected);
            }
        }
        for (caller, callee, expected) in STREAMS {
            let [address, _] = world.virtual_addresses(place(callee, plane));
            let found = asked(caller, &|| echo(address, 90));
            let what = format!("{caller}-{caller_plane} → {callee}-{plane}, tcp");
            note(&mut wrong, &what, &found, expected);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    refuses_nothing(&world);
}

/// In plaintext, from this machine's own network, at the instances' own addresses.
#[test]
fn strangers_are_let_in_where_everybody_is_and_nowhere_else() {
    let Some(world) = World::with_envoy(Haste::default()) else {
        return;
    };
    world.up(&every(&world));
    let mut wrong = Vec::new();
    for plane in PLANES {
        for (callee, [request, bytes]) in [("open", ["200", "ping"]), ("strict", [ENDED, ENDED])] {
            for address in addresses(&world, &format!("{callee}-{plane}")) {
                let what = format!("{callee}-{plane} ({address})");
                note(&mut wrong, &what, &status(address, 8080, "/"), request);
                note(&mut wrong, &(what + ", tcp"), &echo(address, 9090), bytes);
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn addresses(world: &World, workload: &str) -> Vec<IpAddr> {
    let state = world.state();
    let found = state.workload(&workload.parse().unwrap());
    found.unwrap().addresses.clone()
}

fn note(wrong: &mut Vec<String>, what: &str, found: &str, expected: &str) {
    if found != expected {
        wrong.push(format!("{what}: {found}, not {expected}"));
    }
}

/// Callers' data plane with callees'.
pub(crate) fn pairs() -> impl Iterator<Item = [&'static str; 2]> {
    let with = |caller| PLANES.map(|callee| [caller, callee]);
    PLANES.into_iter().flat_map(with)
}

/// Nobody has refused anything of what the control plane says.
#[track_caller]
pub(crate) fn refuses_nothing(world: &World) {
    let refused = world.control_count("leno_control_responses_nacked_total", "");
    let page = || world.control_page("/proxies").unwrap_or_default();
    assert_eq!(refused, 0, "{}", page());
}

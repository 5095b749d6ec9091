//! What an application has no right to, each thing tried for real: its sidecar's secrets and life,
//! the mesh's files and keys, the rules, the sidecar's user and ports.

use intercept::{Backend, Policy};
use local::state::State;

use crate::world::{Outcomes, World, address, find, gateway, idle, kill, server, service};

fn up(name: &str) -> Option<(World, State)> {
    let world = World::make(name)?;
    let state = world.up("mode: strict", &[idle("app"), idle("other")].concat());
    Some((world, state))
}

fn sidecar(state: &State, workload: &str) -> String {
    find(state, workload)
        .sidecar
        .process
        .unwrap()
        .pid
        .to_string()
}

/// Whether that is how somebody without the right is refused.
fn is_refused(came: &str) -> bool {
    let words = ["EPERM", "EACCES", "permitted", "denied", "you must be root"];
    words.iter().any(|word| came.contains(word))
}

#[track_caller]
fn check_all(came: &Outcomes, count: usize, holds: impl Fn(&str) -> bool) {
    assert_eq!(came.len(), count, "{came:#?}");
    let wrong: Vec<_> = came.iter().filter(|(_, came)| !holds(came)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn an_application_reads_neither_its_sidecars_memory_nor_anybodys_secrets() {
    let Some((world, state)) = up("secrets") else {
        return;
    };
    let (process, runtime) = (sidecar(&state, "app"), world.runtime(""));
    let tries = [
        "read",
        &process,
        runtime.to_str().unwrap(),
        "app-0",
        "other-0",
    ];
    check_all(&world.tool("app", &tries), 26, is_refused);
    // They are there to be read: root reads them.
}

#[test]
fn an_application_changes_nothing_of_the_mesh_and_becomes_nobody_else() {
    let Some((world, state)) = up("rights") else {
        return;
    };
    let (process, runtime) = (sidecar(&state, "app"), world.runtime(""));
    let namespace = find(&state, "other").netns.file_name().unwrap();
    let (runtime, namespace) = (runtime.to_str().unwrap(), namespace.to_str().unwrap());
    let mut came = world.tool("app", &["act", &process, runtime, "app-0", namespace]);
    // What cannot be tried here for want of a program or a number inside is refused by that.
    let is_odd = |came: &str| {
        ["missing", "Invalid argument", "not mounted"]
            .iter()
            .any(|word| came.contains(word))
    };
    check_all(&came, 45, |came| is_refused(came) || is_odd(came));
    came.retain(|_, came| !is_refused(came));
    println!("refused in other words: {came:#?}");
    // Nothing has changed, and nobody has died.
    assert_eq!(sidecar(&world.state(), "app"), process);
    assert!(find(&state, "app").sidecar.process.unwrap().is_alive());
}

#[test]
fn an_application_reaches_no_sidecars_pages_and_takes_no_port_of_its_own() {
    let Some((world, state)) = up("pages") else {
        return;
    };
    let other = address(&state, "other", false).to_string();
    let pages = ["127.0.0.1", "::1", &other].map(|host| match host.contains(':') {
        true => format!("http://[{host}]:15000/certs"),
        false => format!("http://{host}:15000/certs"),
    });
    let mut tries = vec!["get"];
    tries.extend(pages.iter().map(String::as_str));
    let is_closed = |came: &str| came == "ECONNREFUSED" || came == "ECONNRESET";
    check_all(&world.tool("app", &tries), pages.len(), is_closed);
    let taken = world.tool("app", &["bind", "15001", "15003", "15010"]);
    check_all(&taken, 9, |came| came == "EADDRINUSE");
    assert_eq!(
        world.certificates("app")["id"],
        "spiffe://cluster.local/ns/default/sa/app"
    );
}

#[test]
fn ports_that_an_application_takes_while_its_sidecar_is_gone_are_of_no_use() {
    let Some(world) = World::make("squat") else {
        return;
    };
    let resources = [
        server(
            "app",
            &["8080:web"],
            ", ports: [{name: http, port: 8080}], mode: strict",
        ),
        idle("caller"),
        service("app", "app", "{port: 80, targetPort: 8080}"),
        crate::world::policy("app", "caller"),
    ];
    let state = world.up("mode: permissive", &resources.concat());
    for backend in [Backend::Nft, Backend::Iptables] {
        world.rule("app", &Policy::default(), backend);
        world.eventually_gets("caller", "http://app/", "200 app");
        let mut squatter = world.tool_beside("app", &["squat", "15001", "15003"]);
        kill(find(&world.state(), "app").sidecar.process.unwrap());
        let taken = [squatter.next(), squatter.next()].concat();
        let is_taken = |port: &str| taken.contains(&format!("{port}\tdone\n"));
        assert!(is_taken("15001") && is_taken("15003"), "{taken}");
        check_unheard(&world, &state);
        drop(squatter);
    }
    world.eventually_gets("caller", "http://app/", "200 app");
}

/// A strict workload that answers strangers, or is all that it calls itself.
#[track_caller]
fn check_unheard(world: &World, state: &State) {
    let is_heard = |came: &String| came.contains("squatter");
    let mut outside = vec!["listen_for".to_owned()];
    let mut inside = outside.clone();
    for is_ipv6 in [false, true] {
        for port in ["8080", "9999", "15003"] {
            outside.extend([address(state, "app", is_ipv6).to_string(), port.into()]);
        }
        inside.extend([gateway(state, is_ipv6).to_string(), "9999".into()]);
    }
    let [outside, inside] = [&outside, &inside].map(|args| words(args));
    let found = [world.tool_outside(&outside), world.tool("app", &inside)];
    assert_eq!((found[0].len(), found[1].len()), (6, 2));
    assert!(
        !found.iter().flat_map(Outcomes::values).any(is_heard),
        "{found:?}"
    );
}

fn words(args: &[String]) -> Vec<&str> {
    args.iter().map(String::as_str).collect()
}

//! Peers that mean ill: whatever they send, the control plane stays as it is, and others are
//! served. What they make it hold is measured from outside, by the pages of memory it has. With
//! `LENO_SOAK` set they send 100,000 of everything.

mod attack;
mod dice;
mod frames;
mod messages;
mod witness;

use std::sync::Arc;

use http::HeaderMap;
use tokio::task::JoinSet;
use xds::delta;
use xds::kind::Kind;
use xds::proto::discovery::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};

use crate::sidecar::{Sidecar, connect, enrol, member};
use crate::world::World;
use attack::{ATTACKS, Attacker, Door, Sort};
use messages::good;
use witness::Witness;

/// Of each attack, and in a soak.
const COUNT: usize = 160;
const COUNT_SOAK: usize = 100_000;
/// One part in so many comes before anything is measured.
const WARM_UP: usize = 10;
/// At the same time.
const ATTACKERS: usize = 8;
/// Of one attacker: a workload may ask for a few certificates at once, and then has to wait.
const WORKLOADS: usize = 3;
const WORKLOADS_SOAK: usize = 25;
/// What the control plane may grow by under all of it.
const GROWTH_BYTES: u64 = 4 << 20;
/// What names without end may make it hold.
const NAMES_BYTES: u64 = 24 << 20;

fn is_soak() -> bool {
    std::env::var_os("LENO_SOAK").is_some()
}

fn resident_bytes(world: &World) -> u64 {
    let path = format!("/proc/{}/statm", world.pid());
    let statm = std::fs::read_to_string(path).unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}

/// Workloads `mean0` and so on.
async fn add_workloads(world: &World, count: usize) {
    let one = |number| {
        let kind = "apiVersion: leno.dev/v1alpha1\nkind: Workload";
        let name = format!("mean{number}");
        format!("{kind}\nmetadata: {{name: {name}}}\nspec: {{serviceAccount: {name}}}\n---\n")
    };
    world.write("mean.yaml", &(0..count).map(one).collect::<String>());
    let last = format!("default/mean{}", count - 1);
    world
        .wait("/mesh", |mesh| mesh["workloads"].get(&last).is_some())
        .await;
}

async fn attackers(world: &Arc<World>, workloads: usize) -> Vec<Attacker> {
    add_workloads(world, workloads * ATTACKERS).await;
    let mut attackers = Vec::new();
    for number in 0..ATTACKERS {
        let of_it = number * workloads..(number + 1) * workloads;
        let names = of_it.map(|number| format!("mean{number}")).collect();
        attackers.push(Attacker::new(world, number as u64, names).await);
    }
    attackers
}

/// `count` things by all of them together.
async fn attack(attackers: Vec<Attacker>, door: Door, sort: Sort, count: usize) -> Vec<Attacker> {
    let mut tasks = JoinSet::new();
    for mut attacker in attackers {
        tasks.spawn(async move {
            attacker.attack(door, sort, count.div_ceil(ATTACKERS)).await;
            attacker
        });
    }
    tasks.join_all().await
}

/// What the control plane has in memory when only the witness is there.
async fn resident_at_rest(world: &World) -> u64 {
    while world.metric("leno_control_connections_active").await != 1 {}
    resident_bytes(world)
}

#[tokio::test]
async fn whatever_is_thrown_at_it_others_are_served_and_it_stays_as_it_is() {
    let (count, workloads) = match is_soak() {
        true => (COUNT_SOAK, WORKLOADS_SOAK),
        false => (COUNT, WORKLOADS),
    };
    let world = Arc::new(World::new());
    let mut attackers = Box::pin(attackers(&world, workloads)).await;
    let witness = Box::pin(Witness::start(&world)).await;
    let mut before = 0;
    for count in [count / WARM_UP, count - count / WARM_UP] {
        before = resident_at_rest(&world).await;
        for (door, sort) in ATTACKS {
            let served = witness.served();
            attackers = attack(attackers, door, sort, count).await;
            let meanwhile = witness.served() - served;
            witness.wait().await;
            let resident = resident_bytes(&world) >> 10;
            println!("{door:?} {sort:?}: {count}, {meanwhile} changes, {resident} KiB");
        }
    }
    let grown = resident_at_rest(&world).await.saturating_sub(before);
    witness.end().await;
    check_counters(&world, &attackers).await;
    drop(attackers);
    let log = Arc::into_inner(world).unwrap().stop();
    // A panic would be the only line that is no JSON.
    let odd = log.lines().find(|line| !line.starts_with("{\"time\":"));
    assert_eq!(odd, None);
    assert!(grown < GROWTH_BYTES, "{grown} bytes more");
}

/// What was thrown came as far as it was meant to.
async fn check_counters(world: &World, attackers: &[Attacker]) {
    let made: usize = attackers.iter().map(|one| one.connections).sum();
    let opened = world.metric("leno_control_connections_opened_total").await;
    assert!(opened >= made as u64, "{opened} of {made}");
    let (_, page) = world.page("/metrics").await;
    assert!(!page.contains("connections_refused_total{"), "{page}");
    for line in [
        "tls_handshake_failures_total{reason=\"http2\"}",
        "signatures_total{status=\"INVALID_ARGUMENT\"}",
        "signatures_total{status=\"RESOURCE_EXHAUSTED\"}",
        "signatures_total{status=\"UNAUTHENTICATED\"}",
        "streams_ended_total{status=\"INVALID_ARGUMENT\"}",
        "streams_ended_total{status=\"OK\"}",
        "streams_ended_total{status=\"UNAUTHENTICATED\"}",
    ] {
        assert!(page.contains(line), "{line} in\n{page}");
    }
    if is_soak() {
        println!("{page}");
    }
}

#[tokio::test]
async fn names_without_end_are_refused() {
    let world = World::new();
    let credentials = enrol(&world, "curl").await;
    let channel = connect(&world, member(&credentials)).await;
    let before = resident_bytes(&world);
    let (mut sender, mut receiver) = channel.bidi(delta::PATH, HeaderMap::new()).await.unwrap();
    let names = |from: u32| (from..from + 1000).map(|number| format!("{number:0200}"));
    let asking = async {
        for from in 0.. {
            let request = DeltaDiscoveryRequest {
                type_url: Kind::Endpoints.type_url().to_owned(),
                resource_names_subscribe: names(from * 1000).collect(),
                ..good("curl")
            };
            if sender.send(&request).await.is_err() {
                break;
            }
        }
    };
    let hearing = async {
        loop {
            match receiver.recv::<DeltaDiscoveryResponse>().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("it was let go on"),
                Err(error) => return error,
            }
        }
    };
    let error = tokio::select! {
        error = hearing => error,
        () = async { asking.await; std::future::pending().await } => unreachable!(),
    };
    assert!(
        error.to_string().contains("names stand for nothing"),
        "{error}"
    );
    let grown = resident_bytes(&world).saturating_sub(before);
    assert!(grown < NAMES_BYTES, "{grown} bytes more");
}

#[tokio::test]
async fn a_peer_that_does_not_read_holds_up_nobody() {
    let world = World::new();
    let (curl, hello) = (enrol(&world, "curl").await, enrol(&world, "hello").await);
    let silent = connect(&world, member(&curl)).await;
    let (mut sender, _receiver) = silent.bidi(delta::PATH, HeaderMap::new()).await.unwrap();
    sender.send(&good("curl")).await.unwrap();
    let channel = connect(&world, member(&hello)).await;
    let mut sidecar = Sidecar::new("hello");
    sidecar.connect(&channel).await.unwrap();
    for octet in 3..60 {
        let address = format!("10.77.0.{octet}");
        world.write(
            "status.yaml",
            &crate::world::STATUS.replace("10.77.0.2", &address),
        );
        let new = format!("inbound|{address}:8080");
        while !sidecar.names(Kind::Cluster).contains(&new.as_str()) {
            sidecar.step().await.unwrap();
        }
    }
}

//! What streams hear of changes, and what they do not.

mod envoy;
mod parts;
mod simulation;

use std::collections::BTreeSet;
use std::time::Instant;

use model::TrustBundle;
use prost::Message;
use xds::delta::WILDCARD;
use xds::delta::server::{Error, Stream, View};
use xds::proto::discovery::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use xds::server::Machine;

use super::*;
use crate::kinds::ServiceKey;
use crate::translate::{Reach, ServiceParts};
use parts::{cluster, common, service, workload};

/// A push with one workload that wants everything.
struct World {
    push: Push,
    mesh: Mesh,
    stream: Stream,
    reach: Reach,
    passed: u64,
}

fn key(name: &str) -> ServiceKey {
    ServiceKey::new("default", name)
}

fn web() -> WorkloadKey {
    WorkloadKey::new("default", "web")
}

fn only(names: &[&str]) -> Reach {
    Reach::Only(Arc::new(names.iter().map(|name| key(name)).collect()))
}

impl World {
    fn new(reach: &Reach) -> Self {
        let mut mesh = Mesh {
            common: common(),
            ..Mesh::default()
        };
        mesh.workloads.insert(web(), workload("web", reach));
        mesh.workloads.insert(
            WorkloadKey::new("default", "other"),
            workload("other", reach),
        );
        mesh.services.insert(key("a"), service("a", 1));
        mesh.services.insert(key("b"), service("b", 1));
        let (mut push, _) = Push::new(Instant::now());
        push.apply(&Arc::new(mesh.clone()), 0, Instant::now());
        let catalogue = push.catalogue();
        let own = catalogue.workload(&web()).unwrap();
        let stream = Stream::new(&own.sight(&catalogue, &own.reach));
        let reach = own.reach.clone();
        Self {
            push,
            mesh,
            stream,
            reach,
            passed: 0,
        }
    }

    fn apply(&mut self) -> Applied {
        let mesh = Arc::new(self.mesh.clone());
        let applied = self.push.apply(&mesh, self.passed, Instant::now());
        assert_eq!(applied.faults, [""; 0]);
        applied
    }

    fn ask(&mut self, kind: Kind, names: &[&str]) -> Vec<String> {
        let request = DeltaDiscoveryRequest {
            type_url: kind.type_url().to_owned(),
            resource_names_subscribe: names.iter().map(|name| (*name).to_owned()).collect(),
            ..DeltaDiscoveryRequest::default()
        };
        let catalogue = self.push.catalogue();
        let own = catalogue.workload(&web()).unwrap();
        let sight = own.sight(&catalogue, &self.reach);
        self.stream.on_request(&request, &sight).unwrap();
        self.told()
    }

    /// What the stream is told now, `-` for what is gone; accepted at once.
    fn told(&mut self) -> Vec<String> {
        let catalogue = self.push.catalogue();
        let own = catalogue.workload(&web()).unwrap();
        let reach = std::mem::replace(&mut self.reach, own.reach.clone());
        let sight = own.sight(&catalogue, &reach);
        self.stream.advance(&sight).unwrap();
        let mut told = Vec::new();
        while let Some(response) = self.stream.take_response(&sight) {
            let bytes = response.parts.concat();
            let message = DeltaDiscoveryResponse::decode(bytes.as_slice()).unwrap();
            told.extend(message.resources.into_iter().map(|one| one.name));
            told.extend(
                message
                    .removed_resources
                    .iter()
                    .map(|name| format!("-{name}")),
            );
            let ack = DeltaDiscoveryRequest {
                type_url: message.type_url,
                response_nonce: message.nonce,
                ..DeltaDiscoveryRequest::default()
            };
            self.stream.on_request(&ack, &sight).unwrap();
        }
        told
    }
}

const NOTHING: [&str; 0] = [];

#[test]
fn a_sidecar_is_told_its_own_what_all_are_told_and_what_it_may_call() {
    for (reach, services) in [
        (Reach::All, vec!["a", "b"]),
        (only(&["b"]), vec!["b"]),
        (only(&[]), vec![]),
    ] {
        let mut world = World::new(&reach);
        let told: BTreeSet<_> = world.ask(Kind::Cluster, &[WILDCARD]).into_iter().collect();
        let own = ["passthrough", "inbound|web"]
            .into_iter()
            .map(str::to_owned);
        let services = services.into_iter().map(|name| format!("outbound|{name}"));
        assert_eq!(told, own.chain(services).collect());
    }
}

#[test]
fn what_may_not_be_called_does_not_exist() {
    let mut world = World::new(&only(&["b"]));
    let names = ["outbound|a", "outbound|b", "inbound|other", "inbound|web"];
    let told = world.ask(Kind::Cluster, &names);
    assert_eq!(
        told,
        ["inbound|web", "outbound|b", "-inbound|other", "-outbound|a"]
    );
    // And it is as silent about changes of it, and about its end.
    world.mesh.services.insert(key("a"), service("a", 2));
    world.apply();
    assert_eq!(world.told(), NOTHING);
    world.mesh.services.remove(&key("a"));
    world.apply();
    assert_eq!(world.told(), NOTHING);
}

#[test]
fn a_change_of_endpoints_is_nothing_else() {
    let mut world = World::new(&Reach::All);
    for kind in Kind::ALL {
        world.ask(kind, &[WILDCARD]);
    }
    world.mesh.services.insert(key("a"), service("a", 2));
    assert_eq!(world.apply().changes, 1);
    assert_eq!(world.told(), ["outbound|a"]);
    assert_eq!(world.apply().changes, 0, "nothing is new");
    // Another value that says the same.
    world.mesh.services.insert(key("a"), service("a", 2));
    assert_eq!(world.apply().changes, 0);
}

#[test]
fn a_reach_that_changes_shows_and_hides() {
    let mut world = World::new(&only(&["b"]));
    world.ask(Kind::Cluster, &[WILDCARD]);
    world
        .mesh
        .workloads
        .insert(web(), workload("web", &only(&["a"])));
    world.apply();
    assert_eq!(world.told(), ["outbound|a", "-outbound|b"]);
    // Who may call everything learns endpoints at first use, so that each cluster is another one.
    world
        .mesh
        .workloads
        .insert(web(), workload("web", &Reach::All));
    world.apply();
    assert_eq!(world.told(), ["outbound|a", "outbound|b"]);
}

#[test]
fn a_resource_that_two_services_need_stays_until_both_are_gone() {
    let mut world = World::new(&only(&["b"]));
    world.ask(Kind::Cluster, &[WILDCARD]);
    // Routes of `b` lead to `a`, which may not be called by itself.
    let mut b = ServiceParts::clone(&service("b", 1));
    b.clusters.push(cluster("outbound|a", 1));
    world.mesh.services.insert(key("b"), Arc::new(b));
    world.apply();
    assert_eq!(world.told(), ["outbound|a"]);
    world.mesh.services.remove(&key("a"));
    world.apply();
    assert_eq!(world.told(), NOTHING, "it is still what `b` needs");
    world.mesh.services.insert(key("b"), service("b", 1));
    world.apply();
    assert_eq!(world.told(), ["-outbound|a"]);
}

#[test]
fn versions_outlive_the_process() {
    let versions = || {
        let world = World::new(&Reach::All);
        let catalogue = world.push.catalogue();
        let own = Arc::clone(catalogue.workload(&web()).unwrap());
        let told = Kind::ALL.map(|kind| {
            let told = own.told(&catalogue, kind);
            told.map(|entry| (entry.name.clone(), entry.version.clone()))
                .collect::<Vec<_>>()
        });
        told.concat()
    };
    assert_eq!(versions(), versions());
    assert_eq!(versions().len(), 14);
}

#[test]
fn a_trust_bundle_is_told_under_its_number() {
    let mut world = World::new(&Reach::All);
    let mut bundle = TrustBundle {
        name: "ROOTCA".to_owned(),
        authorities: parts::AUTHORITY.to_owned(),
        revocations: String::new(),
    };
    assert_eq!(
        world
            .push
            .apply_bundle((&bundle, &parts::roots(1, 1, 1)), 1, 0)
            .changes,
        2
    );
    assert_eq!(world.ask(Kind::Secret, &["ROOTCA"]), ["ROOTCA"]);
    assert_eq!(world.push.catalogue().bundle, 1);
    assert_eq!(
        world
            .push
            .apply_bundle((&bundle, &parts::roots(1, 1, 1)), 1, 0)
            .changes,
        0
    );
    assert_eq!(
        world
            .push
            .apply_bundle((&bundle, &parts::roots(1, 1, 1)), 2, 0)
            .changes,
        1
    );
    assert_eq!(world.told(), NOTHING);
    bundle.authorities = parts::AUTHORITY.repeat(2);
    world
        .push
        .apply_bundle((&bundle, &parts::roots(1, 1, 1)), 3, 0);
    assert_eq!(world.told(), ["ROOTCA"]);
}

#[test]
fn what_all_have_passed_is_forgotten_and_who_has_not_begins_anew() {
    let mut world = World::new(&Reach::All);
    world.ask(Kind::Cluster, &[WILDCARD]);
    let catalogue = world.push.catalogue();
    let late = Stream::new(
        &catalogue
            .workload(&web())
            .unwrap()
            .sight(&catalogue, &Reach::All),
    );
    world.mesh.services.remove(&key("a"));
    world.apply();
    assert_eq!(world.told(), ["-outbound|a"]);
    let kinds = 4;
    assert_eq!(world.push.catalogue().tombstones(), kinds);
    world.passed = world.stream.generation();
    world.mesh.services.insert(key("c"), service("c", 1));
    world.apply();
    assert_eq!(world.push.catalogue().tombstones(), 0);
    assert_eq!(world.told(), ["outbound|c"]);
    let (catalogue, mut late) = (world.push.catalogue(), late);
    let sight = catalogue
        .workload(&web())
        .unwrap()
        .sight(&catalogue, &Reach::All);
    assert_eq!(late.advance(&sight), Err(Error::Behind));
}

#[test]
fn a_workload_that_came_back_is_another_one() {
    let mut world = World::new(&Reach::All);
    let own = world.mesh.workloads.remove(&web()).unwrap();
    world.apply();
    assert!(world.push.catalogue().workload(&web()).is_none());
    world.mesh.workloads.insert(web(), own);
    world.apply();
    let catalogue = world.push.catalogue();
    let sight = catalogue
        .workload(&web())
        .unwrap()
        .sight(&catalogue, &Reach::All);
    assert_eq!(world.stream.advance(&sight), Err(Error::Behind));
    assert_eq!(sight.generation(), catalogue.generation);
}

#[test]
fn what_cannot_be_encoded_is_reported_and_kept_as_it_was() {
    let mut world = World::new(&Reach::All);
    world.ask(Kind::Cluster, &[WILDCARD]);
    let mut broken = ServiceParts::clone(&service("a", 3));
    broken.clusters[0].endpoints[0].identities = vec!["nobody".to_owned()];
    world.mesh.services.insert(key("a"), Arc::new(broken));
    let mesh = Arc::new(world.mesh.clone());
    let applied = world.push.apply(&mesh, 0, Instant::now());
    assert!(
        applied.faults[0].contains("outbound|a"),
        "{:?}",
        applied.faults
    );
    assert_eq!(world.told(), NOTHING);
}

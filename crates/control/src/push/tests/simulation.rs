//! A mesh that changes at random, with clients that lag behind, go and come back: in the end each
//! has exactly what the mesh says about it, and never had what it was not to see.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use model::{Cluster, Discovery, Listener};
use prost::Message;
use xds::delta::WILDCARD;
use xds::delta::client::{Client, Update};
use xds::delta::server::Stream;
use xds::kind::Kind;
use xds::proto::discovery::{DeltaDiscoveryRequest, DeltaDiscoveryResponse, Node};
use xds::resource::{self, Resource};
use xds::server::Machine;

use super::super::{Catalogue, Push};
use super::parts::{cluster, common, listener, service, workload};
use crate::kinds::{ServiceKey, WorkloadKey};
use crate::translate::{Mesh, Reach, ServiceParts};

const SEEDS: u64 = 60;
const TURNS: usize = 300;
const SERVICES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const WORKLOADS: [&str; 3] = ["x", "y", "z"];

/// `SplitMix64`: the run follows from the seed alone.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ mixed >> 31) % bound as u64).unwrap()
    }

    fn pick(&mut self, of: &[&'static str]) -> &'static str {
        of[self.below(of.len())]
    }

    fn some(&mut self, of: &[&'static str]) -> Vec<&'static str> {
        of.iter().copied().filter(|_| self.below(2) == 0).collect()
    }
}

type Has = BTreeMap<(Kind, String), Bytes>;

struct World {
    dice: Dice,
    push: Push,
    mesh: Mesh,
    proxies: Vec<Proxy>,
}

/// A sidecar, connected or not.
struct Proxy {
    key: WorkloadKey,
    client: Client,
    has: Has,
    /// Names of all that it ever was to see.
    seen: BTreeSet<(Kind, String)>,
    wire: Option<Wire>,
}

struct Wire {
    stream: Stream,
    reach: Reach,
    up: VecDeque<DeltaDiscoveryRequest>,
    down: VecDeque<Vec<u8>>,
}

fn key(name: &str) -> ServiceKey {
    ServiceKey::new("default", name)
}

impl World {
    fn new(seed: u64) -> Self {
        let (push, _) = Push::new(Instant::now());
        let mesh = Mesh {
            common: common(),
            ..Mesh::default()
        };
        let proxies = WORKLOADS.map(Proxy::new).into();
        Self {
            dice: Dice(seed),
            push,
            mesh,
            proxies,
        }
    }

    /// The mesh changes in one way or several, and is pushed.
    fn disturb(&mut self) {
        for _ in 0..=self.dice.below(3) {
            let name = self.dice.pick(&SERVICES);
            match self.dice.below(10) {
                0..=2 => self.put(name),
                3 => drop(self.mesh.services.remove(&key(name))),
                4 => self.put_with_guests(name),
                5..=7 => self.put_workload(),
                _ => {
                    let name = self.dice.pick(&WORKLOADS);
                    self.mesh
                        .workloads
                        .remove(&WorkloadKey::new("default", name));
                }
            }
        }
        self.apply();
    }

    fn put(&mut self, name: &str) {
        let endpoints = u16::try_from(self.dice.below(3)).unwrap();
        self.mesh
            .services
            .insert(key(name), service(name, endpoints));
    }

    /// A service whose routes lead to clusters of others, which say the same about them.
    fn put_with_guests(&mut self, name: &str) {
        let mut parts = ServiceParts::clone(&service(name, 1));
        let extra = format!("outbound|{name}|extra");
        parts.listeners.push(listener(&extra, "shared"));
        for shared in self.dice.some(&["shared", "shared2"]) {
            parts.clusters.push(cluster(shared, 1));
        }
        self.mesh.services.insert(key(name), Arc::new(parts));
    }

    fn put_workload(&mut self) {
        let name = self.dice.pick(&WORKLOADS);
        let reach = match self.dice.below(3) {
            0 => Reach::All,
            _ => {
                let keys = self.dice.some(&SERVICES);
                Reach::Only(Arc::new(keys.into_iter().map(key).collect()))
            }
        };
        let key = WorkloadKey::new("default", name);
        self.mesh.workloads.insert(key, workload(name, &reach));
    }

    fn apply(&mut self) {
        let passed = self.proxies.iter().filter_map(|proxy| proxy.wire.as_ref());
        let passed = passed.map(|wire| wire.stream.generation()).min();
        let passed = passed.unwrap_or_else(|| self.push.catalogue().generation);
        let applied = self
            .push
            .apply(&Arc::new(self.mesh.clone()), passed, Instant::now());
        assert_eq!(applied.faults, [""; 0]);
        for proxy in &mut self.proxies {
            let visible = expected(&self.mesh, &proxy.key).unwrap_or_default();
            proxy.seen.extend(visible.into_keys());
        }
    }

    /// Another process takes over.
    fn restart(&mut self) {
        self.proxies.iter_mut().for_each(Proxy::disconnect);
        (self.push, _) = Push::new(Instant::now());
        self.apply();
    }

    fn turn(&mut self) {
        let at = self.dice.below(self.proxies.len());
        let (catalogue, what) = (self.push.catalogue(), self.dice.below(60));
        match (&mut self.proxies[at], what) {
            (_, 0..6) => self.disturb(),
            (proxy, 6) => proxy.disconnect(),
            (_, 7) if self.dice.below(5) == 0 => self.restart(),
            (proxy, what) => drop(proxy.step(&catalogue, what)),
        }
    }

    fn rest(&mut self) {
        let catalogue = self.push.catalogue();
        for proxy in &mut self.proxies {
            while (0..4).any(|what| proxy.step(&catalogue, what)) {}
        }
    }

    fn check(&self, seed: u64) {
        for proxy in &self.proxies {
            match expected(&self.mesh, &proxy.key) {
                Some(expected) => {
                    let differs =
                        |name: &&(Kind, String)| expected.get(*name) != proxy.has.get(*name);
                    let names: BTreeSet<_> = expected.keys().chain(proxy.has.keys()).collect();
                    let wrong: Vec<_> = names.into_iter().filter(differs).collect();
                    assert!(
                        wrong.is_empty(),
                        "seed {seed}: {} has wrong {wrong:?}",
                        proxy.key
                    );
                }
                None => assert!(proxy.wire.is_none(), "seed {seed} {}", proxy.key),
            }
        }
        // All have passed, so nothing needs to be remembered after the next change.
        let passed = self.push.catalogue().generation;
        let streams = self.proxies.iter().filter_map(|proxy| proxy.wire.as_ref());
        assert!(
            streams
                .into_iter()
                .all(|wire| wire.stream.generation() == passed)
        );
    }
}

impl Proxy {
    fn new(name: &str) -> Self {
        let mut client = Client::new(Node::default());
        for kind in Kind::ALL {
            client.subscribe(kind, [WILDCARD]);
        }
        Self {
            key: WorkloadKey::new("default", name),
            client,
            has: Has::new(),
            seen: BTreeSet::new(),
            wire: None,
        }
    }

    /// Does what there is to do in one place. Whether there was anything.
    fn step(&mut self, catalogue: &Catalogue, what: usize) -> bool {
        if self.wire.is_none() {
            return self.connect(catalogue);
        }
        match what % 4 {
            0 => self.speak(),
            1 => self.hear(catalogue),
            2 => self.tell(catalogue),
            _ => self.listen(),
        }
    }

    fn connect(&mut self, catalogue: &Catalogue) -> bool {
        let Some(own) = catalogue.workload(&self.key) else {
            return false;
        };
        self.wire = Some(Wire {
            stream: Stream::new(&own.sight(catalogue, &own.reach)),
            reach: own.reach.clone(),
            up: VecDeque::new(),
            down: VecDeque::new(),
        });
        self.client.connected();
        true
    }

    fn disconnect(&mut self) {
        self.wire = None;
        self.client.disconnected();
    }

    fn speak(&mut self) -> bool {
        let request = self.client.take_request();
        let has_spoken = request.is_some();
        self.wire.as_mut().unwrap().up.extend(request);
        has_spoken
    }

    fn hear(&mut self, catalogue: &Catalogue) -> bool {
        let wire = self.wire.as_mut().unwrap();
        let Some(request) = wire.up.pop_front() else {
            return false;
        };
        let Some(own) = catalogue.workload(&self.key) else {
            self.disconnect();
            return true;
        };
        let sight = own.sight(catalogue, &wire.reach);
        let heard = wire.stream.on_request(&request, &sight);
        wire.reach = own.reach.clone();
        if heard.is_err() {
            self.disconnect();
        }
        true
    }

    fn tell(&mut self, catalogue: &Catalogue) -> bool {
        let wire = self.wire.as_mut().unwrap();
        let Some(own) = catalogue.workload(&self.key) else {
            self.disconnect();
            return true;
        };
        let reach = std::mem::replace(&mut wire.reach, own.reach.clone());
        let sight = own.sight(catalogue, &reach);
        let is_news = wire.stream.generation() != catalogue.generation;
        if wire.stream.advance(&sight).is_err() {
            self.disconnect();
            return true;
        }
        let response = wire.stream.take_response(&sight);
        let has_told = response.is_some();
        wire.down
            .extend(response.map(|response| response.parts.concat()));
        has_told || is_news
    }

    fn listen(&mut self) -> bool {
        let Some(bytes) = self.wire.as_mut().unwrap().down.pop_front() else {
            return false;
        };
        let response = DeltaDiscoveryResponse::decode(bytes.as_slice()).unwrap();
        let update = self.client.on_response(response).unwrap();
        self.apply(&update);
        self.client.accept(&update);
        true
    }

    fn apply(&mut self, update: &Update) {
        let added = update.added.iter().map(|one| &one.name);
        for name in added.chain(&update.removed) {
            let name = (update.kind, name.clone());
            assert!(
                self.seen.contains(&name),
                "{} is told of {name:?}",
                self.key
            );
        }
        for one in &update.added {
            self.has
                .insert((update.kind, one.name.clone()), one.value.clone());
        }
        for name in &update.removed {
            self.has.remove(&(update.kind, name.clone()));
        }
    }
}

/// What a workload's sidecar has to have, by the mesh alone.
fn expected(mesh: &Mesh, key: &WorkloadKey) -> Option<Has> {
    let own = mesh.workloads.get(key)?;
    let (services, form) = match &own.reach {
        Reach::All => (
            mesh.services.values().collect::<Vec<_>>(),
            Discovery::OnDemand,
        ),
        Reach::Only(keys) => {
            let services = mesh.services.iter().filter(|(key, _)| keys.contains(key));
            (services.map(|(_, parts)| parts).collect(), Discovery::Eager)
        }
    };
    let listeners = services.iter().flat_map(|parts| &parts.listeners);
    let listeners = listeners
        .chain(&own.listeners)
        .chain(&mesh.common.listeners);
    let clusters = services.iter().flat_map(|parts| &parts.clusters);
    let clusters = clusters.chain(&own.clusters).chain(&mesh.common.clusters);
    let listeners: BTreeSet<_> = listeners.flat_map(of_listener).collect();
    let clusters: BTreeSet<_> = clusters
        .flat_map(|cluster| of_cluster(cluster, form))
        .collect();
    Some(listeners.into_iter().chain(clusters).collect())
}

fn of_listener(listener: &Listener) -> [((Kind, String), Bytes); 2] {
    let routes = Resource::Routes {
        listener: listener.name.clone(),
        routes: listener.routes.clone(),
    };
    [Resource::Listener(listener.clone()), routes].map(|one| encoded(&one))
}

fn of_cluster(cluster: &Cluster, form: Discovery) -> Vec<((Kind, String), Bytes)> {
    if cluster.discovery == Discovery::Static {
        return vec![encoded(&Resource::Cluster(cluster.clone()))];
    }
    let told = Cluster {
        discovery: form,
        ..cluster.clone()
    };
    let endpoints = Resource::Endpoints {
        cluster: cluster.name.clone(),
        endpoints: cluster.endpoints.clone(),
    };
    vec![encoded(&Resource::Cluster(told)), encoded(&endpoints)]
}

fn encoded(resource: &Resource) -> ((Kind, String), Bytes) {
    let name = (resource.kind(), resource.name().to_owned());
    (name, resource::encode(resource).unwrap())
}

#[test]
fn each_sidecar_ends_with_what_the_mesh_says_about_it() {
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        for _ in 0..TURNS {
            world.turn();
        }
        world.rest();
        world.check(seed);
    }
}

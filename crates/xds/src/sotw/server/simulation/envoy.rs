//! A client that makes a changed cluster anew, answers for clusters when it has their endpoints,
//! names what listeners and clusters refer to, and says nothing twice. The catalogue changes as a
//! mesh does: what is referred to is there.

use super::*;

/// What the client knows. Routes lead to one cluster each, which their state names.
#[derive(Default)]
struct Envoy {
    /// In use.
    clusters: BTreeMap<String, Bytes>,
    /// Made anew, and waiting for endpoints.
    warming: BTreeMap<String, Bytes>,
    listeners: BTreeSet<String>,
    routes: BTreeMap<String, String>,
    /// Of the last response of each kind.
    nonces: [String; Kind::COUNT],
    /// Whether the answer to the last clusters is held back.
    is_paused: bool,
    up: VecDeque<DiscoveryRequest>,
}

struct Mesh {
    dice: Dice,
    catalogue: Catalogue,
    /// Service → the one that its routes lead to.
    services: BTreeMap<&'static str, &'static str>,
    envoy: Envoy,
    wire: Wire,
}

impl Envoy {
    fn ask(&mut self, kind: Kind) {
        let names: Vec<_> = match kind {
            Kind::Endpoints => {
                let clusters = self.clusters.keys().chain(self.warming.keys());
                clusters
                    .cloned()
                    .collect::<BTreeSet<_>>()
                    .into_iter()
                    .collect()
            }
            Kind::Routes => self.listeners.iter().cloned().collect(),
            Kind::Secret | Kind::Cluster | Kind::Listener => Vec::new(),
        };
        self.up.push_back(DiscoveryRequest {
            type_url: kind.type_url().to_owned(),
            resource_names: names,
            response_nonce: self.nonces[kind.index()].clone(),
            ..DiscoveryRequest::default()
        });
    }

    fn hear(&mut self, bytes: &[u8]) {
        let message = DiscoveryResponse::decode(bytes).unwrap();
        let kind = Kind::find(&message.type_url).unwrap();
        self.nonces[kind.index()] = message.nonce;
        let values = message.resources.into_iter().map(|any| any.value);
        let told: BTreeMap<_, _> = values
            .map(|value| (Body::decode(value.clone()).unwrap(), value))
            .map(|(body, value)| (body.name, (body.state, value)))
            .collect();
        match kind {
            Kind::Cluster => return self.on_clusters(told),
            Kind::Endpoints => self.on_endpoints(&told),
            Kind::Listener => {
                self.listeners = told.into_keys().collect();
                let listeners = &self.listeners;
                self.routes.retain(|name, _| listeners.contains(name));
                self.ask(Kind::Routes);
            }
            Kind::Routes => {
                let routes = told.into_iter().map(|(name, (to, _))| (name, to));
                let routes = routes.filter(|(name, _)| self.listeners.contains(name));
                self.routes.extend(routes);
            }
            Kind::Secret => {}
        }
        self.ask(kind);
    }

    fn on_clusters(&mut self, told: BTreeMap<String, (String, Bytes)>) {
        let before: BTreeSet<_> = self
            .clusters
            .keys()
            .chain(self.warming.keys())
            .cloned()
            .collect();
        self.clusters.retain(|name, _| told.contains_key(name));
        self.warming.retain(|name, _| told.contains_key(name));
        for (name, (_, value)) in told {
            let newest = self.warming.get(&name).or_else(|| self.clusters.get(&name));
            if newest != Some(&value) {
                self.warming.insert(name, value);
            }
        }
        let after: BTreeSet<_> = self
            .clusters
            .keys()
            .chain(self.warming.keys())
            .cloned()
            .collect();
        if before != after {
            self.ask(Kind::Endpoints);
        }
        self.is_paused = true;
        self.resume();
    }

    fn on_endpoints(&mut self, told: &BTreeMap<String, (String, Bytes)>) {
        for name in told.keys() {
            if let Some(value) = self.warming.remove(name) {
                self.clusters.insert(name.clone(), value);
            }
        }
        self.resume();
    }

    fn resume(&mut self) {
        if self.is_paused && self.warming.is_empty() {
            self.is_paused = false;
            self.ask(Kind::Cluster);
        }
    }
}

impl Mesh {
    fn new(seed: u64) -> Self {
        let catalogue = Catalogue::default();
        let wire = Wire::new(&catalogue);
        let mut envoy = Envoy::default();
        envoy.ask(Kind::Cluster);
        envoy.ask(Kind::Listener);
        Self {
            dice: Dice(seed),
            catalogue,
            services: BTreeMap::new(),
            envoy,
            wire,
        }
    }

    fn change(&mut self) {
        let name = self.dice.pick(&NAMES);
        let state = self.dice.below(100).to_string();
        let is_there = self.services.contains_key(name);
        match self.dice.below(8) {
            0..=2 if !is_there => {
                self.services.insert(name, name);
                for kind in [Kind::Cluster, Kind::Endpoints, Kind::Listener] {
                    self.catalogue.set(kind, name, body(name, &state));
                }
                self.catalogue.set(Kind::Routes, name, body(name, name));
            }
            3 if is_there => self.catalogue.set(Kind::Cluster, name, body(name, &state)),
            4 if is_there => self
                .catalogue
                .set(Kind::Endpoints, name, body(name, &state)),
            5 if is_there => {
                let all: Vec<_> = self.services.keys().copied().collect();
                let to = self.dice.pick(&all);
                self.lead(name, to);
            }
            6 if is_there => self.remove(name),
            7 => {
                let passed = self.wire.stream.generation();
                self.catalogue.purge(Some(passed));
            }
            _ => {}
        }
    }

    fn lead(&mut self, name: &'static str, to: &'static str) {
        self.services.insert(name, to);
        self.catalogue.set(Kind::Routes, name, body(name, to));
    }

    fn remove(&mut self, name: &'static str) {
        self.services.remove(name);
        let left: Vec<_> = self
            .services
            .iter()
            .map(|(from, to)| (*from, *to))
            .collect();
        for (from, _) in left.into_iter().filter(|(_, to)| *to == name) {
            self.lead(from, from);
        }
        for kind in [Kind::Cluster, Kind::Endpoints, Kind::Listener, Kind::Routes] {
            self.catalogue.remove(kind, name);
        }
    }

    /// Whether anything was left to do.
    fn step(&mut self) -> bool {
        let order = self.dice.below(4);
        (0..4).any(|turn| match (turn + order) % 4 {
            0 => {
                let request = self.envoy.up.pop_front();
                let has_spoken = request.is_some();
                self.wire.up.extend(request);
                has_spoken
            }
            1 => self
                .wire
                .listen(&self.catalogue)
                .map(Result::unwrap)
                .is_some(),
            2 => self.wire.speak(&self.catalogue).unwrap(),
            _ => {
                let bytes = self.wire.down.pop_front();
                bytes.inspect(|bytes| self.envoy.hear(bytes)).is_some()
            }
        })
    }

    fn check(&self, seed: u64) {
        for (name, to) in &self.envoy.routes {
            let is_there = self.envoy.clusters.contains_key(to);
            assert!(
                is_there,
                "seed {seed}: {name} leads to {to}, which is not there"
            );
        }
    }
}

#[test]
fn routes_never_lead_to_a_cluster_that_is_not_ready() {
    for seed in 0..SEEDS {
        let mut mesh = Mesh::new(seed);
        for _ in 0..TURNS {
            if mesh.dice.below(4) == 0 {
                mesh.change();
            } else {
                mesh.step();
            }
            mesh.check(seed);
        }
        let is_busy = (0..TURNS_OF_REST).all(|_| {
            let is_busy = mesh.step();
            mesh.check(seed);
            is_busy
        });
        assert!(!is_busy, "seed {seed}: they never come to rest");
        let (envoy, stream) = (&mesh.envoy, &mesh.wire.stream);
        let left = Kind::ALL.map(|kind| stream.progress(kind));
        let is_done = stream.is_idle() && envoy.warming.is_empty();
        assert!(is_done, "seed {seed}: {left:?} {:?}", envoy.warming);
        let routes = envoy.routes.iter();
        let routes: BTreeMap<_, _> = routes
            .map(|(from, to)| (from.as_str(), to.as_str()))
            .collect();
        assert_eq!(routes, mesh.services, "seed {seed}");
        let clusters: Vec<_> = envoy.clusters.keys().map(String::as_str).collect();
        assert!(clusters.iter().eq(mesh.services.keys()), "seed {seed}");
    }
}

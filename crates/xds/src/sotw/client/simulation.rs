//! A client and a server as others write them, with a wire between them that is cut: requests that
//! answer an older response are not read, what was sent is not sent again, versions count from one
//! after a restart. In the end the client has what it wants, and never what it refused.

use super::*;
use crate::delta::simulation::Dice;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};

const SEEDS: u64 = 400;
const TURNS: usize = 400;
/// More than any run needs to come to rest.
const TURNS_OF_REST: usize = 4000;
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
/// What a client refuses, whenever it sees it.
const POISON: &str = "poison";

type Resources = BTreeMap<(Kind, String), Bytes>;

/// What a server remembers of one kind on one stream.
#[derive(Default)]
struct Watch {
    is_open: bool,
    /// `None` for all.
    names: Option<BTreeSet<String>>,
    returned: BTreeMap<String, Bytes>,
    nonce: u64,
    /// Whether it may send: the last response is answered.
    is_free: bool,
}

struct Wire {
    watches: [Watch; Kind::COUNT],
    up: VecDeque<DiscoveryRequest>,
    down: VecDeque<DiscoveryResponse>,
}

struct World {
    dice: Dice,
    told: Resources,
    version: u64,
    client: Client,
    wanted: BTreeSet<(Kind, &'static str)>,
    /// What the client uses.
    has: Resources,
    updates: VecDeque<Update>,
    wire: Option<Wire>,
}

fn is_wanted(wanted: &BTreeSet<(Kind, &'static str)>, kind: Kind, name: &str) -> bool {
    is_whole(kind) || wanted.iter().any(|one| *one == (kind, name))
}

fn body(name: &str, state: &str) -> Bytes {
    let name = name.to_owned();
    let mut value = Named { name }.encode_to_vec();
    value.extend([0x7a, u8::try_from(state.len()).unwrap()]);
    value.extend(state.as_bytes());
    value.into()
}

fn is_poison(value: &[u8]) -> bool {
    value.ends_with(POISON.as_bytes())
}

impl World {
    fn new(seed: u64) -> Self {
        let mut client = Client::new(Node::default());
        client.subscribe(Kind::Listener, [WILDCARD]);
        client.subscribe(Kind::Cluster, [WILDCARD]);
        Self {
            dice: Dice(seed),
            told: BTreeMap::new(),
            version: 0,
            client,
            wanted: BTreeSet::new(),
            has: BTreeMap::new(),
            updates: VecDeque::new(),
            wire: None,
        }
    }

    /// Something happens that nobody could foresee.
    fn disturb(&mut self) {
        let (kind, name) = (self.dice.pick(&Kind::ALL), self.dice.pick(&NAMES));
        self.version += 1;
        match self.dice.below(20) {
            0..=4 => {
                let state = self.dice.below(100).to_string();
                self.told
                    .insert((kind, name.to_owned()), body(name, &state));
            }
            5 => {
                self.told
                    .insert((kind, name.to_owned()), body(name, POISON));
            }
            6..=7 => drop(self.told.remove(&(kind, name.to_owned()))),
            8..=12 if !is_whole(kind) => {
                self.wanted.insert((kind, name));
                self.client.subscribe(kind, [name]);
            }
            13..=14 if !is_whole(kind) => self.give_up(kind, name),
            15..=17 if !is_whole(kind) && self.wanted.contains(&(kind, name)) => {
                self.give_up(kind, name);
                self.wanted.insert((kind, name));
                self.client.subscribe(kind, [name]);
            }
            18 if self.dice.below(4) == 0 => {
                self.disconnect();
                // Another process.
                self.version = 1;
            }
            19 if self.wire.is_none() || self.dice.below(4) == 0 => self.connect(),
            _ => {}
        }
    }

    fn give_up(&mut self, kind: Kind, name: &'static str) {
        self.wanted.remove(&(kind, name));
        self.client.unsubscribe(kind, [name]);
        self.has.remove(&(kind, name.to_owned()));
    }

    fn connect(&mut self) {
        self.wire = Some(Wire {
            watches: Default::default(),
            up: VecDeque::new(),
            down: VecDeque::new(),
        });
        self.client.connected();
    }

    fn disconnect(&mut self) {
        self.wire = None;
        self.client.disconnected();
    }

    /// One of the ends does something that it has to do. Whether anything was left to do.
    fn step(&mut self) -> bool {
        let order = self.dice.below(5);
        (0..5).any(|turn| match (turn + order) % 5 {
            0 => self.client_speaks(),
            1 => self.server_listens(),
            2 => self.server_speaks(),
            3 => self.client_listens(),
            _ => self.client_applies(),
        })
    }

    fn client_speaks(&mut self) -> bool {
        let request = self.client.take_request();
        let has_spoken = request.is_some();
        if let Some(wire) = &mut self.wire {
            wire.up.extend(request);
        }
        has_spoken
    }

    fn server_listens(&mut self) -> bool {
        let wire = self.wire.as_mut();
        let Some((wire, request)) = wire.and_then(|wire| {
            let request = wire.up.pop_front()?;
            Some((wire, request))
        }) else {
            return false;
        };
        let kind = Kind::find(&request.type_url).unwrap();
        wire.watches[kind.index()].listen(request);
        true
    }

    fn server_speaks(&mut self) -> bool {
        let Some(wire) = &mut self.wire else {
            return false;
        };
        for kind in Kind::ALL {
            let watch = &mut wire.watches[kind.index()];
            let only_new = self.dice.below(2) == 0;
            if let Some(mut response) = watch.speak(kind, &self.told, only_new) {
                // Some do not wait for an answer.
                watch.is_free = self.dice.below(4) == 0;
                response.version_info = self.version.to_string();
                wire.down.push_back(response);
                return true;
            }
        }
        false
    }

    fn client_listens(&mut self) -> bool {
        let wire = self.wire.as_mut();
        let Some(response) = wire.and_then(|wire| wire.down.pop_front()) else {
            return false;
        };
        self.updates
            .push_back(self.client.on_response(response).unwrap());
        true
    }

    fn client_applies(&mut self) -> bool {
        let Some(update) = self.updates.pop_front() else {
            return false;
        };
        let poisoned = update.added.iter().filter(|one| is_poison(&one.value));
        let poisoned: BTreeSet<_> = poisoned.map(|one| one.name.clone()).collect();
        for one in &update.added {
            let is_taken = !poisoned.contains(&one.name);
            if is_taken && is_wanted(&self.wanted, update.kind, &one.name) {
                self.has
                    .insert((update.kind, one.name.clone()), one.value.clone());
            }
        }
        for name in &update.removed {
            self.has.remove(&(update.kind, name.clone()));
        }
        match poisoned.is_empty() {
            true => self.client.accept(&update),
            false => self.client.accept_but(&update, &poisoned, "poison"),
        }
        true
    }

    /// Nothing further happens; all that is under way arrives.
    fn rest(&mut self, seed: u64) {
        self.version += 1;
        for ((_, name), value) in &mut self.told {
            if is_poison(value) {
                *value = body(name, "healed");
            }
        }
        if self.wire.is_none() {
            self.connect();
        }
        let is_busy = (0..TURNS_OF_REST).all(|_| self.step());
        assert!(!is_busy, "seed {seed}: they never come to rest");
    }

    fn check(&self, seed: u64) {
        for ((kind, name), value) in &self.told {
            let has = self.has.get(&(*kind, name.clone()));
            let wants = is_wanted(&self.wanted, *kind, name);
            assert_eq!(
                has,
                Some(value).filter(|_| wants),
                "seed {seed}: {kind:?} {name}"
            );
        }
        // Whoever asks by name is not told that something is gone.
        let mut rest = self.has.keys().filter(|key| !self.told.contains_key(key));
        assert!(rest.all(|(kind, _)| !is_whole(*kind)), "seed {seed}");
        for kind in Kind::ALL {
            let known: Vec<_> = self.client.known(kind).map(|(name, _)| name).collect();
            let has = self.has.keys().filter(|(of, _)| *of == kind);
            let has: Vec<_> = has.map(|(_, name)| name.as_str()).collect();
            assert_eq!(known, has, "seed {seed}: {kind:?}");
        }
    }
}

impl Watch {
    fn listen(&mut self, request: DiscoveryRequest) {
        let nonce = match self.nonce {
            0 => String::new(),
            nonce => nonce.to_string(),
        };
        if request.response_nonce != nonce {
            return;
        }
        let names: BTreeSet<_> = request.resource_names.into_iter().collect();
        let is_wildcard = names.is_empty() && (!self.is_open || self.names.is_none());
        self.names = (!is_wildcard).then_some(names);
        if let Some(names) = &self.names {
            self.returned.retain(|name, _| names.contains(name));
        }
        (self.is_open, self.is_free) = (true, true);
    }

    fn speak(&mut self, kind: Kind, told: &Resources, only_new: bool) -> Option<DiscoveryResponse> {
        if !self.is_open || !self.is_free {
            return None;
        }
        let names = self.names.as_ref();
        let asked = told.iter().filter(|((of, name), _)| {
            *of == kind && names.is_none_or(|names| names.contains(name))
        });
        let asked: BTreeMap<_, _> = asked
            .map(|((_, name), value)| (name.clone(), value.clone()))
            .collect();
        let is_new = |name: &String, value: &Bytes| self.returned.get(name) != Some(value);
        let is_first = self.nonce == 0 && is_whole(kind);
        let went = is_whole(kind) && self.returned.keys().any(|name| !asked.contains_key(name));
        if !is_first && !went && !asked.iter().any(|(name, value)| is_new(name, value)) {
            return None;
        }
        let sent = asked.iter();
        let sent = sent.filter(|(name, value)| is_whole(kind) || !only_new || is_new(name, value));
        let resources = sent.map(|(_, value)| Any {
            type_url: kind.type_url().to_owned(),
            value: value.clone(),
        });
        let resources = resources.collect();
        self.returned = asked;
        self.nonce += 1;
        Some(DiscoveryResponse {
            type_url: kind.type_url().to_owned(),
            nonce: self.nonce.to_string(),
            resources,
            ..DiscoveryResponse::default()
        })
    }
}

#[test]
fn a_client_ends_with_what_it_wants() {
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        for _ in 0..TURNS {
            if world.dice.below(3) == 0 {
                world.disturb();
            } else {
                world.step();
            }
            let poison = world.has.values().any(|value| is_poison(value));
            assert!(!poison, "seed {seed}: refused and yet in use");
        }
        world.rest(seed);
        world.check(seed);
    }
}

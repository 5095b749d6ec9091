//! Clients and servers with a wire between them that is cut, a catalogue that changes under them,
//! and a client that refuses some of it: in the end it has what it should, in the end's state, and
//! never what it refused or was not to see.

pub(crate) mod catalogue;

use super::WILDCARD;
use super::client::{Added, Client, Update};
use super::server::{Event, Stream, View};
use crate::kind::Kind;
use crate::proto::discovery::{DeltaDiscoveryRequest, DeltaDiscoveryResponse, Node};
use crate::server::Machine;
use bytes::Bytes;
use catalogue::{Catalogue, Sight};
use prost::Message;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const SEEDS: u64 = 400;
const TURNS: usize = 400;
/// More than any run needs to come to rest.
const TURNS_OF_REST: usize = 2000;
const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
/// What a client refuses, whenever it sees it.
const POISON: &[u8] = b"poison";

/// SplitMix64: the run follows from the seed alone.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

struct World {
    dice: Dice,
    catalogue: Catalogue,
    client: Client,
    /// What the client wants, as it was told to want it.
    wanted: BTreeSet<(Kind, &'static str)>,
    /// What the client uses.
    has: BTreeMap<(Kind, String), Bytes>,
    /// Taken by the client, not applied yet.
    updates: VecDeque<Update>,
    wire: Option<Wire>,
}

/// A stream, and what is on its way.
struct Wire {
    stream: Stream,
    sight: Sight,
    up: VecDeque<DeltaDiscoveryRequest>,
    down: VecDeque<Vec<u8>>,
}

impl World {
    fn new(seed: u64) -> Self {
        let node = Node {
            id: "web.default".to_owned(),
            ..Node::default()
        };
        Self {
            dice: Dice(seed),
            catalogue: Catalogue::default(),
            client: Client::new(node),
            wanted: BTreeSet::new(),
            has: BTreeMap::new(),
            updates: VecDeque::new(),
            wire: None,
        }
    }

    /// Something happens that nobody could foresee.
    fn disturb(&mut self) {
        let (kind, name) = (self.dice.pick(&Kind::ALL), self.dice.pick(&NAMES));
        match self.dice.below(24) {
            0..=4 => {
                let number = self.dice.next();
                self.catalogue.set(kind, name, format!("{number}").into());
            }
            5 => self.catalogue.set(kind, name, Bytes::from_static(POISON)),
            6..=7 => self.catalogue.remove(kind, name),
            8 => self.catalogue.hide(kind, name),
            9 => self.catalogue.show(kind, name),
            10..=13 => self.subscribe(kind, name),
            14..=16 => self.unsubscribe(kind, name),
            17 => self.subscribe(kind, WILDCARD),
            18 => self.unsubscribe(kind, WILDCARD),
            19 => self.disconnect(),
            20 => self.connect(),
            21 => {
                // Another process: places and generations are new, versions are not.
                self.disconnect();
                self.catalogue = self.catalogue.restarted(self.dice.next() % 5);
            }
            _ => self
                .catalogue
                .purge(self.wire.as_ref().map(|wire| wire.stream.generation())),
        }
    }

    fn subscribe(&mut self, kind: Kind, name: &'static str) {
        self.wanted.insert((kind, name));
        self.client.subscribe(kind, [name]);
    }

    fn unsubscribe(&mut self, kind: Kind, name: &'static str) {
        self.wanted.remove(&(kind, name));
        self.client.unsubscribe(kind, [name]);
        let wanted = &self.wanted;
        self.has
            .retain(|(kind, name), _| wants(wanted, *kind, name));
    }

    fn connect(&mut self) {
        let sight = self.catalogue.sight(None);
        self.wire = Some(Wire {
            stream: Stream::new(&sight),
            sight,
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
        let Some(wire) = &mut self.wire else {
            return false;
        };
        let request = self.client.take_request();
        let has_spoken = request.is_some();
        wire.up.extend(request);
        has_spoken
    }

    fn server_listens(&mut self) -> bool {
        let Some(wire) = &mut self.wire else {
            return false;
        };
        let Some(request) = wire.up.pop_front() else {
            return false;
        };
        let sight = self.catalogue.sight(Some(&wire.sight));
        match wire.stream.on_request(&request, &sight) {
            Ok(event) => {
                assert_ne!(event, Event::UnknownType);
                wire.sight = sight;
            }
            Err(_) => self.disconnect(),
        }
        true
    }

    fn server_speaks(&mut self) -> bool {
        let Some(wire) = &mut self.wire else {
            return false;
        };
        let sight = self.catalogue.sight(Some(&wire.sight));
        let has_changed = sight.generation() != wire.stream.generation();
        if wire.stream.advance(&sight).is_err() {
            self.disconnect();
            return true;
        }
        let response = wire.stream.take_response(&sight);
        wire.sight = sight;
        assert_eq!(
            response.is_none(),
            !wire.stream.has_response() && response.is_none()
        );
        let has_spoken = response.is_some();
        wire.down
            .extend(response.map(|response| response.parts.concat()));
        has_spoken || has_changed
    }

    fn client_listens(&mut self) -> bool {
        let Some(wire) = &mut self.wire else {
            return false;
        };
        let Some(bytes) = wire.down.pop_front() else {
            return false;
        };
        let response = DeltaDiscoveryResponse::decode(bytes.as_slice()).unwrap();
        let update = self.client.on_response(response).unwrap();
        self.updates.push_back(update);
        true
    }

    fn client_applies(&mut self) -> bool {
        let Some(update) = self.updates.pop_front() else {
            return false;
        };
        let is_poison = |one: &&Added| one.value == POISON;
        let poisoned = update.added.iter().filter(is_poison);
        let poisoned: BTreeSet<_> = poisoned.map(|one| one.name.clone()).collect();
        if poisoned.is_empty() {
            self.apply(&update, &poisoned);
            self.client.accept(&update);
        } else if self.dice.below(2) == 0 {
            self.client.refuse(&update, "poison");
        } else {
            self.apply(&update, &poisoned);
            self.client.accept_but(&update, &poisoned, "poison");
        }
        true
    }

    fn apply(&mut self, update: &Update, refused: &BTreeSet<String>) {
        let added = update.added.iter();
        for one in added.filter(|one| !refused.contains(&one.name)) {
            if wants(&self.wanted, update.kind, &one.name) {
                self.has
                    .insert((update.kind, one.name.clone()), one.value.clone());
            }
        }
        for name in &update.removed {
            self.has.remove(&(update.kind, name.clone()));
        }
    }

    /// Nothing further happens; all that is under way arrives.
    fn rest(&mut self, seed: u64) {
        self.catalogue.heal(POISON);
        if self.wire.is_none() {
            self.connect();
        }
        for _ in 0..TURNS_OF_REST {
            if !self.step() {
                if self.wire.is_some() {
                    return;
                }
                self.connect();
            }
        }
        panic!("seed {seed}: they never come to rest");
    }

    fn check(&self, seed: u64) {
        let mut expected = self.catalogue.visible();
        expected.retain(|(kind, name), _| wants(&self.wanted, *kind, name));
        assert_eq!(self.has, expected, "seed {seed}");
        let stream = &self.wire.as_ref().unwrap().stream;
        for kind in Kind::ALL {
            let known: BTreeSet<_> = self.client.known(kind).map(|(name, _)| name).collect();
            let expected = expected.keys().filter(|(of, _)| *of == kind);
            let expected: BTreeSet<_> = expected.map(|(_, name)| name.as_str()).collect();
            assert_eq!(known, expected, "seed {seed}: {kind:?}");
            assert_eq!(
                self.client.missing(kind).count(),
                0,
                "seed {seed}: {kind:?}"
            );
            let is_open = stream.progress(kind).is_some();
            let progress = stream.progress(kind);
            assert_eq!(
                stream.is_settled(kind),
                is_open,
                "seed {seed}: {kind:?} {progress:?}"
            );
        }
    }
}

fn wants(wanted: &BTreeSet<(Kind, &'static str)>, kind: Kind, name: &str) -> bool {
    wanted
        .iter()
        .any(|(of, one)| *of == kind && (*one == name || *one == WILDCARD))
}

fn check(seed: u64) {
    let mut world = World::new(seed);
    for _ in 0..TURNS {
        if world.dice.below(3) == 0 {
            world.disturb();
        } else {
            world.step();
        }
        let poison = world.has.values().any(|value| value == POISON);
        assert!(!poison, "seed {seed}: refused and yet in use");
    }
    world.rest(seed);
    world.check(seed);
    // A stream that begins now has nothing to tell.
    world.disconnect();
    world.catalogue = world.catalogue.restarted(1);
    world.connect();
    let mut told = 0;
    while world.step() {
        let down = world.wire.iter().flat_map(|wire| &wire.down);
        told += down
            .map(Vec::as_slice)
            .filter(|bytes| has_resources(bytes))
            .count();
    }
    assert_eq!(told, 0, "seed {seed}: sent again what the client has");
    world.check(seed);
}

fn has_resources(bytes: &[u8]) -> bool {
    let response = DeltaDiscoveryResponse::decode(bytes).unwrap();
    !response.resources.is_empty()
}

#[test]
fn a_client_ends_with_what_it_wants_and_may_see() {
    for seed in 0..SEEDS {
        check(seed);
    }
}

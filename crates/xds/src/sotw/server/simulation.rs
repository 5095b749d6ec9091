//! Both machines with a wire between them that is cut, over a catalogue that changes under them:
//! in the end the client has what it should, and never what it refused. And a client that behaves
//! as Envoy does: it never routes to a cluster that it does not have, or has without endpoints.

mod envoy;

use super::*;
use crate::delta::WILDCARD;
use crate::delta::simulation::Dice;
use crate::delta::simulation::catalogue::{Catalogue, Sight};
use crate::proto::discovery::{DiscoveryResponse, Node};
use crate::sotw::client::Client;
use crate::sotw::is_whole;
use crate::update::Update;
use bytes::Bytes;
use prost::Message;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const SEEDS: u64 = 120;
const TURNS: usize = 400;
/// More than any run needs to come to rest.
const TURNS_OF_REST: usize = 4000;
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
/// What a client refuses, whenever it sees it.
const POISON: &str = "poison";

/// A resource's message, as far as the client looks at it.
#[derive(Clone, PartialEq, prost::Message)]
struct Body {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "15")]
    state: String,
}

fn body(name: &str, state: &str) -> Bytes {
    let (name, state) = (name.to_owned(), state.to_owned());
    Body { name, state }.encode_to_vec().into()
}

struct World {
    dice: Dice,
    catalogue: Catalogue,
    client: Client,
    wanted: BTreeSet<(Kind, &'static str)>,
    /// What the client uses.
    has: BTreeMap<(Kind, String), Bytes>,
    updates: VecDeque<Update>,
    wire: Option<Wire>,
}

/// A stream, and what is on its way.
struct Wire {
    stream: Stream,
    sight: Sight,
    up: VecDeque<DiscoveryRequest>,
    down: VecDeque<Vec<u8>>,
}

impl Wire {
    fn new(catalogue: &Catalogue) -> Self {
        let sight = catalogue.sight(None);
        Self {
            stream: Stream::new(&sight),
            sight,
            up: VecDeque::new(),
            down: VecDeque::new(),
        }
    }

    /// The server hears the next request, if there is one.
    fn listen(&mut self, catalogue: &Catalogue) -> Option<Result<Event, Error>> {
        let request = self.up.pop_front()?;
        let sight = catalogue.sight(Some(&self.sight));
        let event = self.stream.on_request(&request, &sight);
        self.sight = sight;
        Some(event)
    }

    /// The server looks, and says the next thing. Whether there was any news.
    fn speak(&mut self, catalogue: &Catalogue) -> Result<bool, Error> {
        let sight = catalogue.sight(Some(&self.sight));
        let is_news = sight.generation() != self.stream.generation();
        self.stream.advance(&sight)?;
        let expected = self.stream.has_response();
        let response = self.stream.take_response(&sight);
        assert_eq!(response.is_some(), expected);
        self.sight = sight;
        self.down.extend(response.map(|it| it.parts.concat()));
        Ok(is_news || expected)
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut client = Client::new(Node::default());
        client.subscribe(Kind::Listener, [WILDCARD]);
        client.subscribe(Kind::Cluster, [WILDCARD]);
        Self {
            dice: Dice(seed),
            catalogue: Catalogue::default(),
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
        match self.dice.below(24) {
            0..=4 => {
                let state = self.dice.below(100).to_string();
                self.catalogue.set(kind, name, body(name, &state));
            }
            5 => self.catalogue.set(kind, name, body(name, POISON)),
            6..=7 => self.catalogue.remove(kind, name),
            8 => self.catalogue.hide(kind, name),
            9 => self.catalogue.show(kind, name),
            10..=13 if !is_whole(kind) => {
                self.wanted.insert((kind, name));
                self.client.subscribe(kind, [name]);
            }
            14..=16 if !is_whole(kind) => {
                self.wanted.remove(&(kind, name));
                self.client.unsubscribe(kind, [name]);
                self.has.remove(&(kind, name.to_owned()));
            }
            19 => self.disconnect(),
            20 => self.connect(),
            21 => {
                // Another process: places and generations are new, versions are not.
                self.disconnect();
                self.catalogue = self.catalogue.restarted(self.dice.next() % 5);
            }
            22 => self
                .catalogue
                .purge(self.wire.as_ref().map(|wire| wire.stream.generation())),
            _ => {}
        }
    }

    fn connect(&mut self) {
        self.wire = Some(Wire::new(&self.catalogue));
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
        match wire.and_then(|wire| wire.listen(&self.catalogue)) {
            Some(Ok(event)) => assert_ne!(event, Event::UnknownType),
            Some(Err(_)) => self.disconnect(),
            None => return false,
        }
        true
    }

    fn server_speaks(&mut self) -> bool {
        match self.wire.as_mut().map(|wire| wire.speak(&self.catalogue)) {
            Some(Ok(has_spoken)) => return has_spoken,
            Some(Err(_)) => self.disconnect(),
            None => return false,
        }
        true
    }

    fn client_listens(&mut self) -> bool {
        let wire = self.wire.as_mut();
        let Some(bytes) = wire.and_then(|wire| wire.down.pop_front()) else {
            return false;
        };
        let response = DiscoveryResponse::decode(bytes.as_slice()).unwrap();
        let update = self.client.on_response(response).unwrap();
        self.updates.push_back(update);
        true
    }

    fn client_applies(&mut self) -> bool {
        let Some(update) = self.updates.pop_front() else {
            return false;
        };
        let poisoned = update.added.iter().filter(|one| is_poison(&one.value));
        let poisoned: BTreeSet<_> = poisoned.map(|one| one.name.clone()).collect();
        if !poisoned.is_empty() && self.dice.below(2) == 0 {
            self.client.refuse(&update, "poison");
            return true;
        }
        let taken = update.added.iter();
        for one in taken.filter(|one| !poisoned.contains(&one.name)) {
            if wants(&self.wanted, update.kind, &one.name) {
                let key = (update.kind, one.name.clone());
                self.has.insert(key, one.value.clone());
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
        for (kind, name) in self.catalogue.visible().into_keys() {
            self.catalogue.set(kind, &name, body(&name, "healed"));
        }
        for turn in 0.. {
            assert!(turn < TURNS_OF_REST, "seed {seed}: they never come to rest");
            if self.wire.is_none() {
                self.connect();
            } else if !self.step() {
                return;
            }
        }
    }

    fn check(&self, seed: u64) {
        let visible = self.catalogue.visible();
        for ((kind, name), value) in &visible {
            let has = self.has.get(&(*kind, name.clone()));
            let expected = Some(value).filter(|_| wants(&self.wanted, *kind, name));
            assert_eq!(has, expected, "seed {seed}: {kind:?} {name}");
        }
        // Whoever asks by name is not told that something is gone.
        let mut rest = self.has.keys().filter(|key| !visible.contains_key(key));
        assert!(rest.all(|(kind, _)| !is_whole(*kind)), "seed {seed}");
        let stream = &self.wire.as_ref().unwrap().stream;
        for kind in Kind::ALL {
            let progress = stream.progress(kind);
            let is_settled = stream.is_settled(kind) == progress.is_some();
            assert!(is_settled, "seed {seed}: {kind:?} {progress:?}");
        }
    }
}

fn is_poison(value: &[u8]) -> bool {
    value.ends_with(POISON.as_bytes())
}

fn wants(wanted: &BTreeSet<(Kind, &'static str)>, kind: Kind, name: &str) -> bool {
    is_whole(kind) || wanted.iter().any(|one| *one == (kind, name))
}

#[test]
fn a_client_ends_with_what_it_wants_and_may_see() {
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

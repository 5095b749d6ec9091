//! A catalogue as simple as can be: every place that ever was, and one client's eyes.

use crate::delta::ids::Id;
use crate::delta::server::{Change, Entry, View};
use crate::kind::Kind;
use bytes::Bytes;
use std::collections::BTreeMap;

#[derive(Clone, Default)]
pub(crate) struct Catalogue {
    generation: u64,
    complete_since: u64,
    places: Vec<Place>,
}

#[derive(Clone)]
struct Place {
    kind: Kind,
    name: String,
    entry: Option<Entry>,
    former: Option<Entry>,
    is_hidden: bool,
    changed: u64,
    /// Nobody remembers what was here.
    is_free: bool,
}

/// What the client sees now, and what it saw before.
#[derive(Clone)]
pub(crate) struct Sight {
    catalogue: Catalogue,
    seen: Vec<usize>,
}

impl Catalogue {
    pub(crate) fn set(&mut self, kind: Kind, name: &str, value: Bytes) {
        self.generation += 1;
        let changed = self.generation;
        let entry = Some(Entry::new(kind, name.to_owned(), value));
        if let Some(place) = self.place(kind, name) {
            (place.entry, place.changed) = (entry, changed);
            return;
        }
        let place = Place {
            kind,
            name: name.to_owned(),
            entry,
            former: None,
            is_hidden: false,
            changed,
            is_free: false,
        };
        match self
            .places
            .iter_mut()
            .find(|place| place.is_free && place.kind == kind)
        {
            Some(free) => *free = place,
            None => self.places.push(place),
        }
    }

    pub(crate) fn remove(&mut self, kind: Kind, name: &str) {
        self.change(kind, name, |place| place.former = place.entry.take());
    }

    pub(crate) fn hide(&mut self, kind: Kind, name: &str) {
        self.change(kind, name, |place| place.is_hidden = true);
    }

    pub(crate) fn show(&mut self, kind: Kind, name: &str) {
        self.change(kind, name, |place| place.is_hidden = false);
    }

    /// Forgets what went before the generation that the only stream has passed. Without a stream
    /// everything that went.
    pub(crate) fn purge(&mut self, passed: Option<u64>) {
        let passed = passed.unwrap_or(self.generation);
        for place in &mut self.places {
            place.is_free |= place.entry.is_none() && place.changed <= passed;
        }
        self.complete_since = self.complete_since.max(passed);
    }

    /// All values that are `poison` become something else.
    pub(crate) fn heal(&mut self, poison: &[u8]) {
        let places = self.places.clone();
        for place in places {
            if place
                .entry
                .as_ref()
                .is_some_and(|entry| entry.value() == poison)
            {
                self.set(place.kind, &place.name, Bytes::from_static(b"healed"));
            }
        }
    }

    /// The same resources in another process, which has seen `generation` changes.
    pub(crate) fn restarted(&self, generation: u64) -> Self {
        let is_there = |place: &&Place| place.entry.is_some();
        let mut places: Vec<_> = self.places.iter().filter(is_there).cloned().collect();
        places.reverse();
        for place in &mut places {
            place.changed = generation;
        }
        Self {
            generation,
            complete_since: generation,
            places,
        }
    }

    pub(crate) fn visible(&self) -> BTreeMap<(Kind, String), Bytes> {
        let places = self.places.iter().filter(|place| place.is_visible());
        let pairs = places.filter_map(|place| {
            let value = place.entry.as_ref()?.value();
            Some(((place.kind, place.name.clone()), value))
        });
        pairs.collect()
    }

    pub(crate) fn sight(&self, previous: Option<&Sight>) -> Sight {
        let seen = previous.map_or_else(Vec::new, |previous| {
            let places = previous.catalogue.places.iter().enumerate();
            places
                .filter(|(_, place)| place.is_visible())
                .map(|(at, _)| at)
                .collect()
        });
        Sight {
            catalogue: self.clone(),
            seen,
        }
    }

    fn change(&mut self, kind: Kind, name: &str, what: impl FnOnce(&mut Place)) {
        let changed = self.generation + 1;
        if let Some(place) = self.place(kind, name).filter(|place| place.entry.is_some()) {
            what(place);
            place.changed = changed;
            self.generation = changed;
        }
    }

    fn place(&mut self, kind: Kind, name: &str) -> Option<&mut Place> {
        let mut places = self.places.iter_mut();
        places.find(|place| !place.is_free && place.kind == kind && place.name == name)
    }
}

impl Place {
    fn is_visible(&self) -> bool {
        self.entry.is_some() && !self.is_hidden
    }
}

impl Sight {
    fn of(&self, kind: Kind) -> impl Iterator<Item = (usize, &Place)> {
        let places = self.catalogue.places.iter().enumerate();
        places.filter(move |(_, place)| place.kind == kind && !place.is_free)
    }
}

impl View for Sight {
    fn generation(&self) -> u64 {
        self.catalogue.generation
    }

    fn complete_since(&self) -> u64 {
        self.catalogue.complete_since
    }

    fn find(&self, kind: Kind, name: &str) -> Option<Id> {
        let mut places = self.of(kind).filter(|(_, place)| place.is_visible());
        places
            .find(|(_, place)| place.name == name)
            .map(|(at, _)| id(at))
    }

    fn entry(&self, kind: Kind, at: Id) -> Option<&Entry> {
        let place = &self.catalogue.places[at.0 as usize];
        assert_eq!(place.kind, kind);
        place.entry.as_ref().filter(|_| place.is_visible())
    }

    fn former(&self, kind: Kind, at: Id) -> Option<&Entry> {
        let place = &self.catalogue.places[at.0 as usize];
        assert!(place.kind == kind && !place.is_free);
        place.entry.as_ref().or(place.former.as_ref())
    }

    fn all(&self, kind: Kind) -> impl Iterator<Item = Id> + '_ {
        self.of(kind)
            .filter(|(_, place)| place.is_visible())
            .map(|(at, _)| id(at))
    }

    fn changed(&self, kind: Kind, since: u64) -> impl Iterator<Item = Change<'_>> + '_ {
        let changed = self.of(kind).filter(move |(at, place)| {
            place.changed > since && (place.is_visible() || self.seen.contains(at))
        });
        changed.map(|(at, place)| Change {
            id: id(at),
            name: &place.name,
            is_there: place.is_visible(),
        })
    }
}

fn id(at: usize) -> Id {
    Id(u32::try_from(at).unwrap())
}

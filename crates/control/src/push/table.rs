//! Resources of one kind in the state they are told, each at a place of its own, with what was
//! there remembered until every stream knows that it is gone. Made by `push`, read by `catalogue`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use xds::delta::ids::Id;
use xds::delta::server::Entry;

use crate::kinds::ServiceKey;

/// Which part of the mesh a resource comes from; whoever is told the part is told the resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Owner {
    /// What everybody is told who sees the table at all.
    Everybody,
    /// What clients of a Service are told.
    Service(Arc<ServiceKey>),
}

/// A resource as clients are told it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) entry: Entry,
    /// What clients with few Services are told instead: endpoints at once, not at first use.
    pub(super) eager: Option<Entry>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    places: Vec<Place>,
    names: BTreeMap<Arc<str>, u32>,
    /// Changes in the order of generations. Invariant: each touched place is in it with the
    /// generation that touched it last; what else is in it is of no account.
    recent: Vec<(u64, u32)>,
    free: Vec<u32>,
    tombstones: usize,
    /// Whether some place remembers who its owners were.
    has_former: bool,
}

/// What is, or was, at one place.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) name: Arc<str>,
    /// By owner, which say the same but in the moment of a change; the first one counts. Empty:
    /// it is gone.
    told: Vec<Held>,
    /// What was told before it was gone: some streams go on telling it for a while.
    last: Option<Told>,
    /// Who were owners, from which generation until before which.
    former: Vec<(Owner, Range<u64>)>,
    /// The generation of its last change of any kind; 0 for a free place.
    touched: u64,
    /// The generation in which its bytes changed last.
    changed: u64,
}

/// What one owner says.
#[derive(Clone, Debug)]
struct Held {
    owner: Owner,
    told: Told,
    /// The generation in which it said something first.
    since: u64,
}

impl Place {
    pub(super) fn told(&self) -> Option<&Told> {
        self.told.first().map(|held| &held.told)
    }

    /// What is told, or was last.
    pub(super) fn last(&self) -> Option<&Told> {
        self.told().or(self.last.as_ref())
    }

    pub(super) fn owners(&self) -> impl Iterator<Item = &Owner> {
        self.told.iter().map(|held| &held.owner)
    }

    /// Who the owners were in a generation that some stream still is at.
    pub(super) fn owners_at(&self, generation: u64) -> impl Iterator<Item = &Owner> {
        let told = self
            .told
            .iter()
            .filter(move |held| held.since <= generation);
        let former = self
            .former
            .iter()
            .filter(move |(_, when)| when.contains(&generation));
        told.map(|held| &held.owner)
            .chain(former.map(|(owner, _)| owner))
    }

    /// Whether its bytes have changed after `since`.
    pub(super) const fn has_changed(&self, since: u64) -> bool {
        self.changed > since
    }

    fn position(&self, owner: &Owner) -> Result<usize, usize> {
        self.told.binary_search_by(|held| held.owner.cmp(owner))
    }
}

impl Table {
    /// What `owner` says about `name` from `generation` on. Whether that is news.
    pub(super) fn set(&mut self, name: &str, owner: &Owner, told: Told, generation: u64) -> bool {
        let at = self.place(name);
        let place = &mut self.places[at as usize];
        let before = place.told().cloned();
        match place.position(owner) {
            Ok(found) if place.told[found].told == told => return false,
            Ok(found) => place.told[found].told = told,
            Err(gap) => {
                let held = Held {
                    owner: owner.clone(),
                    told,
                    since: generation,
                };
                // Nearly all have one owner: room for four would be most of the table.
                place.told.reserve_exact(1);
                place.told.insert(gap, held);
            }
        }
        place.last = None;
        if place.told() != before.as_ref() {
            place.changed = generation;
            self.tombstones -= usize::from(before.is_none() && place.touched > 0);
        }
        self.touch(at, generation);
        true
    }

    /// `owner` has nothing to say about `name` any more; what was said is given back if that is
    /// news.
    pub(super) fn remove(&mut self, name: &str, owner: &Owner, generation: u64) -> Option<Told> {
        let at = self.names.get(name).copied()?;
        let place = &mut self.places[at as usize];
        let found = place.position(owner).ok()?;
        let Held { owner, told, since } = place.told.remove(found);
        place.former.push((owner, since..generation));
        self.has_former = true;
        if place.told() != Some(&told) {
            place.changed = generation;
        }
        self.tombstones += usize::from(place.told.is_empty());
        self.touch(at, generation);
        Some(told)
    }

    /// Remembers what was said last of what is gone, as long as it is remembered that it is.
    pub(super) fn keep(&mut self, name: &str, told: Told) {
        let place = self
            .names
            .get(name)
            .map(|at| &mut self.places[*at as usize]);
        if let Some(place) = place.filter(|place| place.told.is_empty()) {
            place.last = Some(told);
        }
    }

    /// Whether [`Self::purge`] may find something.
    pub(super) const fn needs_purge(&self) -> bool {
        self.tombstones > 0 || self.has_former
    }

    /// Forgets what went, and who owned what, up to `passed`: every stream knows it.
    pub(super) fn purge(&mut self, passed: u64) {
        self.has_former = false;
        for (at, place) in (0..).zip(&mut self.places) {
            place.former.retain(|(_, when)| when.end > passed);
            self.has_former |= !place.former.is_empty();
            if place.told.is_empty() && (1..=passed).contains(&place.touched) {
                place.touched = 0;
                self.names.remove(&place.name);
                place.last = None;
                self.free.push(at);
                self.tombstones -= 1;
            }
        }
    }

    /// Places that are remembered for what was there.
    pub(super) const fn tombstones(&self) -> usize {
        self.tombstones
    }

    pub(super) fn find(&self, name: &str) -> Option<(u32, &Place)> {
        let at = *self.names.get(name)?;
        Some((at, &self.places[at as usize]))
    }

    pub(super) fn at(&self, at: u32) -> Option<&Place> {
        self.places
            .get(at as usize)
            .filter(|place| place.touched > 0)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Place)> {
        let places = (0..).zip(&self.places);
        places.filter(|(_, place)| place.touched > 0)
    }

    /// Places that were touched after `since`, each once.
    pub(super) fn recent(&self, since: u64) -> impl Iterator<Item = (u32, &Place)> {
        let from = self
            .recent
            .partition_point(|(generation, _)| *generation <= since);
        self.recent[from..].iter().filter_map(|(generation, at)| {
            let place = &self.places[*at as usize];
            (place.touched == *generation).then_some((*at, place))
        })
    }

    fn touch(&mut self, at: u32, generation: u64) {
        let place = &mut self.places[at as usize];
        if place.touched == generation {
            return;
        }
        place.touched = generation;
        self.recent.push((generation, at));
        if self.recent.len() > 2 * self.places.len() {
            let places = &self.places;
            self.recent
                .retain(|(generation, at)| places[*at as usize].touched == *generation);
        }
    }

    /// The place of `name`, a new one if it has none.
    fn place(&mut self, name: &str) -> u32 {
        if let Some(at) = self.names.get(name) {
            return *at;
        }
        let name: Arc<str> = name.into();
        let place = Place {
            name: Arc::clone(&name),
            told: Vec::new(),
            last: None,
            former: Vec::new(),
            touched: 0,
            changed: 0,
        };
        let at = self.free.pop().unwrap_or_else(|| {
            u32::try_from(self.places.len()).expect("fewer resources than fit into memory")
        });
        match self.places.get_mut(at as usize) {
            Some(free) => *free = place,
            None => {
                // What is a sidecar's own is one or two; there are as many tables as sidecars.
                if self.places.len() < 4 {
                    self.places.reserve_exact(1);
                }
                self.places.push(place);
            }
        }
        self.names.insert(name, at);
        at
    }
}

/// Two tables share the ids of a stream: even ones are of what all share, odd ones its own.
pub(super) const fn shared_id(at: u32) -> Id {
    Id(at << 1)
}

/// See [`shared_id`].
pub(super) const fn own_id(at: u32) -> Id {
    Id(at << 1 | 1)
}

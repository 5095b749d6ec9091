//! Everything that sidecars are told, as it was at one moment, and what one of them may see of it.
//! Made by `push`; shared by all streams, which compare it with the one they saw last.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use xds::delta::ids::Id;
use xds::delta::server::{Change, Entry, View};
use xds::flavour::Flavour;
use xds::kind::Kind;

use super::epochs::Epochs;
use super::table::{Owner, Place, Table, Told, own_id, shared_id};
use crate::kinds::WorkloadKey;
use crate::translate::{Mesh, Reach};

/// Resources of all kinds.
pub(super) type Tables = [Arc<Table>; Kind::COUNT];

/// A moment of the mesh.
#[derive(Clone, Debug)]
pub struct Catalogue {
    /// Of the last change in it. Never 0.
    pub generation: u64,
    /// When that change became known.
    pub changed_at: Instant,
    /// Which trust bundle is in it, as the authority counts them; 0 for none yet.
    pub bundle: u64,
    /// Which connections of Envoys are the right ones.
    pub(super) epochs: Arc<Epochs>,
    /// What it was made from.
    pub mesh: Arc<Mesh>,
    pub(super) complete_since: u64,
    pub(super) shared: Tables,
    /// The same for Envoys, but for secrets, which are no other; `None` while no workload is on
    /// one, so that a mesh without any holds nothing for them.
    pub(super) envoy: Option<Tables>,
    pub(super) workloads: BTreeMap<WorkloadKey, Arc<Own>>,
}

/// What only one workload's sidecar is told.
#[derive(Clone, Debug)]
pub struct Own {
    /// The SPIFFE id that it must prove.
    pub identity: String,
    /// Services that it may call.
    pub reach: Reach,
    /// Whether it has all of its listeners itself.
    pub is_explicit: bool,
    pub(super) tables: Tables,
    /// The same for its Envoy, if it is on one.
    pub(super) envoy: Option<Tables>,
    /// The generation in which the workload came.
    pub(super) since: u64,
}

/// What one stream sees.
#[derive(Debug)]
pub struct Sight<'a> {
    catalogue: &'a Catalogue,
    own: &'a Own,
    flavour: Flavour,
    /// Which Services the stream saw last.
    previous: &'a Reach,
}

impl Catalogue {
    /// Of nothing.
    pub(super) fn new(changed_at: Instant) -> Self {
        Self {
            generation: 1,
            changed_at,
            bundle: 0,
            epochs: Arc::default(),
            mesh: Arc::default(),
            complete_since: 1,
            shared: Default::default(),
            envoy: None,
            workloads: BTreeMap::new(),
        }
    }

    /// What the sidecar of a workload is told; `None` if there is no such workload.
    #[must_use]
    pub fn workload(&self, key: &WorkloadKey) -> Option<&Arc<Own>> {
        self.workloads.get(key)
    }

    /// How many resources there are of a kind, and how many bytes they have.
    #[must_use]
    pub fn size(&self, kind: Kind) -> (usize, usize) {
        let shared = std::iter::once(&self.shared).chain(&self.envoy);
        let own = self.workloads.values();
        let own = own.flat_map(|own| std::iter::once(&own.tables).chain(&own.envoy));
        let tables = shared.chain(own).map(|tables| &tables[kind.index()]);
        let places = tables.flat_map(|table| table.iter());
        let told = places.filter_map(|(_, place)| place.told());
        told.fold((0, 0), |(count, bytes), told| {
            (count + 1, bytes + told.entry.encoded.len())
        })
    }

    /// How many resources are remembered though they are gone.
    #[must_use]
    pub fn tombstones(&self) -> usize {
        let tables = self.shared.iter().chain(self.envoy.iter().flatten());
        tables.map(|table| table.tombstones()).sum()
    }

    /// What all who hear this flavour share; `None` if nobody does.
    pub(super) const fn shared_mut(&mut self, flavour: Flavour) -> Option<&mut Tables> {
        match flavour {
            Flavour::Leno => Some(&mut self.shared),
            Flavour::Envoy => self.envoy.as_mut(),
        }
    }
}

impl Own {
    /// What the sidecar sees in `catalogue`, if it saw the Services of `previous` before.
    #[must_use]
    pub const fn sight<'a>(&'a self, catalogue: &'a Catalogue, previous: &'a Reach) -> Sight<'a> {
        Sight {
            catalogue,
            own: self,
            flavour: Flavour::Leno,
            previous,
        }
    }

    /// The same for who hears that flavour; `None` if the workload has nobody who does.
    #[must_use]
    pub fn sight_of<'a>(
        &'a self,
        flavour: Flavour,
        catalogue: &'a Catalogue,
        previous: &'a Reach,
    ) -> Option<Sight<'a>> {
        let is_told = flavour == Flavour::Leno || self.envoy.is_some();
        let sight = self.sight(catalogue, previous);
        is_told.then_some(Sight { flavour, ..sight })
    }

    /// Its own of that flavour.
    pub(super) const fn tables_mut(&mut self, flavour: Flavour) -> Option<&mut Tables> {
        match flavour {
            Flavour::Leno => Some(&mut self.tables),
            Flavour::Envoy => self.envoy.as_mut(),
        }
    }

    /// Everything of a kind that the sidecar is told.
    pub fn told<'a>(
        &'a self,
        catalogue: &'a Catalogue,
        kind: Kind,
    ) -> impl Iterator<Item = &'a Entry> {
        let sight = self.sight(catalogue, &self.reach);
        let ids: Vec<Id> = sight.all(kind).collect();
        ids.into_iter()
            .filter_map(move |id| sight.resource(kind, id))
    }
}

impl<'a> Sight<'a> {
    /// Which flavour it is of.
    #[must_use]
    pub const fn flavour(&self) -> Flavour {
        self.flavour
    }

    /// Nothing, of what the sidecar has itself.
    fn shared(&self, kind: Kind) -> &'a Table {
        static NOTHING: LazyLock<Table> = LazyLock::new(Table::default);
        match kind {
            Kind::Listener | Kind::Routes if self.own.is_explicit => &NOTHING,
            _ => self.table(&self.catalogue.shared, self.catalogue.envoy.as_ref(), kind),
        }
    }

    fn own(&self, kind: Kind) -> &'a Table {
        self.table(&self.own.tables, self.own.envoy.as_ref(), kind)
    }

    /// The one of its flavour. Secrets have one.
    fn table(&self, leno: &'a Tables, envoy: Option<&'a Tables>, kind: Kind) -> &'a Table {
        match (self.flavour, envoy) {
            (Flavour::Envoy, Some(envoy)) if kind != Kind::Secret => &envoy[kind.index()],
            _ => &leno[kind.index()],
        }
    }

    fn is_visible(&self, place: &Place) -> bool {
        reaches(&self.own.reach, place.owners())
    }

    fn entry_of(&self, place: &'a Place) -> Option<&'a Entry> {
        let told = place.told().filter(|_| self.is_visible(place))?;
        Some(self.form_of(told))
    }

    const fn form_of(&self, told: &'a Told) -> &'a Entry {
        match (&self.own.reach, &told.eager) {
            (Reach::Only(_), Some(eager)) => eager,
            _ => &told.entry,
        }
    }

    fn resource(&self, kind: Kind, id: Id) -> Option<&'a Entry> {
        self.entry_of(self.place(kind, id)?)
    }

    fn place(&self, kind: Kind, id: Id) -> Option<&'a Place> {
        let (at, is_own) = (id.0 >> 1, id.0 & 1 == 1);
        let table = if is_own {
            self.own(kind)
        } else {
            self.shared(kind)
        };
        table.at(at)
    }

    fn has_new_reach(&self) -> bool {
        match (&self.own.reach, self.previous) {
            (Reach::All, Reach::All) => false,
            (Reach::Only(now), Reach::Only(before)) => !Arc::ptr_eq(now, before),
            _ => true,
        }
    }

    /// Whether the stream, which was at generation `since`, has to hear of a shared place.
    fn is_news(&self, place: &Place, since: u64) -> bool {
        let sees = self.is_visible(place);
        let saw = reaches(self.previous, place.owners_at(since));
        let form = |reach: &Reach| matches!(reach, Reach::Only(_));
        let has_forms = place.told().is_some_and(|told| told.eager.is_some());
        let is_other_form = has_forms && form(self.previous) != form(&self.own.reach);
        sees != saw || sees && (place.has_changed(since) || is_other_form)
    }

    fn change(&self, id: Id, place: &'a Place) -> Change<'a> {
        Change {
            id,
            name: &place.name,
            is_there: self.is_visible(place) && place.told().is_some(),
        }
    }
}

impl View for Sight<'_> {
    fn generation(&self) -> u64 {
        self.catalogue.generation
    }

    fn complete_since(&self) -> u64 {
        self.catalogue.complete_since.max(self.own.since)
    }

    fn find(&self, kind: Kind, name: &str) -> Option<Id> {
        let is_there = |place: &Place| place.told().is_some() && self.is_visible(place);
        let own = self
            .own(kind)
            .find(name)
            .filter(|(_, place)| is_there(place));
        let shared = || {
            self.shared(kind)
                .find(name)
                .filter(|(_, place)| is_there(place))
        };
        let own = own.map(|(at, _)| own_id(at));
        own.or_else(|| shared().map(|(at, _)| shared_id(at)))
    }

    fn entry(&self, kind: Kind, id: Id) -> Option<&Entry> {
        self.resource(kind, id)
    }

    fn former(&self, kind: Kind, id: Id) -> Option<&Entry> {
        Some(self.form_of(self.place(kind, id)?.last()?))
    }

    fn all(&self, kind: Kind) -> impl Iterator<Item = Id> + '_ {
        let is_there = |place: &Place| place.told().is_some() && self.is_visible(place);
        let shared = self
            .shared(kind)
            .iter()
            .filter(move |(_, place)| is_there(place));
        let own = self
            .own(kind)
            .iter()
            .filter(move |(_, place)| is_there(place));
        let shared = shared.map(|(at, _)| shared_id(at));
        shared.chain(own.map(|(at, _)| own_id(at)))
    }

    fn changed(&self, kind: Kind, since: u64) -> impl Iterator<Item = Change<'_>> + '_ {
        // With another reach, places may matter that nothing has touched.
        let has_new_reach = self.has_new_reach();
        let all = has_new_reach.then(|| self.shared(kind).iter());
        let recent = (!has_new_reach).then(|| self.shared(kind).recent(since));
        let shared = all
            .into_iter()
            .flatten()
            .chain(recent.into_iter().flatten());
        let shared = shared.filter(move |(_, place)| self.is_news(place, since));
        let shared = shared.map(|(at, place)| self.change(shared_id(at), place));
        let own = self.own(kind).recent(since);
        shared.chain(own.map(|(at, place)| self.change(own_id(at), place)))
    }
}

fn reaches<'a>(reach: &Reach, mut owners: impl Iterator<Item = &'a Owner>) -> bool {
    owners.any(|owner| match (owner, reach) {
        (Owner::Everybody, _) | (Owner::Service(_), Reach::All) => true,
        (Owner::Service(key), Reach::Only(keys)) => keys.contains(&**key),
    })
}

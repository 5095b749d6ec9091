//! The mesh → what streams are told: resources encoded once, with the generation of their last
//! change. Called by `app` on every change; streams watch what it publishes. Never knows a stream
//! but by the generation that all of them have passed.

mod catalogue;
mod claims;
mod debounce;
mod encode;
mod epochs;
mod table;

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use model::{Cluster, Discovery, Listener, TrustBundle};
use tokio::sync::watch;
use xds::flavour::Flavour;
use xds::kind::Kind;

use crate::authority::Roots;
use crate::kinds::{DataPlane, WorkloadKey};
use crate::translate::{CommonParts, Mesh, ServiceKey, WorkloadParts};
use catalogue::Tables;
pub use catalogue::{Catalogue, Own, Sight};
use claims::Claims;
pub use debounce::Debounce;
use encode::Encoded;
use epochs::Epochs;
use table::{Owner, Table};

/// Resources that are gone are remembered for streams that do not know it yet, but not more than
/// these: streams that are so far behind begin anew.
const TOMBSTONES_MAX: usize = 10_000;

const FLAVOURS: [Flavour; 2] = [Flavour::Leno, Flavour::Envoy];

/// The one writer of the catalogue.
#[derive(Debug)]
pub struct Push {
    published: watch::Sender<Arc<Catalogue>>,
}

/// What came of a change.
#[derive(Debug, Default)]
pub struct Applied {
    /// Resources that came, changed or went.
    pub changes: usize,
    /// Resources that could not be encoded, and why. Clients keep what they have of them.
    pub faults: Vec<String>,
}

/// The next catalogue in the making.
struct Draft {
    catalogue: Catalogue,
    applied: Applied,
}

impl Push {
    /// An empty catalogue, and where changes of it are published.
    #[must_use]
    pub fn new(now: Instant) -> (Self, watch::Receiver<Arc<Catalogue>>) {
        let (published, watching) = watch::channel(Arc::new(Catalogue::new(now)));
        (Self { published }, watching)
    }

    /// Publishes what is new in `mesh`, if anything is. All streams have `passed` that generation;
    /// the change became known at `changed_at`.
    pub fn apply(&mut self, mesh: &Arc<Mesh>, passed: u64, changed_at: Instant) -> Applied {
        let mut draft = self.draft(passed, changed_at);
        let before = Arc::clone(&draft.catalogue.mesh);
        draft.flavours(&before, mesh);
        draft.common(&before, mesh);
        draft.services(&before, mesh);
        draft.workloads(&before, mesh);
        draft.catalogue.mesh = Arc::clone(mesh);
        self.publish(draft)
    }

    /// Publishes a trust bundle with these roots, which the authority counts as `number`.
    pub fn apply_bundle(
        &mut self,
        (bundle, roots): (&TrustBundle, &Roots),
        number: u64,
        passed: u64,
    ) -> Applied {
        let mut draft = self.draft(passed, Instant::now());
        draft.set(encode::bundle(bundle), &Owner::Everybody);
        draft.epochs(Epochs::of(bundle, roots));
        // Streams have to take the number over, even if the bundle is the same.
        draft.applied.changes += usize::from(draft.catalogue.bundle != number);
        draft.catalogue.bundle = number;
        self.publish(draft)
    }

    /// What was published last.
    #[must_use]
    pub fn catalogue(&self) -> Arc<Catalogue> {
        Arc::clone(&self.published.borrow())
    }

    fn draft(&self, passed: u64, changed_at: Instant) -> Draft {
        let mut catalogue = Catalogue::clone(&self.published.borrow());
        catalogue.purge(passed);
        catalogue.generation += 1;
        catalogue.changed_at = changed_at;
        let applied = Applied::default();
        Draft { catalogue, applied }
    }

    /// Streams hear of it only if there is something to hear.
    fn publish(&self, draft: Draft) -> Applied {
        let Draft {
            mut catalogue,
            applied,
        } = draft;
        let is_news = applied.changes > 0;
        if !is_news {
            catalogue.generation -= 1;
            catalogue.changed_at = self.published.borrow().changed_at;
        }
        self.published.send_if_modified(|published| {
            *published = Arc::new(catalogue);
            is_news
        });
        applied
    }
}

impl Catalogue {
    fn purge(&mut self, passed: u64) {
        let is_full = self.tombstones() > TOMBSTONES_MAX;
        let passed = if is_full { self.generation } else { passed };
        if passed <= self.complete_since {
            return;
        }
        self.complete_since = passed;
        let shared = self
            .shared
            .iter_mut()
            .chain(self.envoy.iter_mut().flatten());
        for table in shared.filter(|table| table.needs_purge()) {
            Arc::make_mut(table).purge(passed);
        }
        for own in self.workloads.values_mut() {
            let mut tables = own.tables.iter().chain(own.envoy.iter().flatten());
            if tables.any(|table| table.needs_purge()) {
                let own = Arc::make_mut(own);
                let tables = own.tables.iter_mut().chain(own.envoy.iter_mut().flatten());
                tables.for_each(|table| Arc::make_mut(table).purge(passed));
            }
        }
    }
}

impl Draft {
    /// Begins to hold what Envoys are told when the first workload is on one, with what everybody
    /// was told `before`; and ends with the last.
    fn flavours(&mut self, before: &Mesh, after: &Mesh) {
        let mut workloads = after.workloads.values();
        let is_wanted = workloads.any(|parts| parts.data_plane == DataPlane::Envoy);
        if is_wanted == self.catalogue.envoy.is_some() {
            return;
        }
        self.catalogue.envoy = is_wanted.then(Tables::default);
        self.tell_envoys(before);
    }

    /// Says to all Envoys what everybody is told in `mesh`.
    fn tell_envoys(&mut self, mesh: &Mesh) {
        let CommonParts {
            listeners,
            clusters,
        } = &*mesh.common;
        self.say(
            Flavour::Envoy,
            &Names::new(),
            (listeners, clusters),
            &Owner::Everybody,
        );
        if self.catalogue.envoy.is_none() {
            return;
        }
        let claims = Claims::of(mesh);
        for (key, parts) in &mesh.services {
            let said = (&*claims.listeners(parts), parts.clusters.as_slice());
            self.say(Flavour::Envoy, &Names::new(), said, &owner(key));
        }
    }

    fn common(&mut self, before: &Mesh, after: &Mesh) {
        if Arc::ptr_eq(&before.common, &after.common) {
            return;
        }
        let (old, new) = (&before.common, &after.common);
        let gone = names(&old.listeners, &old.clusters);
        for flavour in FLAVOURS {
            self.say(
                flavour,
                &gone,
                (&new.listeners, &new.clusters),
                &Owner::Everybody,
            );
        }
    }

    fn services(&mut self, before: &Mesh, after: &Mesh) {
        let claims = match self.catalogue.envoy {
            Some(_) => Claims::of(after),
            None => Claims::default(),
        };
        self.headless(before, after, &claims);
        let differences = differences(&before.services, &after.services);
        // What comes before what goes: a resource that changes its owner stays.
        for (key, old, new) in &differences {
            let Some(parts) = new else { continue };
            let owner = owner(key);
            let gone = old.map(|old| names(&old.listeners, &old.clusters));
            let gone = gone.unwrap_or_default();
            self.say(
                Flavour::Leno,
                &gone,
                (&parts.listeners, &parts.clusters),
                &owner,
            );
            let said = (&*claims.listeners(parts), parts.clusters.as_slice());
            self.say(Flavour::Envoy, &gone, said, &owner);
        }
        for (key, old, new) in &differences {
            if let (Some(old), None) = (old, new) {
                let gone = names(&old.listeners, &old.clusters);
                for flavour in FLAVOURS {
                    self.say(flavour, &gone, (&[], &[]), &owner(key));
                }
            }
        }
    }

    /// Addresses may have passed to a Service that is the same as before.
    fn headless(&mut self, before: &Mesh, after: &Mesh, claims: &Claims<'_>) {
        if self.catalogue.envoy.is_none() || Claims::of(before) == *claims {
            return;
        }
        let services = after.services.iter();
        for (key, parts) in services.filter(|(_, parts)| claims::is_headless(parts)) {
            let gone = names(&parts.listeners, &parts.clusters);
            let said = (&*claims.listeners(parts), parts.clusters.as_slice());
            self.say(Flavour::Envoy, &gone, said, &owner(key));
        }
    }

    fn workloads(&mut self, before: &Mesh, after: &Mesh) {
        for (key, old, new) in differences(&before.workloads, &after.workloads) {
            match new {
                Some(parts) => self.workload(key, old.map(|old| &**old), parts),
                None => {
                    self.catalogue.workloads.remove(key);
                    self.applied.changes += 1;
                }
            }
        }
    }

    fn workload(&mut self, key: &WorkloadKey, old: Option<&WorkloadParts>, parts: &WorkloadParts) {
        let generation = self.catalogue.generation;
        let known = self.catalogue.workloads.get(key);
        // Streams that saw another part of what all share begin anew.
        let is_envoy = parts.data_plane == DataPlane::Envoy;
        let known = known.filter(|own| own.is_explicit == parts.is_explicit);
        let known = known.filter(|own| own.envoy.is_some() == is_envoy);
        let old = old.filter(|_| known.is_some());
        let own = known.map_or_else(
            || Own {
                identity: String::new(),
                reach: parts.reach.clone(),
                is_explicit: parts.is_explicit,
                tables: Default::default(),
                envoy: is_envoy.then(Tables::default),
                since: generation,
            },
            |own| Own::clone(own),
        );
        let mut own = Own {
            identity: parts.identity.clone(),
            reach: parts.reach.clone(),
            ..own
        };
        let gone = old.map(names_of).unwrap_or_default();
        // Even if no resource differs, the streams of the workload have to look again.
        self.applied.changes += 1;
        for flavour in FLAVOURS {
            let Some(tables) = own.tables_mut(flavour) else {
                continue;
            };
            let resources = encode::own(parts, flavour, &self.catalogue.epochs);
            self.applied
                .replace(tables, &gone, resources, (&Owner::Everybody, generation));
        }
        self.catalogue.workloads.insert(key.clone(), Arc::new(own));
    }

    /// Envoys make connections anew, and have their callers do so, when they rest on what is to go.
    fn epochs(&mut self, epochs: Epochs) {
        let before = std::mem::replace(&mut self.catalogue.epochs, Arc::new(epochs));
        let now = &self.catalogue.epochs;
        if before == *now {
            return;
        }
        let mesh = Arc::clone(&self.catalogue.mesh);
        if before.upstream != now.upstream {
            self.tell_envoys(&mesh);
        }
        let workloads = mesh.workloads.iter();
        for (key, parts) in workloads.filter(|(_, it)| it.data_plane == DataPlane::Envoy) {
            self.workload(key, Some(parts), parts);
        }
    }

    /// `owner` says these listeners and clusters now, and nothing of what is in `gone` and not of
    /// them, to all who hear that flavour.
    fn say(
        &mut self,
        flavour: Flavour,
        gone: &Names,
        (listeners, clusters): (&[Listener], &[Cluster]),
        owner: &Owner,
    ) {
        let when = (owner, self.catalogue.generation);
        let epochs = Arc::clone(&self.catalogue.epochs);
        if let Some(shared) = self.catalogue.shared_mut(flavour) {
            let resources = encode::parts(listeners, clusters, (flavour, &epochs));
            self.applied.replace(shared, gone, resources, when);
        }
    }

    fn set(&mut self, resource: Encoded, owner: &Owner) {
        let Catalogue {
            shared, generation, ..
        } = &mut self.catalogue;
        self.applied.set(shared, resource, owner, *generation);
    }
}

impl Applied {
    fn replace(
        &mut self,
        tables: &mut Tables,
        gone: &Names,
        resources: Vec<Encoded>,
        (owner, generation): (&Owner, u64),
    ) {
        let mut gone = gone.clone();
        for resource in resources {
            gone.remove(&(resource.kind, resource.name.clone()));
            self.set(tables, resource, owner, generation);
        }
        for (kind, name) in gone {
            self.remove(tables, (kind, &name), owner, generation);
        }
    }

    fn set(&mut self, tables: &mut Tables, resource: Encoded, owner: &Owner, generation: u64) {
        let Encoded { kind, name, told } = resource;
        match told {
            Ok(told) => {
                let table = Arc::make_mut(&mut tables[kind.index()]);
                self.changes += usize::from(table.set(&name, owner, told, generation));
            }
            Err(error) => {
                self.faults
                    .push(format!("{} `{name}` cannot be told: {error}", kind.label()));
            }
        }
    }

    fn remove(
        &mut self,
        tables: &mut Tables,
        (kind, name): (Kind, &str),
        owner: &Owner,
        generation: u64,
    ) {
        let table: &mut Table = Arc::make_mut(&mut tables[kind.index()]);
        let Some(told) = table.remove(name, owner, generation) else {
            return;
        };
        self.changes += 1;
        // These are told a little longer than they are there; a key never is.
        if matches!(kind, Kind::Cluster | Kind::Endpoints) {
            table.keep(name, told);
        }
    }
}

/// A part of the mesh that is not what it was: its key, what it was and what it is.
type Difference<'a, K, V> = (&'a K, Option<&'a Arc<V>>, Option<&'a Arc<V>>);

/// Where `after` is not `before`, in the order of the keys. Both are gone through once, side by
/// side: nearly all is the same.
fn differences<'a, K: Ord, V>(
    before: &'a BTreeMap<K, Arc<V>>,
    after: &'a BTreeMap<K, Arc<V>>,
) -> Vec<Difference<'a, K, V>> {
    let mut found = Vec::new();
    let (mut olds, mut news) = (before.iter().peekable(), after.iter().peekable());
    loop {
        let order = match (olds.peek(), news.peek()) {
            (Some((old, _)), Some((new, _))) => old.cmp(new),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return found,
        };
        let old = olds.next_if(|_| order.is_le());
        let new = news.next_if(|_| order.is_ge());
        match (old, new) {
            (Some((_, old)), Some((_, new))) if Arc::ptr_eq(old, new) => {}
            (Some((key, old)), new) => found.push((key, Some(old), new.map(|(_, new)| new))),
            (None, new) => found.extend(new.map(|(key, new)| (key, None, Some(new)))),
        }
    }
}

type Names = BTreeSet<(Kind, String)>;

fn owner(key: &ServiceKey) -> Owner {
    Owner::Service(Arc::new(key.clone()))
}

/// All that is told of a workload's own, by name.
fn names_of(parts: &WorkloadParts) -> Names {
    let certificates = parts.certificates.iter();
    let certificates = certificates.map(|it| (Kind::Secret, it.name.clone()));
    let mut names = names(&parts.listeners, &parts.clusters);
    names.extend(certificates);
    names
}

/// What `encode::parts` makes of them, by name.
fn names(listeners: &[Listener], clusters: &[Cluster]) -> Names {
    let listeners = listeners.iter().flat_map(|listener| {
        let routes = xds::listener::has_routes(listener).then_some(Kind::Routes);
        let kinds = [Some(Kind::Listener), routes].into_iter().flatten();
        kinds.map(|kind| (kind, listener.name.clone()))
    });
    let clusters = clusters.iter().flat_map(|cluster| {
        let endpoints = (cluster.discovery != Discovery::Static).then_some(Kind::Endpoints);
        let kinds = [Some(Kind::Cluster), endpoints].into_iter().flatten();
        kinds.map(|kind| (kind, cluster.name.clone()))
    });
    listeners.chain(clusters).collect()
}

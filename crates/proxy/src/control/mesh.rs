//! What the control plane has said so far, and what follows from it: the listeners and clusters of
//! the configuration, and what has to be asked for next. Pure; driven by `control`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::edge::Certificates;
use identity::serving::Certificate;
use model::{Cluster, Discovery, Edge, Endpoint, Listener, Protocol, Route, TrustBundle};
use xds::kind::Kind;
use xds::listener::{RouteSource, has_routes};
use xds::resource::Resource;
use xds::secret::Certificate as Told;

/// All resources by their names.
#[derive(Default)]
pub(super) struct Mesh {
    listeners: BTreeMap<String, Held>,
    /// Where the routes of listeners come from that do not have them under their own name.
    sources: BTreeMap<String, RouteSource>,
    /// By their names, which are those of the listeners that they belong to unless these say
    /// otherwise. Without those that a listener has taken in.
    routes: BTreeMap<String, Vec<Route>>,
    clusters: BTreeMap<String, Arc<Cluster>>,
    /// By cluster.
    endpoints: BTreeMap<String, Vec<Endpoint>>,
    bundle: Option<TrustBundle>,
    /// What clients outside of the mesh are shown, as it came and as it is used.
    certificates: BTreeMap<String, (Told, Arc<Certificate>)>,
    /// Listeners that a connection came to.
    used: BTreeSet<String>,
}

/// A listener, shared with the configuration that is in use.
struct Held {
    listener: Arc<Listener>,
    /// It has the routes of its own name, which are nowhere else then.
    is_whole: bool,
}

impl Mesh {
    /// A resource is new, or different.
    pub(super) fn add(&mut self, resource: Resource) {
        match resource {
            Resource::Listener(listener) => {
                self.sources.remove(&listener.name);
                self.add_listener(listener);
            }
            Resource::Foreign { listener, routes } => {
                self.sources.insert(listener.name.clone(), routes);
                self.add_listener(listener);
            }
            Resource::Routes { listener, routes } => {
                self.routes.insert(listener, routes);
            }
            Resource::Cluster(cluster) => {
                self.clusters
                    .insert(cluster.name.clone(), Arc::new(cluster));
            }
            Resource::Endpoints { cluster, endpoints } => {
                self.endpoints.insert(cluster, endpoints);
            }
            Resource::Bundle(bundle) => self.bundle = Some(bundle),
            Resource::Certificate(told) => self.add_certificate(told),
        }
    }

    /// What is known of its routes stays.
    fn add_listener(&mut self, listener: Listener) {
        self.take_out(&listener.name);
        let held = Held {
            listener: Arc::new(listener),
            is_whole: false,
        };
        self.listeners.insert(held.listener.name.clone(), held);
    }

    /// Routes that a listener has taken in are by themselves again, unless newer ones are.
    fn take_out(&mut self, name: &str) {
        let Some(held) = self.listeners.get_mut(name).filter(|held| held.is_whole) else {
            return;
        };
        held.is_whole = false;
        let routes = std::mem::take(&mut Arc::make_mut(&mut held.listener).routes);
        self.routes.entry(name.to_owned()).or_insert(routes);
    }

    /// Routes that no other listener can want move into that of their name: there may be thousands,
    /// and nothing is held twice.
    fn take_in(&mut self) {
        // Where some are named otherwise, they may be those of several.
        if !self.sources.is_empty() {
            return;
        }
        for (name, held) in &mut self.listeners {
            if !has_routes(&held.listener) {
                continue;
            }
            if let Some(routes) = self.routes.remove(name) {
                Arc::make_mut(&mut held.listener).routes = routes;
                held.is_whole = true;
            }
        }
    }

    /// Routes by their name, wherever they are.
    fn routes_named(&self, name: &str) -> Option<&Vec<Route>> {
        let taken_in = || self.listeners.get(name).filter(|held| held.is_whole);
        let known = self.routes.get(name);
        known.or_else(|| taken_in().map(|held| &held.listener.routes))
    }

    /// One that cannot be shown is as good as none.
    fn add_certificate(&mut self, told: Told) {
        let known = self.certificates.get(&told.name);
        if known.is_some_and(|(known, _)| *known == told) {
            return;
        }
        match Certificate::from_pem(&told.chain, &told.key) {
            Ok(certificate) => {
                let held = (told.clone(), Arc::new(certificate));
                self.certificates.insert(told.name, held);
            }
            Err(_) => drop(self.certificates.remove(&told.name)),
        }
    }

    /// What clients outside of the mesh are shown.
    pub(super) fn certificates(&self) -> Certificates {
        let all = self.certificates.iter();
        let all = all.map(|(name, (_, held))| (name.clone(), Arc::clone(held)));
        all.collect()
    }

    /// A resource is gone, or never was there. What was asked for because of it stays until it is
    /// forgotten: it may be back before that is asked for no more, and is not said again then.
    pub(super) fn remove(&mut self, kind: Kind, name: &str) {
        match kind {
            Kind::Listener => {
                self.take_out(name);
                self.listeners.remove(name);
                self.sources.remove(name);
                self.used.remove(name);
            }
            Kind::Cluster => drop(self.clusters.remove(name)),
            Kind::Routes => self.forget_routes(name),
            // The cluster stays: nobody is there.
            Kind::Endpoints => {
                self.endpoints.insert(name.to_owned(), Vec::new());
            }
            // To trust nobody is no way to go on.
            Kind::Secret => drop(self.certificates.remove(name)),
        }
    }

    /// A resource is not asked for any more, so that nobody would say when it changes.
    pub(super) fn forget(&mut self, kind: Kind, name: &str) {
        match kind {
            Kind::Routes => self.forget_routes(name),
            Kind::Endpoints => drop(self.endpoints.remove(name)),
            Kind::Secret => drop(self.certificates.remove(name)),
            Kind::Cluster | Kind::Listener => {}
        }
    }

    fn forget_routes(&mut self, name: &str) {
        self.take_out(name);
        self.routes.remove(name);
    }

    /// A connection came to `listener`: where it leads to has to be known from now on. Gives the
    /// clusters of which it is not known yet.
    pub(super) fn use_listener(&mut self, listener: &str) -> Vec<String> {
        if !self.listeners.contains_key(listener) || !self.used.insert(listener.to_owned()) {
            return Vec::new();
        }
        let led_to = self.led_to(listener);
        let unknown = led_to.filter(|cluster| !self.endpoints.contains_key(*cluster));
        unknown.map(str::to_owned).collect()
    }

    /// After endpoints were taken up from an earlier life: who led to them was used then. Those
    /// that nobody leads to any more are forgotten.
    pub(super) fn recall_use(&mut self) {
        let is_known = |cluster| self.endpoints.contains_key(cluster);
        let names = self.listeners.keys();
        let used = names.filter(|listener| self.led_to(listener).any(is_known));
        self.used = used.cloned().collect();
        let wanted = self.wanted_endpoints();
        let kept = wanted
            .into_iter()
            .map(str::to_owned)
            .collect::<BTreeSet<_>>();
        self.endpoints.retain(|cluster, _| kept.contains(cluster));
    }

    /// A resource with what belongs to it, as it is encoded.
    pub(super) fn find(&self, kind: Kind, name: &str) -> Option<Resource> {
        match kind {
            Kind::Listener => {
                let listener = &self.listeners.get(name)?.listener;
                let mut listener = Listener::clone(listener);
                if let Some(routes) = self.sources.get(name).cloned() {
                    return Some(Resource::Foreign { listener, routes });
                }
                let routes = self.routes_named(name).filter(|_| has_routes(&listener));
                routes
                    .into_iter()
                    .for_each(|routes| listener.routes.clone_from(routes));
                Some(Resource::Listener(listener))
            }
            Kind::Cluster => {
                let mut cluster = Cluster::clone(self.clusters.get(name)?);
                let endpoints = self.endpoints.get(name);
                endpoints
                    .into_iter()
                    .for_each(|known| cluster.endpoints.clone_from(known));
                Some(Resource::Cluster(cluster))
            }
            Kind::Secret => match self.certificates.get(name) {
                Some((told, _)) => Some(Resource::Certificate(told.clone())),
                None => {
                    let bundle = self.bundle.as_ref().filter(|bundle| bundle.name == name);
                    bundle.cloned().map(Resource::Bundle)
                }
            },
            Kind::Routes => Some(Resource::Routes {
                listener: name.to_owned(),
                routes: self.routes_named(name)?.clone(),
            }),
            Kind::Endpoints => Some(Resource::Endpoints {
                cluster: name.to_owned(),
                endpoints: self.endpoints.get(name)?.clone(),
            }),
        }
    }

    /// Whose routes are to be asked for.
    pub(super) fn wanted_routes(&self) -> BTreeSet<&str> {
        let listeners = self.listeners.values();
        listeners
            .filter_map(|held| self.routes_name(&held.listener))
            .collect()
    }

    /// What the routes of a listener are called, if they come by themselves.
    fn routes_name<'a>(&'a self, listener: &'a Listener) -> Option<&'a str> {
        match self.sources.get(&listener.name) {
            None | Some(RouteSource::Own) => has_routes(listener).then_some(&listener.name),
            Some(RouteSource::Named(name)) => Some(name),
            Some(RouteSource::Inline(_)) => None,
        }
    }

    /// The routes of a listener, as far as they are known.
    fn routes_of<'a>(&'a self, listener: &'a Listener) -> Option<&'a Vec<Route>> {
        match (self.sources.get(&listener.name), self.routes_name(listener)) {
            (_, Some(name)) => self.routes_named(name),
            (Some(RouteSource::Inline(routes)), None) => Some(routes),
            (_, None) => Some(&listener.routes),
        }
    }

    /// The certificates that some listener shows.
    pub(super) fn wanted_certificates(&self) -> impl Iterator<Item = &str> {
        let shown = self.listeners.values();
        let shown = shown.filter_map(|held| match &held.listener.edge {
            Some(Edge::Tls(shown)) => Some(shown),
            Some(Edge::Plaintext) | None => None,
        });
        shown.flatten().map(|shown| &*shown.certificate)
    }

    /// The clusters whose endpoints are to be asked for.
    pub(super) fn wanted_endpoints(&self) -> BTreeSet<&str> {
        let eager = self
            .clusters
            .values()
            .filter(|cluster| cluster.discovery == Discovery::Eager);
        let on_use = self.used.iter().flat_map(|name| self.led_to(name));
        let on_use = on_use.filter_map(|name| self.clusters.get(name));
        let on_use = on_use.filter(|cluster| cluster.discovery == Discovery::OnDemand);
        eager.chain(on_use).map(|cluster| &*cluster.name).collect()
    }

    /// The clusters that a listener leads to.
    fn led_to(&self, listener: &str) -> impl Iterator<Item = &str> {
        let listener = self.listeners.get(listener);
        let routes = listener.and_then(|held| self.routes_of(&held.listener));
        let routes = routes.into_iter().flatten();
        routes.flat_map(|route| route.backends.iter().map(|backend| &*backend.cluster))
    }

    /// Listeners and clusters as far as they can be put to use. A listener waits for its routes;
    /// a cluster that is named but unknown has no endpoints.
    pub(super) fn assemble(&mut self) -> (Vec<Arc<Listener>>, Vec<Arc<Cluster>>) {
        self.take_in();
        let listeners: Vec<_> = self
            .listeners
            .values()
            .filter_map(|held| self.complete(held))
            .collect();
        let mut clusters: Vec<_> = self
            .clusters
            .values()
            .map(|cluster| self.known(cluster))
            .collect();
        let routes = listeners.iter().flat_map(|listener| &listener.routes);
        let named = routes.flat_map(|route| &route.backends);
        let named: BTreeSet<_> = named.map(|backend| &*backend.cluster).collect();
        let unknown = named
            .into_iter()
            .filter(|name| !self.clusters.contains_key(*name));
        clusters.extend(unknown.map(|name| Arc::new(nobody(name))));
        (listeners, clusters)
    }

    /// Listeners for the sake of their names and addresses, without routes.
    pub(super) fn named(&self) -> Vec<Arc<Listener>> {
        let bare = |held: &Held| match held.listener.routes.is_empty() {
            true => Arc::clone(&held.listener),
            false => Arc::new(Listener {
                routes: Vec::new(),
                ..Listener::clone(&held.listener)
            }),
        };
        self.listeners.values().map(bare).collect()
    }

    fn complete(&self, held: &Held) -> Option<Arc<Listener>> {
        let listener = &held.listener;
        let routes = self.routes_of(listener)?;
        if std::ptr::eq(routes, &raw const listener.routes) {
            return Some(Arc::clone(listener));
        }
        Some(Arc::new(Listener {
            routes: routes.clone(),
            ..Listener::clone(listener)
        }))
    }

    fn known(&self, cluster: &Arc<Cluster>) -> Arc<Cluster> {
        let known = match cluster.discovery {
            Discovery::Static => None,
            Discovery::Eager | Discovery::OnDemand => self.endpoints.get(&cluster.name),
        };
        match known {
            None => Arc::clone(cluster),
            Some(endpoints) => Arc::new(Cluster {
                discovery: Discovery::Static,
                endpoints: endpoints.clone(),
                ..Cluster::clone(cluster)
            }),
        }
    }
}

/// A cluster that nobody has described.
fn nobody(name: &str) -> Cluster {
    Cluster {
        name: name.to_owned(),
        balance: model::Balance::default(),
        protocol: Protocol::Auto,
        proxy_protocol: None,
        discovery: Discovery::Static,
        passthrough: false,
        endpoints: Vec::new(),
    }
}

#[cfg(test)]
mod tests;

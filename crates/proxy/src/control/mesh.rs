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
    listeners: BTreeMap<String, Listener>,
    /// Where the routes of listeners come from that do not have them under their own name.
    sources: BTreeMap<String, RouteSource>,
    /// By their names, which are those of the listeners that they belong to unless these say
    /// otherwise.
    routes: BTreeMap<String, Vec<Route>>,
    clusters: BTreeMap<String, Cluster>,
    /// By cluster.
    endpoints: BTreeMap<String, Vec<Endpoint>>,
    bundle: Option<TrustBundle>,
    /// What clients outside of the mesh are shown, as it came and as it is used.
    certificates: BTreeMap<String, (Told, Arc<Certificate>)>,
    /// Listeners that a connection came to.
    used: BTreeSet<String>,
}

impl Mesh {
    /// A resource is new, or different.
    pub(super) fn add(&mut self, resource: Resource) {
        match resource {
            Resource::Listener(listener) => {
                self.sources.remove(&listener.name);
                self.listeners.insert(listener.name.clone(), listener);
            }
            Resource::Foreign { listener, routes } => {
                self.sources.insert(listener.name.clone(), routes);
                self.listeners.insert(listener.name.clone(), listener);
            }
            Resource::Routes { listener, routes } => {
                self.routes.insert(listener, routes);
            }
            Resource::Cluster(cluster) => {
                self.clusters.insert(cluster.name.clone(), cluster);
            }
            Resource::Endpoints { cluster, endpoints } => {
                self.endpoints.insert(cluster, endpoints);
            }
            Resource::Bundle(bundle) => self.bundle = Some(bundle),
            Resource::Certificate(told) => self.add_certificate(told),
        }
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
                self.listeners.remove(name);
                self.sources.remove(name);
                self.used.remove(name);
            }
            Kind::Cluster => drop(self.clusters.remove(name)),
            Kind::Routes => {
                self.routes.remove(name);
            }
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
            Kind::Routes => drop(self.routes.remove(name)),
            Kind::Endpoints => drop(self.endpoints.remove(name)),
            Kind::Secret => drop(self.certificates.remove(name)),
            Kind::Cluster | Kind::Listener => {}
        }
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
                let mut listener = self.listeners.get(name)?.clone();
                if let Some(routes) = self.sources.get(name).cloned() {
                    return Some(Resource::Foreign { listener, routes });
                }
                let routes = self.routes.get(name).filter(|_| has_routes(&listener));
                routes
                    .into_iter()
                    .for_each(|routes| listener.routes.clone_from(routes));
                Some(Resource::Listener(listener))
            }
            Kind::Cluster => {
                let mut cluster = self.clusters.get(name)?.clone();
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
                routes: self.routes.get(name)?.clone(),
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
            .filter_map(|listener| self.routes_name(listener))
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
            (_, Some(name)) => self.routes.get(name),
            (Some(RouteSource::Inline(routes)), None) => Some(routes),
            (_, None) => Some(&listener.routes),
        }
    }

    /// The certificates that some listener shows.
    pub(super) fn wanted_certificates(&self) -> impl Iterator<Item = &str> {
        let shown = self.listeners.values().filter_map(|it| match &it.edge {
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
        let routes = listener.and_then(|listener| self.routes_of(listener));
        let routes = routes.into_iter().flatten();
        routes.flat_map(|route| route.backends.iter().map(|backend| &*backend.cluster))
    }

    /// Listeners and clusters as far as they can be put to use. A listener waits for its routes;
    /// a cluster that is named but unknown has no endpoints.
    pub(super) fn assemble(&self) -> (Vec<Listener>, Vec<Cluster>) {
        let listeners: Vec<_> = self
            .listeners
            .values()
            .filter_map(|it| self.complete(it))
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
        clusters.extend(unknown.map(nobody));
        (listeners, clusters)
    }

    /// Listeners for the sake of their names and addresses, without routes.
    pub(super) fn named(&self) -> Vec<Listener> {
        let bare = |listener: &Listener| Listener {
            routes: Vec::new(),
            ..listener.clone()
        };
        self.listeners.values().map(bare).collect()
    }

    fn complete(&self, listener: &Listener) -> Option<Listener> {
        let routes = self.routes_of(listener)?.clone();
        Some(Listener {
            routes,
            ..listener.clone()
        })
    }

    fn known(&self, cluster: &Cluster) -> Cluster {
        let known = match cluster.discovery {
            Discovery::Static => None,
            Discovery::Eager | Discovery::OnDemand => self.endpoints.get(&cluster.name),
        };
        match known {
            None => cluster.clone(),
            Some(endpoints) => Cluster {
                discovery: Discovery::Static,
                endpoints: endpoints.clone(),
                ..cluster.clone()
            },
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

//! What resources mean for what is to be asked for next. Each is decoded and checked once, by the
//! first sidecar that it comes to, as a real one would each time; the others look it up.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use model::Discovery;
use xds::delta::client::Added;
use xds::kind::Kind;
use xds::listener::has_routes;
use xds::resource::{self, Resource};

use super::mesh;

/// What follows from a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fact {
    /// Nothing.
    Nothing,
    /// A listener whose routes are to be asked for.
    HasRoutes,
    /// A cluster whose endpoints are to be asked for at once.
    HasEndpoints,
    /// Endpoints, and the newest change that is in them.
    Endpoints(Option<u32>),
}

/// What is known of resources, by kind and name, in the version that was seen last.
#[derive(Debug, Default)]
pub(super) struct Facts {
    known: Mutex<[HashMap<String, (String, Fact)>; Kind::COUNT]>,
}

impl Facts {
    /// What follows from a resource that came.
    ///
    /// # Errors
    /// When a sidecar would refuse it.
    pub(super) fn of(&self, kind: Kind, added: &Added) -> anyhow::Result<Fact> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = &mut known[kind.index()];
        if let Some((version, fact)) = known.get(&added.name)
            && *version == added.version
        {
            return Ok(*fact);
        }
        let fact = fact(&resource::decode(kind, &added.value)?.value);
        known.insert(added.name.clone(), (added.version.clone(), fact));
        Ok(fact)
    }
}

fn fact(resource: &Resource) -> Fact {
    match resource {
        Resource::Listener(listener) if has_routes(listener) => Fact::HasRoutes,
        Resource::Cluster(cluster) if cluster.discovery == Discovery::Eager => Fact::HasEndpoints,
        Resource::Endpoints { endpoints, .. } => {
            let addresses = endpoints.iter().map(|endpoint| endpoint.address.ip());
            let changes = addresses.filter_map(|address| match address {
                IpAddr::V4(address) => mesh::change_of(address),
                IpAddr::V6(_) => None,
            });
            Fact::Endpoints(changes.max())
        }
        _ => Fact::Nothing,
    }
}

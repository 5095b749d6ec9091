//! Connections that are passed on unread: the routes that they take, as a `TcpProxy` behind the
//! rules about who may call. Called by `listener` and `listener::chain`.

use model::{Backend, HostMatch, Listener, ListenerProtocol, Route};

use crate::any::{self, pack, unpack};
use crate::check;
use crate::envoy;
use crate::error::Error;
use crate::flavour::Flavour;
use crate::place::Place;
use crate::proto::listener::Filter;
use crate::proto::network::{TcpClusterWeight, TcpProxy, TcpWeightedCluster};
use crate::proto::rbac::NetworkRbac;
use crate::route;

const PROXY: &str = "envoy.filters.network.tcp_proxy";
const RBAC: &str = "envoy.filters.network.rbac";

/// A cluster that there never is: Envoy has no listener without a filter chain, and no chain that
/// leads nowhere.
const NOWHERE: &str = "leno.dev/nowhere";

/// The routes that opaque connections of `listener` take, of its routes in canonical form.
pub(super) fn select(
    listener: &Listener,
    routes: &[Route],
    at: &Place<'_>,
) -> Result<Vec<Route>, Error> {
    match listener.protocol {
        ListenerProtocol::Http => Ok(Vec::new()),
        ListenerProtocol::Auto => Ok(select_beside_http(routes)),
        ListenerProtocol::Tcp if routes.is_empty() => Ok(vec![nowhere()]),
        ListenerProtocol::Tcp => {
            for (index, route) in routes.iter().enumerate() {
                if !route.is_plain() {
                    let reason = "a tcp listener sees neither paths nor headers; remove them";
                    return Err(Error::invalid(&at.item("routes", index), reason));
                }
            }
            Ok(routes.to_vec())
        }
    }
}

/// What is not read could be any request: who is let in without a name must be let in everywhere.
fn select_beside_http(routes: &[Route]) -> Vec<Route> {
    let takes_all = |route: &&Route| route.prefix == "/" && !route.exact;
    let carries = |route: &&Route| route.redirect.is_none();
    let opaque = routes.iter().filter(takes_all).filter(carries);
    let opaque = opaque.map(|route| Route {
        hosts: route.hosts.clone(),
        backends: route.backends.clone(),
        allow: match is_named(route) {
            true => route.allow.clone(),
            false => allowed_everywhere(routes),
        },
        ..Route::to(NOWHERE)
    });
    opaque.collect()
}

fn allowed_everywhere(routes: &[Route]) -> Option<Vec<String>> {
    let mut closed = routes.iter().filter_map(|route| route.allow.as_ref());
    let first = closed.next()?.clone();
    let keep = |ids: Vec<String>, other: &Vec<String>| {
        ids.into_iter().filter(|id| other.contains(id)).collect()
    };
    Some(closed.fold(first, keep))
}

pub(super) fn nowhere() -> Route {
    Route {
        allow: Some(Vec::new()),
        ..Route::to(NOWHERE)
    }
}

/// The routes but for the one that leads nowhere.
pub(super) fn without_nowhere(mut routes: Vec<Route>) -> Vec<Route> {
    let nowhere = nowhere();
    routes.retain(|route| *route != nowhere);
    routes
}

/// Whether the route is for some server names only.
pub(super) fn is_named(route: &Route) -> bool {
    route.hosts != [HostMatch::Any]
}

pub(super) fn server_names(route: &Route) -> Vec<String> {
    match is_named(route) {
        true => route.hosts.iter().map(route::write_host).collect(),
        false => Vec::new(),
    }
}

/// For a listener called `name`.
pub(super) fn encode(route: &Route, name: &str, flavour: Flavour) -> Vec<Filter> {
    let rbac = route.allow.as_ref().map(|ids| Filter {
        name: RBAC.to_owned(),
        typed_config: Some(pack(&NetworkRbac {
            rules: Some(route::encode_allow(ids)),
            stat_prefix: name.to_owned(),
        })),
    });
    let weight = |backend: &Backend| TcpClusterWeight {
        name: backend.cluster.clone(),
        weight: backend.weight,
    };
    let (cluster, weighted_clusters) = match route.backends.as_slice() {
        [only] => (Some(only.cluster.clone()), None),
        several => {
            let clusters = several.iter().map(weight).collect();
            (None, Some(TcpWeightedCluster { clusters }))
        }
    };
    let proxy = Filter {
        name: PROXY.to_owned(),
        typed_config: Some(pack(&TcpProxy {
            stat_prefix: name.to_owned(),
            cluster,
            weighted_clusters,
            ..match flavour {
                Flavour::Leno => TcpProxy::default(),
                Flavour::Envoy => envoy::tcp_proxy(),
            }
        })),
    };
    rbac.into_iter().chain([proxy]).collect()
}

/// The route of a chain with these filters, for connections to these servers.
pub(super) fn decode(
    filters: &[Filter],
    server_names: &[String],
    at: &Place<'_>,
) -> Result<Route, Error> {
    let (rbac, proxy) = match filters {
        [proxy] => (None, proxy),
        [rbac, proxy] => (Some(rbac), proxy),
        _ => {
            let reason = "a chain is an HTTP connection manager, or a TCP proxy behind rules at \
                          most; send one of them";
            return Err(Error::invalid(&at.field("filters"), reason));
        }
    };
    let proxy_at = at.item("filters", filters.len() - 1);
    let rbac_at = at.item("filters", 0);
    let hosts = server_names.iter().map(|name| route::parse_host(name));
    let hosts: Vec<_> = match server_names {
        [] => vec![HostMatch::Any],
        _ => hosts.collect(),
    };
    let names_at = at.field("filter_chain_match");
    for (host, index) in hosts.iter().zip(0..) {
        check::host(host, &names_at.item("server_names", index))?;
    }
    Ok(Route {
        hosts,
        backends: decode_proxy(proxy, &proxy_at)?,
        allow: rbac.map(|rbac| decode_rbac(rbac, &rbac_at)).transpose()?,
        ..Route::to(NOWHERE)
    })
}

fn config<'a>(filter: &'a Filter, at: &Place<'_>) -> Result<&'a crate::proto::google::Any, Error> {
    let config = filter.typed_config.as_ref();
    config.ok_or_else(|| Error::invalid(at, "missing; send its settings"))
}

fn decode_proxy(filter: &Filter, at: &Place<'_>) -> Result<Vec<Backend>, Error> {
    let at = at.field("typed_config");
    let proxy: TcpProxy = unpack(config(filter, &at)?, &at)?;
    let alone = proxy
        .cluster
        .map(|name| TcpClusterWeight { name, weight: 1 });
    let shared = proxy.weighted_clusters.unwrap_or_default().clusters;
    let clusters = alone.into_iter().chain(shared);
    let backends: Vec<_> = clusters
        .map(|share| Backend {
            cluster: share.name,
            weight: share.weight,
        })
        .collect();
    for backend in &backends {
        check::name(&backend.cluster, &at.field("cluster"))?;
    }
    route::shares::check(&backends, &at.field("weighted_clusters"))?;
    Ok(route::shares::canonical(&backends))
}

fn decode_rbac(filter: &Filter, at: &Place<'_>) -> Result<Vec<String>, Error> {
    let at = at.field("typed_config");
    let any = config(filter, &at)?;
    if !any::is::<NetworkRbac>(any) {
        return Err(Error::invalid(
            &at,
            "not rules about who may call; remove it",
        ));
    }
    let rbac: NetworkRbac = unpack(any, &at)?;
    let rules_at = at.field("rules");
    let rules = rbac.rules.ok_or_else(|| {
        Error::invalid(&rules_at, "missing, so that everybody may call; send rules")
    })?;
    route::decode_allow(&rules, &rules_at)
}

//! What HTTP connections of a listener get: an `HttpConnectionManager`, whose routes come as a
//! resource of the listener's name, unless it is somebody else's. Called by `listener::chain`.

use model::{Listener, Route};

use crate::any::{self, pack, unpack};
use crate::envoy::{self, Codec};
use crate::error::Error;
use crate::fields::Notes;
use crate::flavour::Flavour;
use crate::place::Place;
use crate::proto::google::BoolValue;
use crate::proto::listener::Filter;
use crate::proto::network::{HttpConnections, HttpFilter, Rds, Router, UpgradeConfig};
use crate::proto::rbac::HttpRbac;
use crate::route::{self, RBAC};
use crate::{check, tls};

const MANAGER: &str = "envoy.filters.network.http_connection_manager";
const ROUTER: &str = "envoy.filters.http.router";

/// How Envoy has it that CONNECT is taken.
const CONNECT: &str = "CONNECT";
/// Responses keep the header `server` that they came with.
const PASS_THROUGH: i32 = 2;

/// Where the routes of a listener for HTTP come from.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum RouteSource {
    /// They are a resource of the listener's name, as ours are.
    #[default]
    Own,
    /// They are a resource of this name.
    Named(String),
    /// They came with the listener.
    Inline(Vec<Route>),
}

/// Settings of a listener that matter to HTTP only.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Http {
    pub(super) upgrades: Vec<String>,
    pub(super) connect: bool,
    pub(super) request_id: bool,
    pub(super) forwarded_for: bool,
    pub(super) routes: RouteSource,
}

impl Http {
    pub(super) fn of(listener: &Listener) -> Self {
        Self {
            upgrades: listener.upgrades.clone(),
            connect: listener.connect,
            request_id: listener.request_id,
            forwarded_for: listener.forwarded_for,
            routes: RouteSource::Own,
        }
    }
}

/// For a listener called `name`, on connections that speak as `codec` says.
pub(super) fn encode(http: &Http, name: &str, codec: Codec, flavour: Flavour) -> Filter {
    let connect = http.connect.then_some(CONNECT);
    let upgrades = http.upgrades.iter().map(String::as_str).chain(connect);
    let router = match flavour {
        Flavour::Leno => Router::default(),
        Flavour::Envoy => envoy::router(),
    };
    let rds = |name: &str| Rds {
        config_source: Some(tls::ads()),
        route_config_name: name.to_owned(),
    };
    let (rds, route_config) = match &http.routes {
        RouteSource::Own => (Some(rds(name)), None),
        RouteSource::Named(other) => (Some(rds(other)), None),
        // They were checked before.
        RouteSource::Inline(routes) => (None, route::encode(name, routes, flavour).ok()),
    };
    let manager = HttpConnections {
        stat_prefix: name.to_owned(),
        rds,
        route_config,
        http_filters: vec![filter(RBAC, &HttpRbac::default()), filter(ROUTER, &router)],
        use_remote_address: Some(BoolValue {
            value: http.forwarded_for,
        }),
        generate_request_id: Some(BoolValue {
            value: http.request_id,
        }),
        upgrade_configs: upgrades
            .map(|word| UpgradeConfig {
                upgrade_type: word.to_owned(),
            })
            .collect(),
        server_header_transformation: PASS_THROUGH,
        ..HttpConnections::default()
    };
    let manager = match flavour {
        Flavour::Leno => manager,
        Flavour::Envoy => envoy::manager(manager, codec),
    };
    Filter {
        name: MANAGER.to_owned(),
        typed_config: Some(pack(&manager)),
    }
}

fn filter(name: &str, config: &impl any::Typed) -> HttpFilter {
    HttpFilter {
        name: name.to_owned(),
        typed_config: Some(pack(config)),
    }
}

pub(super) fn decode(
    filter: &Filter,
    name: &str,
    at: &Place<'_>,
    notes: &mut Notes,
) -> Result<Http, Error> {
    let at = at.field("typed_config");
    let config = filter.typed_config.as_ref();
    let config = config.ok_or_else(|| Error::invalid(&at, "missing; send its settings"))?;
    let manager: HttpConnections = unpack(config, &at)?;
    let routes = decode_source(&manager, name, &at)?;
    check_filters(&manager.http_filters, &at)?;
    if manager.server_header_transformation != PASS_THROUGH {
        notes.add(&at.field("server_header_transformation"));
    }
    let is_on = |value: Option<BoolValue>, default| value.map_or(default, |it| it.value);
    let words = manager.upgrade_configs.into_iter();
    let (connect, upgrades): (Vec<_>, Vec<_>) = words
        .map(|config| config.upgrade_type)
        .partition(|word| word == CONNECT);
    Ok(Http {
        upgrades,
        connect: !connect.is_empty(),
        request_id: is_on(manager.generate_request_id, true),
        forwarded_for: is_on(manager.use_remote_address, false),
        routes,
    })
}

fn decode_source(
    manager: &HttpConnections,
    name: &str,
    at: &Place<'_>,
) -> Result<RouteSource, Error> {
    if let Some(routes) = &manager.route_config {
        let routes = route::decode_all(routes, &at.field("route_config"))?;
        return Ok(RouteSource::Inline(routes));
    }
    let at = at.field("rds");
    let Some(rds) = &manager.rds else {
        let reason = "missing; send rds with a name, or route_config";
        return Err(Error::invalid(&at, reason));
    };
    tls::check_ads(rds.config_source.as_ref(), &at.field("config_source"))?;
    let other = &rds.route_config_name;
    check::name(other, &at.field("route_config_name"))?;
    Ok(match other == name {
        true => RouteSource::Own,
        false => RouteSource::Named(other.clone()),
    })
}

/// The filters must be ours: whoever sends another relies on it.
fn check_filters(filters: &[HttpFilter], at: &Place<'_>) -> Result<(), Error> {
    let Some((last, others)) = filters.split_last() else {
        return Err(Error::invalid(
            &at.field("http_filters"),
            "none; send the router",
        ));
    };
    for (index, filter) in others.iter().enumerate() {
        check_rbac(filter, &at.item("http_filters", index))?;
    }
    let is_router = last.typed_config.as_ref().is_some_and(any::is::<Router>);
    match is_router {
        true => Ok(()),
        false => {
            let at = at.item("http_filters", others.len());
            Err(Error::invalid(
                &at,
                "the last filter is the router; send it",
            ))
        }
    }
}

fn check_rbac(filter: &HttpFilter, at: &Place<'_>) -> Result<(), Error> {
    let config = filter.typed_config.clone().unwrap_or_default();
    let at = at.field("typed_config");
    let rbac: HttpRbac = unpack(&config, &at)?;
    match filter.name == RBAC && rbac.rules.is_none() {
        true => Ok(()),
        false => {
            let reason = "rules stand at routes, for envoy.filters.http.rbac; send them there";
            Err(Error::invalid(&at, reason))
        }
    }
}

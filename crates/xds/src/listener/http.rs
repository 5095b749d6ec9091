//! What HTTP connections of a listener get: an `HttpConnectionManager` whose routes come as a
//! resource of the listener's name. Called by `listener::chain`.

use model::Listener;

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
use crate::route::RBAC;
use crate::tls;

const MANAGER: &str = "envoy.filters.network.http_connection_manager";
const ROUTER: &str = "envoy.filters.http.router";

/// How Envoy has it that CONNECT is taken.
const CONNECT: &str = "CONNECT";
/// Responses keep the header `server` that they came with.
const PASS_THROUGH: i32 = 2;

/// Settings of a listener that matter to HTTP only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Http {
    pub(super) upgrades: Vec<String>,
    pub(super) connect: bool,
    pub(super) request_id: bool,
    pub(super) forwarded_for: bool,
}

impl Http {
    pub(super) fn of(listener: &Listener) -> Self {
        Self {
            upgrades: listener.upgrades.clone(),
            connect: listener.connect,
            request_id: listener.request_id,
            forwarded_for: listener.forwarded_for,
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
    let manager = HttpConnections {
        stat_prefix: name.to_owned(),
        rds: Some(Rds {
            config_source: Some(tls::ads()),
            route_config_name: name.to_owned(),
        }),
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
    check_rds(manager.rds.as_ref(), name, &at.field("rds"))?;
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
    })
}

fn check_rds(rds: Option<&Rds>, name: &str, at: &Place<'_>) -> Result<(), Error> {
    let Some(rds) = rds.filter(|rds| rds.route_config_name == name) else {
        let reason = "routes come as a resource of their listener's name; send rds with it";
        return Err(Error::invalid(at, reason));
    };
    tls::check_ads(rds.config_source.as_ref(), &at.field("config_source"))
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

//! A listener as `envoy.config.listener.v3.Listener`. Its filter chains are `listener::chain`'s
//! affair. Routes of requests come as a `RouteConfiguration` of the listener's name; those of
//! opaque connections are in the chains, as Envoy has them nowhere else.

mod chain;
mod edge;
mod hosts;
mod http;
mod opaque;

use std::time::Duration as Time;

use model::{Direction, Listener, ListenerProtocol, Route, TlsMode};

use crate::any::{self, Typed, pack};
use crate::check;
use crate::envoy;
use crate::error::Error;
use crate::fields::Notes;
use crate::flavour::Flavour;
use crate::metadata;
use crate::place::Place;
use crate::proto::google::{BoolValue, Duration};
use crate::proto::listener::{
    AdditionalAddress, HttpInspector, Listener as Message, ListenerFilter, OriginalDst,
    ProxyProtocol, TlsInspector,
};
use crate::{address, route};
use chain::Chain;
pub use http::RouteSource;

const ROOT: Place<'_> = Place::root("listener");

const UNSPECIFIED: i32 = 0;
const INBOUND: i32 = 1;
const OUTBOUND: i32 = 2;

const NAMES: &str = "names";
/// Says what opaque connections of an `Auto` listener do: [`BY_ROUTES`] is all there is. Others'
/// listeners might treat them in a way of their own, which a listener of ours has no words for.
const OPAQUE: &str = "opaque";
/// Opaque connections take the routes that requests take.
const BY_ROUTES: &str = "byRoutes";

const ORIGINAL_DST: &str = "envoy.filters.listener.original_dst";
const PROXY_PROTOCOL: &str = "envoy.filters.listener.proxy_protocol";
const TLS_INSPECTOR: &str = "envoy.filters.listener.tls_inspector";
const HTTP_INSPECTOR: &str = "envoy.filters.listener.http_inspector";

/// Most filter chains: they are compared with each other.
const CHAINS_MAX: usize = 1024;

/// Whether its routes come as a resource of their own.
#[must_use]
pub fn has_routes(listener: &Listener) -> bool {
    listener.protocol != ListenerProtocol::Tcp
}

/// What is left of a listener after a journey: without the routes that travel apart, and without
/// what has no meaning for its protocol.
#[must_use]
pub fn canonical(listener: &Listener) -> Listener {
    let is_tcp = listener.protocol == ListenerProtocol::Tcp;
    let is_http = listener.protocol == ListenerProtocol::Http;
    Listener {
        detect_timeout: match is_http {
            true => Listener::DETECT_TIMEOUT,
            false => listener.detect_timeout,
        },
        upgrades: match is_tcp {
            true => Vec::new(),
            false => listener.upgrades.clone(),
        },
        connect: listener.connect && !is_tcp,
        request_id: listener.request_id && !is_tcp,
        forwarded_for: listener.forwarded_for && !is_tcp,
        routes: match is_tcp {
            true => route::canonical(&listener.routes),
            false => Vec::new(),
        },
        ..listener.clone()
    }
}

/// The message that says so.
///
/// # Errors
/// A listener, or routes, that break their own invariants.
pub fn encode(listener: &Listener, flavour: Flavour) -> Result<Message, Error> {
    encode_from(listener, &RouteSource::Own, flavour)
}

/// The same of one whose routes come from somewhere else.
pub(crate) fn encode_from(
    listener: &Listener,
    source: &RouteSource,
    flavour: Flavour,
) -> Result<Message, Error> {
    if let RouteSource::Inline(routes) = source {
        route::check_all(routes, &ROOT)?;
    }
    check_listener(listener)?;
    route::check_all(&listener.routes, &ROOT)?;
    let routes = route::canonical(&listener.routes);
    let mut chains = chain::plan(
        listener,
        &opaque::select(listener, &routes, &ROOT)?,
        flavour,
    );
    chain::route_by(&mut chains, source);
    let mut addresses = listener
        .addresses()
        .enumerate()
        .map(|(index, it)| address::encode(it, &ROOT.item("addresses", index)));
    Ok(Message {
        name: listener.name.clone(),
        address: addresses.next().transpose()?,
        additional_addresses: addresses
            .map(|address| address.map(|it| AdditionalAddress { address: Some(it) }))
            .collect::<Result<_, _>>()?,
        filter_chains: chains
            .iter()
            .map(|chain| chain::encode(chain, flavour))
            .collect(),
        use_original_dst: listener
            .original_destination
            .then_some(BoolValue { value: true }),
        metadata: match flavour {
            Flavour::Leno => encode_metadata(listener).build(),
            Flavour::Envoy => None,
        },
        listener_filters: listener_filters(listener, flavour),
        listener_filters_timeout: match flavour {
            Flavour::Leno => detect_timeout(listener),
            Flavour::Envoy => {
                detect_timeout(listener).or_else(|| Some(envoy::first_byte_timeout()))
            }
        },
        continue_on_listener_filters_timeout: detect_timeout(listener).is_some(),
        traffic_direction: match listener.direction {
            Direction::Inbound => INBOUND,
            Direction::Outbound => OUTBOUND,
        },
        bind_to_port: (!listener.bind).then_some(BoolValue { value: false }),
    })
}

/// For Envoy, the bound listener of a workload's inbound connections with the chains of `ports`,
/// which have no sockets, each for its own address. As listeners of their own they would take
/// what the workload itself sends there: Envoy knows a listener by its address, whichever way
/// connections go.
///
/// # Errors
/// As [`encode`].
pub fn encode_inbound(bound: &Listener, ports: &[&Listener]) -> Result<Message, Error> {
    let mut message = encode(bound, Flavour::Envoy)?;
    let is_permissive = bound.tls == TlsMode::Permissive;
    message.use_original_dst = None;
    message.continue_on_listener_filters_timeout = is_permissive;
    message.listener_filters_timeout = Some(envoy::first_bytes_timeout(is_permissive));
    if is_permissive {
        message
            .listener_filters
            .push(listener_filter(HTTP_INSPECTOR, &HttpInspector {}));
    }
    for port in ports {
        let chains = encode(port, Flavour::Envoy)?.filter_chains.into_iter();
        let chains = chains.map(|it| envoy::chain_for(it, &port.name, port.address));
        message.filter_chains.extend(chains);
    }
    Ok(message)
}

/// What Envoy has no words for.
fn encode_metadata(listener: &Listener) -> metadata::Builder {
    let metadata = metadata::Builder::default().list(NAMES, &listener.names);
    let metadata = metadata.list(hosts::KEY, &hosts::encode(&listener.hosts));
    let metadata = match &listener.port_name {
        Some(name) => metadata.text(hosts::PORT_NAME, name),
        None => metadata,
    };
    let metadata = match &listener.edge {
        Some(edge) => metadata.text(edge::KEY, edge::word(edge)),
        None => metadata,
    };
    match listener.protocol {
        ListenerProtocol::Auto => metadata.text(OPAQUE, BY_ROUTES),
        ListenerProtocol::Http | ListenerProtocol::Tcp => metadata,
    }
}

fn check_listener(listener: &Listener) -> Result<(), Error> {
    check::name(&listener.name, &ROOT.field("name"))?;
    check::upgrades(&listener.upgrades, &ROOT.field("upgrades"))?;
    for (index, name) in listener.names.iter().enumerate() {
        check::dns_name(name, &ROOT.item("names", index))?;
    }
    hosts::check(&listener.hosts)?;
    hosts::check_port_name(listener.port_name.as_deref())?;
    if listener.direction == Direction::Outbound && listener.tls != TlsMode::Disabled {
        let reason = "an outbound listener takes plaintext from its own workload; disable it";
        return Err(Error::invalid(&ROOT.field("tls"), reason));
    }
    edge::check(listener)?;
    if listener.detect_timeout.is_zero() {
        let reason = "zero would wait for ever; send some milliseconds";
        return Err(Error::invalid(
            &ROOT.field("listener_filters_timeout"),
            reason,
        ));
    }
    let mut seen = Vec::new();
    for (index, address) in listener.addresses().enumerate() {
        let at = ROOT.item("addresses", index);
        if seen.contains(&address) {
            return Err(Error::invalid(&at, "listed twice; remove one"));
        }
        if !listener.bind && address.port() == 0 {
            return Err(Error::invalid(
                &at,
                "port 0 is nobody's destination; send a port",
            ));
        }
        seen.push(address);
    }
    Ok(())
}

/// Nothing where requests are waited for: how long a head may take is the proxy's own limit.
fn detect_timeout(listener: &Listener) -> Option<Duration> {
    let time = listener.detect_timeout;
    (listener.protocol != ListenerProtocol::Http).then(|| Duration {
        seconds: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(time.subsec_nanos()).unwrap_or_default(),
    })
}

fn listener_filter(name: &str, config: &impl Typed) -> ListenerFilter {
    ListenerFilter {
        name: name.to_owned(),
        typed_config: Some(pack(config)),
    }
}

fn listener_filters(listener: &Listener, flavour: Flavour) -> Vec<ListenerFilter> {
    let is_auto = listener.protocol == ListenerProtocol::Auto;
    let has_names = |route: &Route| route.hosts != [model::HostMatch::Any];
    let is_told_apart = listener.tls == TlsMode::Permissive
        || edge::shown(listener).is_some()
        || listener.protocol != ListenerProtocol::Http && listener.routes.iter().any(has_names);
    let filters = [
        listener
            .original_destination
            .then(|| listener_filter(ORIGINAL_DST, &OriginalDst {})),
        listener
            .proxy_protocol
            .then(|| listener_filter(PROXY_PROTOCOL, &ProxyProtocol {})),
        (is_auto || is_told_apart || listener.tls == TlsMode::Strict)
            .then(|| listener_filter(TLS_INSPECTOR, &TlsInspector {})),
        (is_auto || chain::notes_protocol(listener, flavour))
            .then(|| listener_filter(HTTP_INSPECTOR, &HttpInspector {})),
    ];
    filters.into_iter().flatten().collect()
}

/// The listener, in the form of [`canonical`].
pub(crate) fn decode(
    message: &Message,
    notes: &mut Notes,
) -> Result<(Listener, RouteSource), Error> {
    let known = [NAMES, hosts::KEY, hosts::PORT_NAME, OPAQUE, edge::KEY];
    let metadata = metadata::Reader::open(message.metadata.as_ref(), &known, &ROOT, notes)?;
    let by_routes = metadata.text(OPAQUE, &ROOT)? == Some(BY_ROUTES);
    let mut chains = decode_chains(message, notes)?;
    chain::stand_alone(&mut chains);
    let parts = chain::gather(&chains, by_routes, &ROOT)?;
    let filters = decode_filters(message)?;
    let mut listener = Listener {
        name: message.name.clone(),
        direction: decode_direction(message, parts.tls)?,
        address: address::decode(message.address.as_ref(), &ROOT.field("address"))?,
        additional_addresses: decode_additional(message)?,
        bind: message.bind_to_port.is_none_or(|bind| bind.value),
        original_destination: filters.original_destination,
        names: metadata.list(NAMES, &ROOT)?,
        hosts: hosts::decode(&metadata)?,
        port_name: metadata.text(hosts::PORT_NAME, &ROOT)?.map(str::to_owned),
        tls: parts.tls,
        edge: edge::decode(&metadata, parts.shown)?,
        protocol: parts.protocol,
        detect_timeout: decode_timeout(message, parts.protocol)?,
        upgrades: parts.http.upgrades,
        connect: parts.http.connect,
        proxy_protocol: filters.proxy_protocol,
        request_id: parts.http.request_id,
        forwarded_for: parts.http.forwarded_for,
        routes: Vec::new(),
    };
    check_listener(&listener)?;
    let mut planned = chain::plan(&listener, &parts.opaque, Flavour::Leno);
    chain::route_by(&mut planned, &parts.http.routes);
    chain::check_same(&chains, &planned, &ROOT)?;
    if listener.protocol == ListenerProtocol::Tcp {
        let routes = opaque::without_nowhere(parts.opaque);
        route::check_all(&routes, &ROOT)?;
        listener.routes = route::canonical(&routes);
    }
    Ok((listener, parts.http.routes))
}

fn decode_chains(message: &Message, notes: &mut Notes) -> Result<Vec<Chain>, Error> {
    let chains = message.filter_chains.as_slice();
    if chains.is_empty() {
        let at = ROOT.field("filter_chains");
        return Err(Error::invalid(&at, "none; nothing would be served"));
    }
    if chains.len() > CHAINS_MAX {
        return Err(Error::TooMany(ROOT.field("filter_chains").to_string()));
    }
    let decode = |(index, chain)| {
        chain::decode(
            chain,
            &message.name,
            &ROOT.item("filter_chains", index),
            notes,
        )
    };
    chains.iter().enumerate().map(decode).collect()
}

/// Others need not say it of sockets of their own: TLS of the mesh ends at inbound ones only.
fn decode_direction(message: &Message, tls: TlsMode) -> Result<Direction, Error> {
    let is_redirected = message.use_original_dst.is_some_and(|it| it.value)
        || message.bind_to_port.is_some_and(|it| !it.value);
    match message.traffic_direction {
        INBOUND => Ok(Direction::Inbound),
        OUTBOUND => Ok(Direction::Outbound),
        UNSPECIFIED if !is_redirected => Ok(match tls {
            TlsMode::Disabled => Direction::Outbound,
            TlsMode::Permissive | TlsMode::Strict => Direction::Inbound,
        }),
        _ => {
            let at = ROOT.field("traffic_direction");
            Err(Error::invalid(&at, "unspecified; send INBOUND or OUTBOUND"))
        }
    }
}

fn decode_additional(message: &Message) -> Result<Vec<std::net::SocketAddr>, Error> {
    let decode = |(index, additional): (usize, &AdditionalAddress)| {
        let at = ROOT.item("additional_addresses", index);
        address::decode(additional.address.as_ref(), &at.field("address"))
    };
    let additional = message.additional_addresses.iter().enumerate();
    additional.map(decode).collect()
}

struct Filters {
    original_destination: bool,
    proxy_protocol: bool,
}

/// Inspectors only look; the chains say what for.
fn decode_filters(message: &Message) -> Result<Filters, Error> {
    let mut found = Filters {
        original_destination: message.use_original_dst.is_some_and(|it| it.value),
        proxy_protocol: false,
    };
    for (index, filter) in message.listener_filters.iter().enumerate() {
        let at = ROOT.item("listener_filters", index);
        let Some(config) = &filter.typed_config else {
            return Err(Error::invalid(
                &at.field("typed_config"),
                "missing; send its settings",
            ));
        };
        if any::is::<OriginalDst>(config) && !found.original_destination {
            let reason = "connections would stay here; send use_original_dst too";
            return Err(Error::invalid(&at, reason));
        }
        found.proxy_protocol |= any::is::<ProxyProtocol>(config);
    }
    Ok(found)
}

fn decode_timeout(message: &Message, protocol: ListenerProtocol) -> Result<Time, Error> {
    let at = ROOT.field("listener_filters_timeout");
    let Some(time) = message.listener_filters_timeout else {
        return Ok(Listener::DETECT_TIMEOUT);
    };
    if protocol == ListenerProtocol::Http || !message.continue_on_listener_filters_timeout {
        let reason = "says when to stop waiting and serve, where the peer may speak second; \
                      send continue_on_listener_filters_timeout, or none for HTTP";
        return Err(Error::invalid(&at, reason));
    }
    let parts = u64::try_from(time.seconds)
        .ok()
        .zip(u32::try_from(time.nanos).ok());
    match parts {
        Some((seconds, nanos)) if nanos < 1_000_000_000 => Ok(Time::new(seconds, nanos)),
        _ => Err(Error::invalid(&at, "not a duration; send a positive one")),
    }
}

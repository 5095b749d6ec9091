//! What a cluster speaks, as `HttpProtocolOptions`. Opaque clusters have none, and say so in their
//! metadata. Called by `cluster`.

use std::collections::BTreeMap;

use model::Protocol;

use crate::any::{pack, unpack};
use crate::envoy;
use crate::error::Error;
use crate::flavour::Flavour;
use crate::place::Place;
use crate::proto::cluster::{
    Cluster, ExplicitHttpConfig, HttpProtocolOptions, UseDownstreamHttpConfig,
};
use crate::proto::google::Any;

/// Both the key and the name of the type.
const OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

pub(super) fn encode(protocol: Protocol, flavour: Flavour) -> BTreeMap<String, Any> {
    let (http1, http2, pool) = match flavour {
        Flavour::Leno => Default::default(),
        Flavour::Envoy => (envoy::http1(), envoy::http2(), Some(envoy::pool())),
    };
    let explicit = |is_http1: bool| HttpProtocolOptions {
        explicit_http_config: Some(ExplicitHttpConfig {
            http_protocol_options: is_http1.then(|| http1.clone()),
            http2_protocol_options: (!is_http1).then(|| http2.clone()),
        }),
        ..HttpProtocolOptions::default()
    };
    let options = match protocol {
        Protocol::Tcp => return BTreeMap::new(),
        Protocol::Http1 => explicit(true),
        Protocol::Http2 => explicit(false),
        Protocol::Auto => HttpProtocolOptions {
            use_downstream_protocol_config: Some(UseDownstreamHttpConfig {
                http_protocol_options: Some(http1),
                http2_protocol_options: Some(http2),
            }),
            ..HttpProtocolOptions::default()
        },
    };
    let options = HttpProtocolOptions {
        common_http_protocol_options: pool,
        ..options
    };
    BTreeMap::from([(OPTIONS.to_owned(), pack(&options))])
}

/// Of a cluster that does not say it is opaque. Without any options it is Envoy's own default.
pub(super) fn decode(cluster: &Cluster, at: &Place<'_>) -> Result<Protocol, Error> {
    let at = at.field("typed_extension_protocol_options");
    let mut found = Protocol::Http1;
    for (key, options) in &cluster.typed_extension_protocol_options {
        let at = at.field(key);
        if key != OPTIONS {
            return Err(Error::unsupported(&at));
        }
        let options: HttpProtocolOptions = unpack(options, &at)?;
        let explicit = options.explicit_http_config.map(|config| {
            let has_http1 = config.http_protocol_options.is_some();
            (has_http1, config.http2_protocol_options.is_some())
        });
        found = match (explicit, options.use_downstream_protocol_config) {
            (Some((true, false)), None) => Protocol::Http1,
            (Some((false, true)), None) => Protocol::Http2,
            (None, Some(_)) => Protocol::Auto,
            _ => {
                return Err(Error::invalid(
                    &at,
                    "says no protocol; send one, or downstream's",
                ));
            }
        };
    }
    Ok(found)
}

/// Of a cluster that is opaque.
pub(super) fn decode_none(cluster: &Cluster, at: &Place<'_>) -> Result<Protocol, Error> {
    match cluster.typed_extension_protocol_options.is_empty() {
        true => Ok(Protocol::Tcp),
        false => {
            let at = at.field("typed_extension_protocol_options");
            Err(Error::invalid(
                &at,
                "opaque connections have no HTTP options; remove them",
            ))
        }
    }
}

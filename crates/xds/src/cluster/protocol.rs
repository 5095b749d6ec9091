//! What a cluster speaks, as `HttpProtocolOptions`. Opaque clusters have none, and say so in their
//! metadata. Called by `cluster`.

use std::collections::BTreeMap;

use model::Protocol;

use crate::any::{pack, unpack};
use crate::error::Error;
use crate::place::Place;
use crate::proto::cluster::{
    Cluster, ExplicitHttpConfig, HttpProtocolOptions, UseDownstreamHttpConfig,
};
use crate::proto::core::{Http1ProtocolOptions, Http2ProtocolOptions};
use crate::proto::google::Any;

/// Both the key and the name of the type.
const OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

pub(super) fn encode(protocol: Protocol) -> BTreeMap<String, Any> {
    let explicit = |http1: bool| HttpProtocolOptions {
        explicit_http_config: Some(ExplicitHttpConfig {
            http_protocol_options: http1.then_some(Http1ProtocolOptions {}),
            http2_protocol_options: (!http1).then_some(Http2ProtocolOptions {}),
        }),
        use_downstream_protocol_config: None,
    };
    let options = match protocol {
        Protocol::Tcp => return BTreeMap::new(),
        Protocol::Http1 => explicit(true),
        Protocol::Http2 => explicit(false),
        Protocol::Auto => HttpProtocolOptions {
            explicit_http_config: None,
            use_downstream_protocol_config: Some(UseDownstreamHttpConfig {
                http_protocol_options: Some(Http1ProtocolOptions {}),
                http2_protocol_options: Some(Http2ProtocolOptions {}),
            }),
        },
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

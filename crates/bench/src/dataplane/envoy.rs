//! Stock Envoy. On loopback with a static configuration of ours: one worker, access log off, TLS
//! 1.3 mutual with the peer's SPIFFE id checked on both sides, default statistics, HTTP/1.1 or
//! HTTP/2 between the two proxies. In a local mesh, what our control plane tells it.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use serde_json::{Value, json};

use super::certificates::{account, spiffe_id};
use super::{DataPlane, Hop, InMesh, Launch, Readiness, Side, find, free_port};
use crate::results::{DataPlaneVersion, EnvironmentKind, Telemetry};

const TYPES: &str = "type.googleapis.com/envoy.extensions";

/// What is to be known of it in a mesh.
const IN_MESH: [&str; 2] = [
    "envoy: configured by the mesh's control plane through its companion, as leno is: the same \
     listeners, routes, identities and limits; concurrency 1, access log off, and of its \
     statistics only those that leno shows",
    "envoy: a sidecar is the companion and Envoy, and its CPU time and memory are those of both; \
     what the companion has of it is in the files with the counters",
];

/// What the two proxies speak with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Between {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, requests of all connections multiplexed.
    Http2,
}

/// Envoy.
#[derive(Debug)]
pub struct Envoy {
    program: PathBuf,
    between: Between,
    /// Our sidecar's program, without which there is none in a mesh.
    companion: Option<PathBuf>,
}

impl Envoy {
    /// `program` is the real binary, see [`find::envoy`].
    pub fn new(program: PathBuf, between: Between, companion: Option<PathBuf>) -> Self {
        Self {
            program,
            between,
            companion,
        }
    }
}

impl DataPlane for Envoy {
    fn name(&self) -> &'static str {
        match self.between {
            Between::Http1 => "envoy",
            Between::Http2 => "envoy-h2",
        }
    }

    fn version(&self) -> anyhow::Result<DataPlaneVersion> {
        let said = find::version_of(&self.program)?;
        // `…/envoy  version: <commit>/1.40.0/Clean/RELEASE/BoringSSL`
        let number = said
            .rsplit_once("version: ")
            .and_then(|(_, rest)| rest.split('/').nth(1));
        let version = number.unwrap_or(&said).to_owned();
        let binary = Some(super::binary_of(&self.program));
        Ok(DataPlaneVersion {
            name: self.name().to_owned(),
            version,
            binary,
        })
    }

    fn launch(&self, hop: &Hop<'_>) -> anyhow::Result<Launch> {
        let (listener, admin) = (free_port()?, free_port()?);
        let config = hop.dir.join("envoy.json");
        let content = configuration(hop, self.between, listener, admin);
        fs::write(&config, format!("{content:#}\n"))
            .with_context(|| format!("writing {}", config.display()))?;
        let mut args = vec!["--config-path".into(), config.clone().into()];
        let words = "--concurrency 1 --disable-hot-restart --log-level warning";
        args.extend(words.split(' ').map(Into::into));
        let readiness = Readiness::Polled { listener, admin };
        let program = self.program.clone();
        Ok(Launch {
            program,
            args,
            config,
            readiness,
            counters: "/stats?usedonly".into(),
        })
    }

    fn notes(&self, environment: EnvironmentKind) -> Vec<String> {
        if environment == EnvironmentKind::Local {
            return IN_MESH.map(str::to_owned).to_vec();
        }
        let between = match self.between {
            Between::Http1 => "HTTP/1.1",
            Between::Http2 => "HTTP/2",
        };
        vec![format!(
            "{}: concurrency 1, {between} between the sidecars, default statistics, access log \
             and request ids off; its server sidecar accepts mutual TLS only in mode both and \
             plaintext only in mode serveronly, so it never inspects the first bytes",
            self.name()
        )]
    }

    fn telemetry(&self) -> Option<&'static str> {
        Some(match self.between {
            Between::Http1 => {
                "envoy: telemetry none rejects all of its statistics; metrics+accesslog writes a \
                 line of its own format for each request to a file"
            }
            Between::Http2 => "envoy-h2: telemetry as with envoy",
        })
    }

    fn in_mesh(&self) -> Option<InMesh> {
        let companion = self.companion.clone()?;
        // In a mesh, what is spoken between two of them is the control plane's affair.
        (self.between == Between::Http1).then(|| InMesh::Envoy {
            companion,
            program: self.program.clone(),
        })
    }
}

fn configuration(
    hop: &Hop<'_>,
    between: Between,
    listener: SocketAddr,
    admin: SocketAddr,
) -> Value {
    let mut bootstrap = json!({
        "node": {"id": account(hop.side), "cluster": "leno-bench"},
        "admin": {"address": address(admin)},
        "static_resources": {
            "listeners": [{
                "name": hop.side.name(),
                "address": address(listener),
                "filter_chains": [filter_chain(hop, between)],
            }],
            "clusters": [cluster(hop, between)],
        },
    });
    if hop.telemetry == Telemetry::None {
        bootstrap["stats_config"] = json!({"stats_matcher": {"reject_all": true}});
    }
    bootstrap
}

fn address(addr: SocketAddr) -> Value {
    json!({"socket_address": {"address": addr.ip(), "port_value": addr.port()}})
}

fn filter_chain(hop: &Hop<'_>, between: Between) -> Value {
    let http = "filters.network.http_connection_manager.v3.HttpConnectionManager";
    let router = "filters.http.router.v3.Router";
    let mut chain = json!({"filters": [{
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": {
            "@type": format!("{TYPES}.{http}"),
            "stat_prefix": hop.side.name(),
            "generate_request_id": false,
            "route_config": {"virtual_hosts": [{
                "name": "echo",
                "domains": ["*"],
                "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "echo"}}],
            }]},
            "http_filters": [{
                "name": "envoy.filters.http.router",
                "typed_config": {"@type": format!("{TYPES}.{router}")},
            }],
        },
    }]});
    if hop.telemetry == Telemetry::MetricsAndAccessLog {
        let logger = "access_loggers.file.v3.FileAccessLog";
        chain["filters"][0]["typed_config"]["access_log"] = json!([{
            "name": "envoy.access_loggers.file",
            "typed_config": {
                "@type": format!("{TYPES}.{logger}"),
                "path": hop.access_log(),
            },
        }]);
    }
    if hop.mutual_tls && hop.side == Side::Server {
        let mut tls = tls("DownstreamTlsContext", hop, Side::Client, between);
        tls["typed_config"]["require_client_certificate"] = true.into();
        chain["transport_socket"] = tls;
    }
    chain
}

fn cluster(hop: &Hop<'_>, between: Between) -> Value {
    let mut cluster = json!({
        "name": "echo",
        "type": "STATIC",
        "connect_timeout": "1s",
        "load_assignment": {
            "cluster_name": "echo",
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address(hop.upstream)}}]}],
        },
    });
    if hop.mutual_tls && hop.side == Side::Client {
        cluster["transport_socket"] = tls("UpstreamTlsContext", hop, Side::Server, between);
        if between == Between::Http2 {
            let options = "upstreams.http.v3.HttpProtocolOptions";
            cluster["typed_extension_protocol_options"] = json!({
                "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                    "@type": format!("{TYPES}.{options}"),
                    "explicit_http_config": {"http2_protocol_options": {}},
                },
            });
        }
    }
    cluster
}

fn tls(context: &str, hop: &Hop<'_>, peer: Side, between: Between) -> Value {
    let alpn = match between {
        Between::Http1 => "http/1.1",
        Between::Http2 => "h2",
    };
    let certificates = hop.certificates;
    json!({
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": format!("{TYPES}.transport_sockets.tls.v3.{context}"),
            "common_tls_context": {
                "tls_params": {
                    "tls_minimum_protocol_version": "TLSv1_3",
                    "tls_maximum_protocol_version": "TLSv1_3",
                },
                "alpn_protocols": [alpn],
                "tls_certificates": [{
                    "certificate_chain": {"filename": certificates.chain(hop.side)},
                    "private_key": {"filename": certificates.key(hop.side)},
                }],
                "validation_context": {
                    "trusted_ca": {"filename": certificates.trust_bundle()},
                    "match_typed_subject_alt_names": [
                        {"san_type": "URI", "matcher": {"exact": spiffe_id(peer)}},
                    ],
                },
            },
        },
    })
}

//! The admin pages, as much of them as is shown. Unknown keys are passed over and missing ones are
//! empty: a sidecar may be of another version than the command.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// `/config_dump`.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Dump {
    pub(super) generation: u64,
    pub(super) applied: Option<u64>,
    pub(super) config: Config,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Config {
    pub(super) workload: Workload,
    pub(super) listeners: Vec<Listener>,
    pub(super) clusters: Vec<Cluster>,
    pub(super) control: Option<Control>,
    pub(super) admin: Option<String>,
    pub(super) metrics: Option<String>,
    /// An address, or an object that has one.
    pub(super) dns: Value,
    pub(super) workers: u64,
    pub(super) access_log: Value,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Workload {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) service_account: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Control {
    pub(super) addresses: Vec<String>,
    pub(super) tls: Trust,
}

/// What the control plane must prove.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Trust {
    Mesh {
        identity: String,
    },
    Files {
        name: String,
    },
    #[default]
    Plaintext,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Listener {
    pub(super) name: String,
    pub(super) direction: String,
    pub(super) address: String,
    pub(super) additional_addresses: Vec<String>,
    pub(super) bind: bool,
    pub(super) original_destination: bool,
    pub(super) tls: String,
    pub(super) protocol: String,
    /// For clients outside of the mesh: `plaintext`, or an object with `tls`.
    pub(super) edge: Value,
    pub(super) routes: Vec<Route>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Route {
    /// `any`, or an object with `exact` or `suffix`.
    pub(super) hosts: Vec<Value>,
    pub(super) prefix: String,
    pub(super) exact: bool,
    pub(super) redirect: Option<Redirect>,
    pub(super) rewrite: Value,
    pub(super) timeout: Option<String>,
    pub(super) backends: Vec<Backend>,
    pub(super) allow: Option<Vec<String>>,
    pub(super) filters: Vec<Value>,
}

/// Where clients are told to ask.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Redirect {
    pub(super) scheme: String,
    pub(super) host: Option<String>,
    pub(super) port: u16,
    pub(super) status: u16,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Backend {
    pub(super) cluster: String,
    pub(super) weight: u32,
}

/// One of `/clusters`.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Cluster {
    pub(super) name: String,
    pub(super) balance: String,
    pub(super) protocol: String,
    pub(super) passthrough: bool,
    pub(super) discovery: String,
    pub(super) endpoints: Vec<Endpoint>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Endpoint {
    pub(super) address: String,
    pub(super) transport: String,
    pub(super) identities: Vec<String>,
    pub(super) unhealthy_workers: u64,
    /// None: the sidecar does not say.
    pub(super) active_requests: Option<u64>,
}

/// `/certs`, which is null without any.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Certs {
    pub(super) id: String,
    pub(super) trust_domain: String,
    pub(super) certificate_chain: Vec<Certificate>,
    pub(super) trust_bundle: Vec<Certificate>,
    pub(super) revoked: u64,
    pub(super) warnings: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Certificate {
    pub(super) subject: String,
    pub(super) issuer: String,
    pub(super) serial: String,
    pub(super) not_before: String,
    pub(super) not_after: String,
    pub(super) is_authority: bool,
}

/// `/control`, which is null without one.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Conversation {
    pub(super) connected: Option<String>,
    pub(super) since: String,
    pub(super) last_error: Option<String>,
    pub(super) kinds: BTreeMap<String, Heard>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Heard {
    pub(super) accepted: u64,
    pub(super) refused: u64,
    pub(super) last_refusal: Option<String>,
}

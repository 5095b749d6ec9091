//! What the two sidecars are told, in the variants that reloads go through. Called by the pair;
//! pure text.

use std::fmt::Write;

/// What differs from one reload to the next.
pub(super) struct Variant {
    limits: &'static str,
    /// Which of the two endpoints of each cluster there are.
    endpoints: &'static [usize],
}

/// Endpoints come and go, never all of them; limits change that are looked at per connection, per
/// request, and by the pool.
pub(super) const VARIANTS: &[Variant] = &[
    Variant {
        limits: "",
        endpoints: &[0, 1],
    },
    Variant {
        limits: "poolConnections: 4, streamsPerConnection: 2",
        endpoints: &[1],
    },
    Variant {
        limits: "streams: 100, keepaliveInterval: 1s, headBytes: 16384",
        endpoints: &[0, 1],
    },
    Variant {
        limits: "poolConnections: 0, streamsPerConnection: 64, bufferBytes: 1048576",
        endpoints: &[0],
    },
];

/// Unused connections go soon, so that the end of a run sees them gone. The time to connect is far
/// above what a busy machine needs: its slowness is no fault of the sidecar's.
const LIMITS: &str = "poolIdleTimeout: 2s, connectTimeout: 10s";

const HEAD: &str = "\
workload: {name: NAME}
identity: {certificate: IDENTITY/NAME.pem, key: IDENTITY/NAME.key, trustBundle: ca.pem}
admin: 'off'
metrics: '127.0.0.1:0'
";

/// Where applications listen.
pub(super) struct Applications {
    /// `leno load serve`, twice.
    pub(super) web: [String; 2],
    /// Their TCP echoes.
    pub(super) tcp: [String; 2],
    /// Our own, for chunks and upgrades.
    pub(super) own: String,
}

/// Names of the inbound sidecar's listeners, in the order of a cluster's endpoints.
pub(super) const WEB: [&str; 2] = ["web0", "web1"];
/// As [`WEB`], for what is passed on unread.
pub(super) const TCP: [&str; 2] = ["tcp0", "tcp1"];
/// The host under which our own application is asked.
pub(super) const OWN_HOST: &str = "own";

/// The folder with the certificates in force, beside the files.
pub(super) const IDENTITY: &str = "identity";

/// The inbound sidecar's file.
pub(super) fn inbound(variant: &Variant, applications: &Applications) -> String {
    let mut text = head("server", variant);
    for name in WEB {
        let routes = format!("{{hosts: [{OWN_HOST}], cluster: own}}, {{cluster: web}}");
        listener(
            &mut text,
            (name, "inbound"),
            "protocol: http, tls: strict",
            &routes,
        );
    }
    for name in TCP {
        let keys = "protocol: tcp, tls: strict";
        listener(&mut text, (name, "inbound"), keys, "{cluster: tcp}");
    }
    text.push_str("clusters:\n");
    cluster(&mut text, "web", "", &pick(variant, &applications.web));
    cluster(&mut text, "tcp", "", &pick(variant, &applications.tcp));
    cluster(&mut text, "own", "", &[&applications.own]);
    text
}

/// The outbound sidecar's file, with two listeners per transport; `web` and `tcp` are addresses of
/// the inbound one.
pub(super) fn outbound(variant: &Variant, web: &[String; 2], tcp: &[String; 2]) -> String {
    let mut text = head("client", variant);
    for transport in ["leno", "mtls"] {
        let (unread, routes) = (
            format!("{transport}-tcp"),
            format!("{{cluster: {transport}}}"),
        );
        listener(
            &mut text,
            (transport, "outbound"),
            "protocol: http",
            &routes,
        );
        let routes = format!("{{cluster: {unread}}}");
        listener(&mut text, (&unread, "outbound"), "protocol: tcp", &routes);
    }
    text.push_str("clusters:\n");
    for transport in ["leno", "mtls"] {
        let keys = format!(
            ", transport: {transport}, identities: ['spiffe://cluster.local/ns/default/sa/server']"
        );
        cluster(&mut text, transport, &keys, &pick(variant, web));
        let unread = format!("{transport}-tcp");
        cluster(&mut text, &unread, &keys, &pick(variant, tcp));
    }
    text
}

fn head(name: &str, variant: &Variant) -> String {
    let mut text = HEAD.replace("NAME", name).replace("IDENTITY", IDENTITY);
    let comma = if variant.limits.is_empty() { "" } else { ", " };
    add(
        &mut text,
        &format!(
            "limits: {{{LIMITS}{comma}{}}}\nlisteners:\n",
            variant.limits
        ),
    );
    text
}

fn listener(text: &mut String, (name, direction): (&str, &str), keys: &str, routes: &str) {
    let address = "address: '127.0.0.1:0', upgrades: [websocket]";
    let line = format!("- {{name: {name}, direction: {direction}, {address}, {keys}, ");
    add(text, &format!("{line}routes: [{routes}]}}\n"));
}

fn cluster(text: &mut String, name: &str, keys: &str, addresses: &[&String]) {
    add(text, &format!("- name: {name}\n  endpoints:\n"));
    for address in addresses {
        add(text, &format!("  - {{address: '{address}'{keys}}}\n"));
    }
}

fn add(text: &mut String, more: &str) {
    text.write_str(more).expect("a string takes everything");
}

fn pick<'a>(variant: &Variant, addresses: &'a [String; 2]) -> Vec<&'a String> {
    variant
        .endpoints
        .iter()
        .map(|place| &addresses[*place])
        .collect()
}

//! `leno proxy listeners`: where connections come in.

use local::inspect::Address;

use super::envoy;
use super::pages::{Dump, Listener};
use crate::output::{Output, Screen, Table};

const HEADS: [&str; 7] = [
    "LISTENER",
    "ADDRESS",
    "DIRECTION",
    "TAKES",
    "TLS",
    "PROTOCOL",
    "ROUTES",
];

pub(super) fn show(pages: &Address, output: Output) -> anyhow::Result<()> {
    let page = pages.json("/config_dump")?;
    if envoy::is_companion(&page) {
        let (page, listeners) = envoy::listeners(pages)?;
        return output.print(&page, |screen| render(&listeners, screen));
    }
    let dump: Dump = super::read(page.clone())?;
    output.print(&page["config"]["listeners"], |screen| {
        render(&dump.config.listeners, screen)
    })
}

fn render(listeners: &[Listener], screen: Screen) -> String {
    if listeners.is_empty() {
        return "no listeners: it takes no connection\n".to_owned();
    }
    let mut table = Table::new(&HEADS);
    for listener in listeners {
        let more = listener.additional_addresses.iter();
        let addresses = std::iter::once(&listener.address).chain(more);
        let addresses: Vec<_> = addresses.map(String::as_str).collect();
        let row = [
            &listener.name,
            &addresses.join(" "),
            &listener.direction,
            takes(listener),
            tls(listener),
            &listener.protocol,
            &routes(listener),
        ];
        table.push(row.map(|cell| cell.to_owned().into()));
    }
    table.render(screen)
}

/// How connections come to it: redirected from its address, redirected from any that is nobody
/// else's, or by its own socket.
const fn takes(listener: &Listener) -> &'static str {
    match (listener.bind, listener.original_destination) {
        (false, _) => "redirected",
        (true, true) => "all others",
        (true, false) => "socket",
    }
}

/// Mesh TLS, or a gateway's TLS to clients outside of the mesh.
fn tls(listener: &Listener) -> &str {
    match &listener.edge {
        edge if edge.get("tls").is_some() => "gateway's own",
        edge if edge.is_string() => "none (gateway)",
        _ => &listener.tls,
    }
}

/// The cluster where there is but one, else how many routes there are.
fn routes(listener: &Listener) -> String {
    match listener.routes.as_slice() {
        [] => "none: 404".to_owned(),
        [route] if route.backends.len() == 1 => route.backends[0].cluster.clone(),
        [_] => "1 route".to_owned(),
        routes => format!("{} routes", routes.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn says_how_connections_come_and_where_they_go() {
        let route = |cluster: &str| json!({"backends": [{"cluster": cluster, "weight": 1}]});
        let listeners: Vec<Listener> = super::super::read(json!([
            {"name": "inbound", "address": "0.0.0.0:15003", "additionalAddresses": ["[::]:15003"],
             "direction": "inbound", "bind": true, "originalDestination": true,
             "tls": "permissive", "protocol": "tcp", "routes": [route("passthrough")]},
            {"name": "hello", "address": "10.78.0.9:80", "direction": "outbound",
             "tls": "disabled", "protocol": "auto", "routes": [route("a"), route("b")]},
            {"name": "own", "address": "127.0.0.1:80", "direction": "outbound", "bind": true,
             "tls": "disabled", "protocol": "http", "routes": []},
            {"name": "edge", "address": "0.0.0.0:443", "direction": "outbound", "bind": true,
             "edge": {"tls": []}, "protocol": "http", "routes": [{"redirect": {}}]},
        ]))
        .unwrap();
        let expected = "\
LISTENER  ADDRESS                   DIRECTION  TAKES       TLS            PROTOCOL  ROUTES
inbound   0.0.0.0:15003 [::]:15003  inbound    all others  permissive     tcp       passthrough
hello     10.78.0.9:80              outbound   redirected  disabled       auto      2 routes
own       127.0.0.1:80              outbound   socket      disabled       http      none: 404
edge      0.0.0.0:443               outbound   socket      gateway's own  http      1 route
";
        assert_eq!(render(&listeners, Screen::default()), expected);
    }
}

//! `leno proxy routes`: which requests go where, and who may send them.

use local::inspect::Address;
use serde_json::{Value, json};

use super::envoy;
use super::pages::{Backend, Dump, Listener, Redirect, Route};
use crate::output::{Cell, Output, Screen, Table, Tone};

const HEADS: [&str; 7] = [
    "LISTENER", "HOST", "PATH", "CLUSTER", "SHARE", "ALLOW", "CHANGES",
];

pub(super) fn show(pages: &Address, output: Output) -> anyhow::Result<()> {
    let page = pages.json("/config_dump")?;
    if envoy::is_companion(&page) {
        let (page, listeners) = envoy::listeners(pages)?;
        return output.print(&page["routes"], |screen| render(&listeners, screen));
    }
    let dump: Dump = super::read(page.clone())?;
    output.print(&flatten(&page), |screen| {
        render(&dump.config.listeners, screen)
    })
}

/// Every route with the name of its listener.
fn flatten(page: &Value) -> Value {
    let listeners = page["config"]["listeners"].as_array().into_iter().flatten();
    let routes = listeners.flat_map(|listener| {
        let routes = listener["routes"].as_array().into_iter().flatten();
        routes.map(|route| json!({"listener": listener["name"], "route": route}))
    });
    routes.collect()
}

fn render(listeners: &[Listener], screen: Screen) -> String {
    let mut table = Table::new(&HEADS);
    let mut is_empty = true;
    for listener in listeners {
        let mut name = listener.name.as_str();
        for row in listener.routes.iter().flat_map(rows) {
            table.push(std::iter::once(name.into()).chain(row));
            // What is said once holds for the rows below.
            (name, is_empty) = ("", false);
        }
    }
    if is_empty {
        return "no routes: every request is answered 404\n".to_owned();
    }
    table.render(screen)
}

/// A row for each backend; what holds for all of them is said with the first.
fn rows(route: &Route) -> Vec<[Cell; 6]> {
    let whole: u64 = route.backends.iter().map(|one| u64::from(one.weight)).sum();
    let mut targets: Vec<_> = route
        .backends
        .iter()
        .map(|one| target(one, whole))
        .collect();
    if let Some(redirect) = &route.redirect {
        targets = vec![(elsewhere(redirect), "-".to_owned())];
    }
    let mut first = Some([hosts(route), path(route), changes(route)]);
    let row = |(cluster, share): (String, String)| {
        let is_first = first.is_some();
        let [hosts, path, changes] = first.take().unwrap_or_default();
        let allow = if is_first {
            allow(route)
        } else {
            Cell::default()
        };
        [
            hosts.into(),
            path.into(),
            cluster.into(),
            Cell::number(share),
            allow,
            changes.into(),
        ]
    };
    targets.into_iter().map(row).collect()
}

fn target(backend: &Backend, whole: u64) -> (String, String) {
    let share = (u64::from(backend.weight) * 100).checked_div(whole);
    let share = share.map_or_else(|| "-".to_owned(), |share| format!("{share} %"));
    (backend.cluster.clone(), share)
}

fn elsewhere(redirect: &Redirect) -> String {
    let host = redirect.host.as_deref().unwrap_or("(same)");
    format!(
        "{} to {}://{host}:{}",
        redirect.status, redirect.scheme, redirect.port
    )
}

fn path(route: &Route) -> String {
    if route.exact {
        return format!("= {}", route.prefix);
    }
    route.prefix.clone()
}

fn allow(route: &Route) -> Cell {
    match &route.allow {
        None => "everybody".into(),
        Some(ids) if ids.is_empty() => Cell::toned("nobody", Tone::Odd),
        Some(ids) => ids.join(", ").into(),
    }
}

/// What becomes of a request on the way.
fn changes(route: &Route) -> String {
    let mut changes: Vec<_> = route.filters.iter().map(filter).collect();
    let rewritten = route.rewrite.as_object().into_iter().flatten();
    let rewritten = rewritten.filter(|(_, value)| !value.is_null());
    changes.extend(rewritten.map(|(what, _)| format!("rewrites {what}")));
    changes.extend(
        route
            .timeout
            .iter()
            .map(|timeout| format!("timeout {timeout}")),
    );
    if changes.is_empty() {
        return "-".to_owned();
    }
    changes.join(", ")
}

fn hosts(route: &Route) -> String {
    let host = |host: &Value| match host {
        Value::String(_) => "*".to_owned(),
        _ => match (host["exact"].as_str(), host["suffix"].as_str()) {
            (Some(exact), _) => exact.to_owned(),
            (None, Some(suffix)) => format!("*{suffix}"),
            (None, None) => host.to_string(),
        },
    };
    route.hosts.iter().map(host).collect::<Vec<_>>().join(", ")
}

/// The kind of a filter with the header that it is about.
fn filter(filter: &Value) -> String {
    let kinds = filter.as_object().into_iter().flatten();
    let shown = kinds.map(|(kind, settings)| match settings["name"].as_str() {
        Some(name) => format!("{kind} {name}"),
        None => kind.clone(),
    });
    shown.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_whole_and_who_may_call_is_said() {
        let listeners: Vec<Listener> = super::super::read(json!([{"name": "hello", "routes": [
            {"hosts": [{"exact": "hi"}, {"suffix": ".b.io"}], "prefix": "/api",
             "backends": [{"cluster": "v1", "weight": 9}, {"cluster": "v2", "weight": 1}],
             "allow": ["spiffe://td/b"],
             "filters": [{"setRequestHeader": {"name": "x-a", "value": "1"}}]},
            {"hosts": ["any"], "prefix": "/", "backends": [{"cluster": "v1", "weight": 1}],
             "allow": []},
            {"hosts": ["any"], "prefix": "/old", "exact": true, "backends": [],
             "redirect": {"scheme": "https", "host": null, "port": 443, "status": 301}},
        ]}]))
        .unwrap();
        let expected = "\
LISTENER  HOST        PATH    CLUSTER                    SHARE  ALLOW          CHANGES
hello     hi, *.b.io  /api    v1                          90 %  spiffe://td/b  setRequestHeader x-a
                              v2                          10 %
          *           /       v1                         100 %  nobody         -
          *           = /old  301 to https://(same):443      -  everybody      -
";
        assert_eq!(render(&listeners, Screen::default()), expected);
    }
}

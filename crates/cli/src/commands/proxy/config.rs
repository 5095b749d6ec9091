//! `leno proxy config`: what a sidecar is, in a few lines.

use std::fmt::Write as _;

use local::inspect::Address;
use serde_json::{Value, json};

use super::envoy;
use super::pages::{Certs, Cluster, Conversation, Dump, Trust};
use crate::output::{Output, Screen, Tone};

/// Width of what stands before the values.
const NAME_WIDTH: usize = 14;

pub(super) fn show(pages: &Address, output: Output) -> anyhow::Result<()> {
    let dump = pages.json("/config_dump")?;
    let control = pages.json("/control")?;
    let certs = pages.json("/certs")?;
    let is_ready = pages.text("/ready").is_ok();
    let mut whole = json!({"ready": is_ready, "configuration": dump, "control": control});
    let envoy = match envoy::is_companion(&dump) {
        true => Some(envoy::summary(pages)?),
        false => None,
    };
    if let Some(envoy) = &envoy {
        whole["envoy"] = envoy.page.clone();
    }
    let about = About {
        envoy,
        dump: super::read(dump)?,
        control: super::read(control)?,
        certs: super::read(certs)?,
        is_ready,
    };
    output.print(&whole, |screen| render(&about, screen))
}

struct About {
    dump: Dump,
    control: Option<Conversation>,
    certs: Option<Certs>,
    is_ready: bool,
    /// What it is the companion of.
    envoy: Option<envoy::Summary>,
}

fn render(about: &About, screen: Screen) -> String {
    let config = &about.dump.config;
    let workload = &config.workload;
    let certs = about.certs.as_ref();
    let identity = certs.map_or("none: plaintext only", |certs| &certs.id);
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:NAME_WIDTH$}{value}");
    };
    let name = format!("{}.{}", workload.name, workload.namespace);
    line("workload", &name);
    line("account", &workload.service_account);
    line("identity", identity);
    let ready = match about.is_ready {
        true => Tone::Good.paint("yes", screen),
        false => Tone::Bad.paint("no: starting or draining", screen),
    };
    line("ready", &ready);
    if let Some(envoy) = &about.envoy {
        line(
            "data plane",
            &format!("envoy {}, {}", envoy.version, envoy.state),
        );
    } else {
        line("told", &told(&about.dump));
    }
    line("control plane", &control(about, screen));
    let of_envoy = about
        .envoy
        .as_ref()
        .map(|envoy| (&envoy.listeners, &envoy.clusters));
    let (listeners, all) = of_envoy.unwrap_or((&config.listeners, &config.clusters));
    line("listeners", &listeners.len().to_string());
    line("clusters", &clusters(all));
    let workers = match config.workers {
        0 => "as many as it may use CPUs".to_owned(),
        count => count.to_string(),
    };
    line("workers", &workers);
    line("admin", config.admin.as_deref().unwrap_or("off"));
    line("metrics", config.metrics.as_deref().unwrap_or("off"));
    line("names (DNS)", &address(&config.dns));
    line("access log", &address(&config.access_log));
    text + &refusals(about.control.as_ref(), screen)
}

/// Which configuration is in force, and whether all workers have it.
fn told(dump: &Dump) -> String {
    let generation = dump.generation;
    match dump.applied {
        Some(applied) if applied < generation => {
            format!("generation {generation}, workers are still at {applied}")
        }
        _ => format!("generation {generation}, in force"),
    }
}

fn control(about: &About, screen: Screen) -> String {
    let Some(control) = &about.control else {
        return "none: configured by its file".to_owned();
    };
    if let Some(address) = &control.connected {
        return format!("{address} since {}", control.since);
    }
    let told = about.dump.config.control.as_ref();
    let wanted = told.map(|told| format!(" at {}", told.addresses.join(", ")));
    let why = control.last_error.as_deref().unwrap_or("not tried yet");
    let since = &control.since;
    let text = format!(
        "NOT CONNECTED{} since {since}: {why}",
        wanted.unwrap_or_default()
    );
    let who = told.and_then(|told| match &told.tls {
        Trust::Mesh { identity: name } | Trust::Files { name } => Some(name),
        Trust::Plaintext => None,
    });
    let who = who.map(|name| format!(" (it must prove to be {name})"));
    Tone::Bad.paint(&(text + &who.unwrap_or_default()), screen)
}

fn clusters(all: &[Cluster]) -> String {
    let endpoints: usize = all.iter().map(|one| one.endpoints.len()).sum();
    format!("{} with {endpoints} endpoints", all.len())
}

/// An address or path, by itself, several, or as the key of an object.
fn address(value: &Value) -> String {
    let value = ["listen", "path"]
        .iter()
        .find_map(|key| value.get(key))
        .unwrap_or(value);
    let several = value.as_array().into_iter().flatten();
    let all: Vec<_> = several.chain([value]).filter_map(Value::as_str).collect();
    match all.as_slice() {
        [] => "off".to_owned(),
        all => all.join(", "),
    }
}

/// What the control plane sent and the sidecar does not take.
fn refusals(control: Option<&Conversation>, screen: Screen) -> String {
    let kinds = control.into_iter().flat_map(|control| &control.kinds);
    let refused = kinds.filter(|(_, heard)| heard.refused > 0);
    let lines = refused.map(|(kind, heard)| {
        let why = heard.last_refusal.as_deref().unwrap_or_default();
        let (refused, accepted) = (heard.refused, heard.accepted);
        let text = format!("{kind}: {refused} refused, {accepted} accepted; the last: {why}");
        Tone::Bad.paint(&text, screen) + "\n"
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(control: Value) -> About {
        let dump = json!({"generation": 4, "applied": 4, "config": {
            "workload": {"name": "hello-0", "namespace": "default", "serviceAccount": "hello"},
            "control": {"addresses": ["10.77.0.1:15128"],
                        "tls": {"mesh": {"identity": "spiffe://td/c", "token": null}}},
            "admin": "127.0.0.1:15000", "metrics": "[::]:15010",
            "dns": {"listen": ["[::]:15053", "10.77.0.1:53"]},
            "clusters": [{"name": "a", "endpoints": [{"address": "10.0.0.1:1"}]}],
        }});
        About {
            dump: super::super::read(dump).unwrap(),
            control: super::super::read(control).unwrap(),
            certs: super::super::read(json!({"id": "spiffe://td/ns/default/sa/hello"})).unwrap(),
            is_ready: true,
            envoy: None,
        }
    }

    #[test]
    fn says_what_it_is_in_a_few_lines() {
        let since = "2030-01-01T00:00:00Z";
        let shown = render(
            &about(json!({"connected": "10.77.0.1:15128", "since": since})),
            Screen::default(),
        );
        let expected = "\
workload      hello-0.default
account       hello
identity      spiffe://td/ns/default/sa/hello
ready         yes
told          generation 4, in force
control plane 10.77.0.1:15128 since 2030-01-01T00:00:00Z
listeners     0
clusters      1 with 1 endpoints
workers       as many as it may use CPUs
admin         127.0.0.1:15000
metrics       [::]:15010
names (DNS)   [::]:15053, 10.77.0.1:53
access log    off
";
        assert_eq!(shown, expected);
    }

    #[test]
    fn says_who_is_missing_and_what_was_refused() {
        let heard = json!({"accepted": 3, "refused": 1, "lastRefusal": "unknown field x"});
        let control = json!({"connected": null, "since": "2030-01-01T00:00:00Z",
                             "lastError": "connection refused", "kinds": {"cluster": heard}});
        let shown = render(&about(control), Screen::default());
        let away = "NOT CONNECTED at 10.77.0.1:15128 since 2030-01-01T00:00:00Z: connection \
                    refused (it must prove to be spiffe://td/c)\n";
        assert!(shown.contains(away), "{shown}");
        let refused = "cluster: 1 refused, 3 accepted; the last: unknown field x\n";
        assert!(shown.ends_with(refused), "{shown}");
        let by_file = render(&about(Value::Null), Screen::default());
        assert!(
            by_file.contains("none: configured by its file"),
            "{by_file}"
        );
    }
}

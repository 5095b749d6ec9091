//! YAML in, model out: each `translate/*.yaml` beside what is made of it, in a text that an
//! operator can read. `LENO_REFRESH=1` writes the outcomes anew, for a reader to judge.

#![allow(clippy::unwrap_used, reason = "a test says with a panic what is wrong")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use control::addresses::Book;
use control::index::{Changes, Index};
use control::kinds::{DataPlane, Resource};
use control::source::Source;
use control::translate::{Access, Mesh, Reach, ServiceKey, translate};
use model::{Cluster, Edge, Endpoint, HostMatch, Listener, Route};

fn read(paths: Vec<PathBuf>) -> Vec<Arc<Resource>> {
    Source::open(paths)
        .read()
        .unwrap_or_else(|faults| panic!("{faults}"))
}

/// What is made of `index`, and the odd things about it.
fn make(index: &mut Index) -> Mesh {
    let mut book = Book::default();
    let mut changes = index.take_changes();
    book.settle(index, &mut changes);
    translate(index, &book, None, &changes)
}

fn show(index: &Index, mesh: &Mesh) -> String {
    let mut out = String::new();
    for fault in index.warnings() {
        let place = fault.origin.place.map_or(0, |place| place.line);
        writeln!(
            out,
            "warning, line {place}: {}; {}",
            fault.message, fault.hint
        )
        .unwrap();
    }
    writeln!(out, "common").unwrap();
    show_parts(&mut out, &mesh.common.listeners, &mesh.common.clusters);
    for (key, parts) in &mesh.services {
        writeln!(out, "service {key}, {}", callers(&mesh.access[key])).unwrap();
        show_parts(&mut out, &parts.listeners, &parts.clusters);
    }
    for (key, parts) in &mesh.workloads {
        let on = match parts.data_plane {
            DataPlane::Leno => "",
            DataPlane::Envoy => ", on Envoy",
        };
        writeln!(out, "workload {key}, {}{on}", parts.identity).unwrap();
        show_parts(&mut out, &parts.listeners, &parts.clusters);
        match &parts.reach {
            Reach::All => writeln!(out, "  reaches all").unwrap(),
            Reach::Only(keys) => {
                let keys: Vec<_> = keys.iter().map(ToString::to_string).collect();
                writeln!(out, "  reaches only {}", keys.join(" ")).unwrap();
            }
        }
    }
    out
}

fn callers(access: &Access) -> String {
    match access {
        Access::Open => "for everybody".to_owned(),
        Access::Closed(callers) => {
            let callers: Vec<_> = callers.iter().map(ToString::to_string).collect();
            format!("only for {}", callers.join(" "))
        }
    }
}

fn show_parts(out: &mut String, listeners: &[Listener], clusters: &[Cluster]) {
    listeners
        .iter()
        .for_each(|listener| show_listener(out, listener));
    clusters
        .iter()
        .for_each(|cluster| show_cluster(out, cluster));
}

/// Every field but those that are the same on all listeners, which are checked.
fn show_listener(out: &mut String, listener: &Listener) {
    let Listener {
        name,
        direction,
        address: _,
        additional_addresses: _,
        bind,
        original_destination,
        names,
        hosts,
        port_name,
        tls,
        edge,
        protocol,
        detect_timeout,
        upgrades,
        connect,
        proxy_protocol,
        request_id,
        forwarded_for,
        routes,
    } = listener;
    assert_eq!(*detect_timeout, Listener::DETECT_TIMEOUT);
    assert_eq!(upgrades, &["websocket"]);
    assert!(!connect && !proxy_protocol);
    // Only whoever comes from outside has left nothing behind yet.
    assert_eq!([*request_id, *forwarded_for], [edge.is_some(); 2]);
    assert!(*bind || !original_destination);
    let bind = if *bind { ", bound" } else { "" };
    writeln!(
        out,
        "  listener {name}, {}, tls {tls:?}, {protocol:?}{bind}",
        direction.label()
    )
    .unwrap();
    let addresses: Vec<_> = listener
        .addresses()
        .map(|address| address.to_string())
        .collect();
    writeln!(out, "    at {}", addresses.join(" ")).unwrap();
    show_edge(out, edge.as_ref());
    if !names.is_empty() {
        writeln!(out, "    named {}", names.join(" ")).unwrap();
    }
    for host in hosts {
        let addresses = host.addresses.iter().map(ToString::to_string);
        let addresses: Vec<_> = addresses.collect();
        writeln!(out, "      {} at {}", host.name, addresses.join(" ")).unwrap();
    }
    if let Some(name) = port_name {
        writeln!(out, "    port {name}").unwrap();
    }
    routes.iter().for_each(|route| show_route(out, route));
}

fn show_edge(out: &mut String, edge: Option<&Edge>) {
    match edge {
        None => {}
        Some(Edge::Plaintext) => writeln!(out, "    from outside, plaintext").unwrap(),
        Some(Edge::Tls(shown)) => {
            for one in shown {
                let hosts: Vec<_> = one.hosts.iter().map(host).collect();
                let (hosts, name) = (hosts.join(" "), &one.certificate);
                writeln!(out, "    from outside, {hosts} is shown {name}").unwrap();
            }
        }
    }
}

fn host(host: &HostMatch) -> String {
    match host {
        HostMatch::Any => "*".to_owned(),
        HostMatch::Exact(name) => name.clone(),
        HostMatch::Suffix(suffix) => format!("*{suffix}"),
    }
}

fn show_route(out: &mut String, route: &Route) {
    let Route {
        hosts,
        prefix,
        backends,
        allow,
        filters,
        exact,
        redirect,
        rewrite,
        timeout,
    } = route;
    let hosts: Vec<_> = hosts.iter().map(host).collect();
    let end = if *exact { "$" } else { "" };
    let backends = backends.iter();
    let backends = backends.map(|backend| format!("{} × {}", backend.weight, backend.cluster));
    let backends: Vec<_> = backends.collect();
    writeln!(
        out,
        "    route {} {prefix}{end} → {}",
        hosts.join(" "),
        backends.join(", ")
    )
    .unwrap();
    if let Some(to) = redirect {
        writeln!(out, "      {to:?}").unwrap();
    }
    if !rewrite.is_empty() {
        writeln!(out, "      {rewrite:?}").unwrap();
    }
    if let Some(timeout) = timeout {
        writeln!(out, "      within {timeout:?}").unwrap();
    }
    if let Some(allow) = allow {
        writeln!(out, "      allow {allow:?}").unwrap();
    }
    for filter in filters {
        writeln!(out, "      {filter:?}").unwrap();
    }
}

fn show_cluster(out: &mut String, cluster: &Cluster) {
    let Cluster {
        name,
        balance,
        protocol,
        proxy_protocol,
        discovery,
        passthrough,
        endpoints,
    } = cluster;
    assert_eq!(*proxy_protocol, None);
    let passthrough = if *passthrough { ", passthrough" } else { "" };
    writeln!(
        out,
        "  cluster {name}, {balance:?}, {protocol:?}, {discovery:?}{passthrough}"
    )
    .unwrap();
    for Endpoint {
        address,
        transport,
        identities,
    } in endpoints
    {
        let transport = transport.label();
        writeln!(
            out,
            "    {address} {transport} {}",
            identities.join(" ").trim_end()
        )
        .unwrap();
    }
}

/// A certificate with its key as a Secret called `cert`.
fn secret(host: &str) -> (String, Arc<Resource>) {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new([host.to_owned()]).unwrap();
    let certificate = certificate.self_signed(&key).unwrap();
    let chain = certificate.pem();
    let plain = |text: &str| text.replace('\n', "\n    ");
    let (one, other) = (plain(&chain), plain(&key.serialize_pem()));
    let text = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: cert}}\ntype: kubernetes.io/tls\n\
         stringData:\n  tls.crt: |\n    {one}\n  tls.key: |\n    {other}\n"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret.yaml");
    fs::write(&file, text).unwrap();
    (chain.trim_end().to_owned(), read(vec![file]).remove(0))
}

#[test]
fn keys_go_to_the_gateway_alone_and_follow_their_secret() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/translate");
    let mut index = Index::default();
    index.replace(&read(vec![folder.join("gateway.yaml")]));
    let mut mesh = make(&mut index);
    let gateway = |mesh: &Mesh| {
        let parts = mesh.workloads.iter();
        let told = parts.filter(|(_, parts)| !parts.certificates.is_empty());
        let told = told.map(|(key, parts)| {
            let chains = parts.certificates.iter();
            let chains = chains.map(|it| (it.name.clone(), it.chain.trim_end().to_owned()));
            (key.to_string(), chains.collect::<Vec<_>>())
        });
        told.collect::<Vec<_>>()
    };
    assert_eq!(gateway(&mesh), []);
    let mut step = |index: &mut Index| {
        let (book, changes) = (Book::default(), index.take_changes());
        assert!(!changes.everything && changes.services.is_empty());
        mesh = translate(index, &book, Some(&mesh), &changes);
        gateway(&mesh)
    };
    let told = |chain: String| {
        let certificate = ("tls|default/cert".to_owned(), chain);
        [("default/edge".to_owned(), vec![certificate])]
    };
    for _ in 0..2 {
        let (chain, resource) = secret("shop.example");
        index.apply(resource);
        assert_eq!(step(&mut index), told(chain));
    }
    let (_, resource) = secret("shop.example");
    index.delete(&resource.key);
    assert_eq!(step(&mut index), []);
    let (chain, resource) = secret("other.example");
    index.apply(resource);
    assert_eq!(step(&mut index), told(chain));
    let warnings = index.warnings();
    let mut messages = warnings.iter().map(|fault| fault.message.as_str());
    let wanted = "the certificate in Secret default/cert is not for shop.example";
    assert!(messages.any(|message| message == wanted), "{warnings:?}");
}

#[test]
fn what_sidecars_are_told() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/translate");
    let files = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let inputs: BTreeSet<_> = files
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "yaml")
        })
        .collect();
    assert!(inputs.len() >= 6, "{inputs:?}");
    for input in inputs {
        let mut index = Index::default();
        index.replace(&read(vec![input.clone()]));
        let mesh = make(&mut index);
        let shown = show(&index, &mesh).replace(" \n", "\n");
        let output = input.with_extension("out");
        if std::env::var_os("LENO_REFRESH").is_some() {
            fs::write(&output, &shown).unwrap();
        }
        let wanted = fs::read_to_string(&output).unwrap_or_default();
        assert_eq!(
            shown,
            wanted,
            "{}; LENO_REFRESH=1 writes it anew",
            output.display()
        );
    }
}

/// Resources come and go in any order; what is made step by step is what is made at once, and
/// nothing is made anew that did not change.
#[test]
fn step_by_step_is_the_same_as_at_once() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/translate");
    let resources = every_variant(&folder);
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random >> 33).unwrap() % below
    };
    let (mut index, mut book) = (Index::default(), Book::default());
    let mut mesh = translate(&index, &book, None, &Changes::default());
    for step in 0..2000 {
        for _ in 0..=next(3) {
            let resource = &resources[next(resources.len())];
            match next(3) {
                0 => index.delete(&resource.key),
                _ => index.apply(Arc::clone(resource)),
            }
        }
        let mut changes = index.take_changes();
        book.settle(&index, &mut changes);
        let after = translate(&index, &book, Some(&mesh), &changes);
        let at_once = translate(&index, &book, None, &Changes::default());
        assert_eq!(after, at_once, "step {step}, {changes:?}");
        check_shared(&mesh, &after);
        mesh = after;
    }
}

fn check_shared(before: &Mesh, after: &Mesh) {
    assert_eq!(
        before.common == after.common,
        Arc::ptr_eq(&before.common, &after.common)
    );
    for (key, parts) in &after.services {
        let held = before.services.get(key);
        assert!(
            held.is_none_or(|held| (held == parts) == Arc::ptr_eq(held, parts)),
            "{key}"
        );
    }
    for (key, parts) in &after.workloads {
        let held = before.workloads.get(key);
        assert!(
            held.is_none_or(|held| (held == parts) == Arc::ptr_eq(held, parts)),
            "{key}"
        );
    }
}

/// The resources of all inputs: several say something else under one name.
fn every_variant(folder: &Path) -> Vec<Arc<Resource>> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let files = files.into_iter();
    let inputs = files.filter(|path| {
        path.extension()
            .is_some_and(|extension| extension == "yaml")
    });
    inputs.flat_map(|path| read(vec![path])).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_documents_examples_are_taken() {
    let text = fs::read_to_string(root().join("docs/resources.md")).unwrap();
    let blocks = text.split("```yaml\n").skip(1);
    let blocks: Vec<_> = blocks
        .map(|block| block.split("```").next().unwrap())
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.yaml");
    fs::write(&file, blocks.join("---\n")).unwrap();
    let kinds: BTreeSet<_> = read(vec![file])
        .iter()
        .map(|resource| resource.key.kind)
        .collect();
    // All but those that are a name alone.
    assert_eq!(kinds.len(), 9, "{kinds:?}");
}

#[test]
fn the_examples_have_nothing_odd() {
    let whole = |name: &str| {
        let mut index = Index::default();
        index.replace(&read(vec![root().join("examples/hello").join(name)]));
        assert_eq!(index.warnings(), []);
        make(&mut index)
    };
    let reach = |mesh: &Mesh, name: &str| {
        let mut workloads = mesh.workloads.iter();
        workloads
            .find(|(key, _)| key.name == name)
            .unwrap()
            .1
            .reach
            .clone()
    };
    assert_eq!(reach(&whole("mesh.yaml"), "curl"), Reach::All);
    let strict = whole("strict.yaml");
    let hello = BTreeSet::from([ServiceKey::new("default", "hello")]);
    assert_eq!(reach(&strict, "curl"), Reach::Only(Arc::new(hello)));
    assert_eq!(reach(&strict, "other"), Reach::Only(Arc::default()));
}

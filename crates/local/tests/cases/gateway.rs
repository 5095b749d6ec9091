//! What comes in from outside: by host and path, in plaintext and over TLS, while certificates
//! change.

use std::fs;
use std::process::Command;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::apps::{app, workload, world};
use crate::load::{Load, Shape};
use crate::resources;
use crate::world::{World, is_soak, until};

const PORTS: &str = "ports: [{port: 8080}, {port: 9090}]";
const WEB: &str = "[/usr/bin/python3, tool.py, serve, web, \"8080:web\", \"9090:greet\"]";

/// Who signs what the gateway shows.
struct Authority(Issuer<'static, KeyPair>);

/// A world with a gateway at two ports of this machine: for plaintext, and for TLS.
struct Edge {
    world: World,
    ports: [u16; 2],
    authority: Authority,
}

impl Authority {
    /// Also laid down as a file.
    fn new(world: &World) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        params
            .distinguished_name
            .push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let own = params.self_signed(&key).unwrap();
        fs::write(world.file("ca.pem"), own.pem()).unwrap();
        Self(Issuer::new(params, key))
    }

    /// A certificate and its key, as a Secret.
    fn secret(&self, name: &str, host: &str) -> String {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([host.to_owned()]).unwrap();
        let chain = params.signed_by(&key, &self.0).unwrap().pem();
        let data = [("tls.crt", chain), ("tls.key", key.serialize_pem())];
        let lines = data.map(|(name, text)| {
            let text = text.trim_end().replace('\n', "\n    ");
            format!("  {name}: |\n    {text}\n")
        });
        format!(
            "---\napiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\n\
             type: kubernetes.io/tls\nstringData:\n{}",
            lines.concat()
        )
    }
}

impl Edge {
    fn make() -> Option<Self> {
        let world = world()?;
        let scripts = [
            ("tool.py", include_str!("../promises/tool.py")),
            ("outside.py", include_str!("outside.py")),
        ];
        for (name, text) in scripts {
            fs::write(world.file(name), text).unwrap();
        }
        let ports = world.subnet.ports();
        let authority = Authority::new(&world);
        Some(Self {
            world,
            ports,
            authority,
        })
    }

    /// What there is, but for Secrets.
    fn resources(&self) -> String {
        let [plain, tls] = self.ports;
        let listener = |name: &str, host: &str| {
            format!(
                "  - {{name: {name}, port: {tls}, protocol: HTTPS, hostname: \"{host}\", \
                 tls: {{certificateRefs: [{{name: {name}}}]}}}}\n"
            )
        };
        let gateway = format!(
            "---\napiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\n\
             metadata: {{name: edge}}\nspec:\n  gatewayClassName: leno\n  listeners:\n  \
             - {{name: http, port: {plain}, protocol: HTTP}}\n{}{}{}",
            listener("shop", "shop.example"),
            listener("other", "*.other.example"),
            listener("missing", "missing.example"),
        );
        let edge = "---\napiVersion: leno.dev/v1alpha1\nkind: Workload\nmetadata: {name: edge}\n\
                    spec: {serviceAccount: edge, gateway: edge}\n";
        let both = "  - backendRefs: [{name: web, port: 80}]\n  \
                    - matches: [{path: {value: /api}}]\n    \
                    filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, \
                    replacePrefixMatch: /}}}]\n    backendRefs: [{name: api, port: 80}]\n";
        let redirect = format!(
            "  - filters: [{{type: RequestRedirect, requestRedirect: {{scheme: https, \
             port: {tls}, statusCode: 301}}}}]\n"
        );
        let api = "  - backendRefs: [{name: api, port: 80}]\n";
        [
            gateway,
            edge.to_owned(),
            route("to-tls", "http", "hostnames: [shop.example]", &redirect),
            route("open", "http", "hostnames: [open.example]", both),
            route("shop", "shop", "hostnames: [shop.example]", both),
            route("other", "other", "hostnames: [\"*.other.example\"]", api),
            route("missing", "missing", "hostnames: [missing.example]", api),
            resources::service("web") + &workload("web", WEB, PORTS),
            resources::service("api") + &app("api", &["serve_on"], "ports: [{port: 8080}]"),
        ]
        .concat()
    }

    /// Brings it up with a new certificate for each host; gives nothing for one of them.
    #[track_caller]
    fn up(&self) {
        let secrets = ["shop", "other"].map(|name| match name {
            "shop" => self.authority.secret(name, "shop.example"),
            _ => self.authority.secret(name, "*.other.example"),
        });
        self.world.up(&(self.resources() + &secrets.concat()));
    }

    /// What came of asking; the port and, over TLS, the authorities are added.
    fn ask(&self, way: &str, words: &[&str], is_tls: bool) -> String {
        let mut command = Command::new("/usr/bin/python3");
        command.arg(self.world.file("outside.py")).arg(way);
        let port = self.ports[usize::from(is_tls)].to_string();
        command.arg(port).args(words);
        if is_tls {
            command.arg(self.world.file("ca.pem"));
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    #[track_caller]
    fn check(&self, way: &str, words: &[&str], is_tls: bool, expected: &str) {
        assert_eq!(self.ask(way, words, is_tls), expected, "{way} {words:?}");
    }
}

fn route(name: &str, section: &str, hosts: &str, rules: &str) -> String {
    format!(
        "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
         metadata: {{name: {name}}}\nspec:\n  parentRefs: [{{group: gateway.networking.k8s.io, \
         kind: Gateway, name: edge, sectionName: {section}}}]\n  {hosts}\n  rules:\n{rules}"
    )
}

#[test]
fn requests_come_in_by_host_and_path() {
    let Some(edge) = Edge::make() else {
        return;
    };
    edge.up();
    edge.check("http", &["open.example", "/"], false, "200 web");
    edge.check(
        "http",
        &["open.example", "/api/deep?x=1"],
        false,
        "200 api-0 /deep?x=1",
    );
    edge.check("http", &["open.example", "/apiary"], false, "200 web");
    assert!(
        edge.ask("http", &["unknown.example", "/"], false)
            .starts_with("404 ")
    );
    let to = format!("301 https://shop.example:{}/deep?x=1", edge.ports[1]);
    edge.check("http", &["shop.example", "/deep?x=1"], false, &to);
    edge.check(
        "https",
        &["shop.example", "/"],
        true,
        "shop.example 200 web",
    );
    edge.check(
        "https",
        &["shop.example", "/api/deep"],
        true,
        "shop.example 200 api-0 /deep",
    );
    let other = "*.other.example 200 api-0 /deep";
    edge.check("https", &["one.other.example", "/deep"], true, other);
    edge.check("tls12", &["shop.example", "/"], true, "TLSv1.2 200 web");
    for unknown in ["missing.example", "unknown.example"] {
        let said = edge.ask("https", &[unknown, "/"], true);
        assert!(said.starts_with("alert"), "{unknown}: {said}");
    }
    // Inside all of it was mutual TLS.
    for callee in ["web", "api"] {
        let inside = ["leno_requests_total", "inbound"];
        assert!(
            edge.world
                .count(callee, inside[0], "source_workload=\"edge")
                > 0,
            "{callee}"
        );
        assert!(
            edge.world
                .count(callee, "leno_tls_handshakes_total", "downstream")
                > 0
        );
    }
}

#[test]
fn other_protocols_come_in_too() {
    let Some(edge) = Edge::make() else {
        return;
    };
    edge.up();
    edge.check("websocket", &["open.example"], false, "101 one two");
    edge.check("websocket", &["shop.example"], true, "101 one two");
    edge.check("http2", &["shop.example"], true, "h2 web");
}

#[test]
fn new_certificates_of_a_gateway_lose_no_request() {
    let Some(edge) = Edge::make() else {
        return;
    };
    edge.up();
    let world = &edge.world;
    let [plain, tls] = edge.ports;
    let authorities = world.file("ca.pem").display().to_string();
    let [plain, tls] = [plain, tls].map(|port| format!("127.0.0.1:{port}"));
    let kept = ["-c", "4", "--connect-to", &tls, "--cacert", &authorities];
    let new = [&kept[..], &["-H", "Connection: close"]].concat();
    let open = ["-c", "4", "--connect-to", &*plain];
    let http2 = [&open[..], &["--protocol", "http2", "--streams", "4"]].concat();
    let rates = if is_soak() {
        ["600", "100", "200"]
    } else {
        ["100", "20", "50"]
    };
    let shop = "https://shop.example/";
    let shapes = [
        Shape {
            name: "kept",
            url: shop,
            rate: rates[0],
            more: &kept,
        },
        Shape {
            name: "new",
            url: shop,
            rate: rates[1],
            more: &new,
        },
        Shape {
            name: "http2",
            url: "http://open.example/",
            rate: rates[2],
            more: &http2,
        },
    ];
    let start = |shape: &Shape<'_>| {
        Load::start_by(world, *shape, |words| {
            let mut command = Command::new(world.file("leno"));
            command.args(words);
            command
        })
    };
    let loads: Vec<_> = shapes.iter().map(start).collect();
    let served = || world.count("web", "leno_requests_total", "inbound");
    for _ in 0..if is_soak() { 10 } else { 3 } {
        let serial = || edge.ask("serial", &["shop.example"], true);
        let before = serial();
        assert!(!before.starts_with("alert"), "{before}");
        edge.up();
        let is_new = || (serial() != before).then_some(());
        until(is_new, || format!("it still shows {before}"));
        let goal = served() + 200;
        until(
            || (served() >= goal).then_some(()),
            || format!("{} of {goal}", served()),
        );
    }
    loads.into_iter().for_each(Load::assert_nothing_lost);
}

#[test]
fn a_gateway_that_is_killed_or_replaced_is_there_again() {
    let Some(edge) = Edge::make() else {
        return;
    };
    edge.up();
    let again = || {
        let came = || edge.ask("https", &["shop.example", "/"], true);
        until(|| (came() == "shop.example 200 web").then_some(()), came);
    };
    again();
    edge.world.restart_sidecar("edge");
    again();
    edge.world.restart("edge");
    again();
    edge.world.upgrade();
    again();
    edge.world.change_supervisor();
    again();
    edge.world.restart_sidecar("edge");
    again();
}

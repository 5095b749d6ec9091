//! `leno load serve bookinfo` from the command line, and the example made of it: in through the
//! gateway, from service to service over mutual TLS, and gone without a trace. The example needs
//! root, and the control plane and sidecars that are built beside `leno`.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

#[path = "shared/programs.rs"]
mod programs;
#[expect(dead_code, reason = "shared with tests of what goes wrong")]
#[path = "shared/world.rs"]
mod world;

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use world::World;

const EXAMPLE: &str = include_str!("../../../examples/bookinfo/mesh.yaml");
const QUICK_START: &str = include_str!("../../../docs/quick-start.md");
const BOOK: &str = "2099a055-1e21-46ef-825e-9e0de93554ea";
const PATIENCE: Duration = Duration::from_secs(30);

/// The example, with ports that nobody else on this machine has.
struct Shop {
    world: World,
    file: String,
    http: u16,
    https: u16,
}

impl Shop {
    /// None, said aloud, without root; that is a failure where root was promised.
    fn make(name: &str) -> Option<Self> {
        Some(Self::of(World::make(name)?, str::to_owned))
    }

    /// Likewise, with the workloads for which `is_on_envoy` on Envoy, where there is one.
    fn on_envoy(name: &str, is_on_envoy: fn(&str) -> bool) -> Option<Self> {
        let of_workload = |text: &str| {
            let name = text
                .split_once("metadata: {name: ")
                .map_or("", |(_, rest)| rest);
            let name = name.split([',', '}']).next().unwrap_or_default();
            match text.contains("kind: Workload") && is_on_envoy(name) {
                // An Envoy takes more than one of ours.
                true => text.replace("memory: 64Mi", "memory: 256Mi").replace(
                    "sidecar: {resources:",
                    "sidecar: {dataPlane: envoy, resources:",
                ),
                false => text.to_owned(),
            }
        };
        let change = move |example: &str| {
            let documents: Vec<_> = example.split("\n---\n").map(of_workload).collect();
            documents.join("\n---\n")
        };
        Some(Self::of(World::with_envoy(name)?, change))
    }

    fn of(world: World, change: impl Fn(&str) -> String) -> Self {
        let [http, https] = world.subnet.ports();
        let port = |port: u16| format!("port: {port}");
        let example = change(EXAMPLE).replace(&port(8080), &port(http));
        let file = world.write(&example.replace(&port(8443), &port(https)));
        fs::write(world.path("ca.pem"), certificate()).unwrap();
        Self {
            world,
            file,
            http,
            https,
        }
    }

    /// That of the sample's file.
    #[track_caller]
    fn up(&self) -> String {
        self.world.up(&self.file)
    }

    /// Statuses of requests over TLS, as `leno load` counts them; only who is called by its name
    /// and has the example's certificate is trusted.
    fn over_tls(&self) -> String {
        let url = format!("https://bookinfo.example:{}/productpage", self.https);
        let mut command = Command::new(self.world.path("leno"));
        command.args(["load", &url, "-c", "1", "--qps", "max", "-t", "200ms"]);
        let at = format!("127.0.0.1:{}", self.https);
        command.args(["--connect-to", &at, "--json", "-", "--timeout", "30s"]);
        command.arg("--cacert").arg(self.world.path("ca.pem"));
        let output = command.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        format!("{}{error}", String::from_utf8_lossy(&output.stdout))
    }

    /// The first address of an instance.
    fn address(&self, instance: &str) -> SocketAddr {
        let shown = self.world.succeed(&["ps"]);
        let line = shown.lines().find(|line| line.starts_with(instance));
        let mut words = line.unwrap_or_else(|| panic!("{shown}")).split(' ');
        let ip = words.find_map(|word| word.parse::<std::net::Ipv4Addr>().ok());
        (ip.unwrap(), 9080).into()
    }
}

/// The example's own certificate, which is its own authority.
fn certificate() -> String {
    let lines = EXAMPLE.lines().map(str::trim);
    let lines = lines.skip_while(|line| !line.starts_with("-----BEGIN CERTIFICATE"));
    let mut kept: Vec<&str> = Vec::new();
    for line in lines {
        kept.push(line);
        if line.starts_with("-----END") {
            break;
        }
    }
    kept.join("\n") + "\n"
}

/// All that is answered to one request on a connection of its own, or why there is nothing.
fn ask(address: SocketAddr, host: &str, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"
    )?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

#[test]
fn the_example_is_a_mesh_from_the_gateway_to_the_last_service() {
    let Some(shop) = Shop::make("whole") else {
        return;
    };
    shop.up();
    comes_in_through_the_gateway(&shop);
    everybody_proves_who_they_are(&shop);
    nobody_else_gets_at_ratings(&shop);
    shop.world.succeed(&["down", shop.world.name()]);
    nothing_is_left(&shop);
}

/// The page, its parts and who gets at them are the same, whoever is on Envoy.
#[test]
fn the_example_is_the_same_on_envoy() {
    let all: fn(&str) -> bool = |name| name != "edge";
    let callers: fn(&str) -> bool =
        |name| ["productpage", "reviews-v2", "reviews-v3"].contains(&name);
    let callees: fn(&str) -> bool = |name| ["details", "ratings", "api-gateway"].contains(&name);
    for (name, is_on_envoy, count) in [
        ("all", all, 6),
        ("callers", callers, 3),
        ("callees", callees, 3),
    ] {
        let Some(shop) = Shop::on_envoy(name, is_on_envoy) else {
            return;
        };
        shop.up();
        let shown = shop.world.succeed(&["ps"]);
        assert_eq!(shown.matches(" envoy ").count(), count, "{shown}");
        comes_in_through_the_gateway(&shop);
        nobody_else_gets_at_ratings(&shop);
        shop.world.succeed(&["down", shop.world.name()]);
        nothing_is_left(&shop);
    }
}

/// Every command of the page, as it stands there, but for what keeps it from others' meshes.
#[test]
fn the_quick_start_is_as_it_says() {
    let Some(shop) = Shop::make("quick") else {
        return;
    };
    let mut run = 0;
    for line in commands(QUICK_START) {
        let words: Vec<_> = line.split(' ').collect();
        match words.as_slice() {
            ["make", "build"] | ["target/release/leno", "check"] => continue,
            ["target/release/leno", "up", "examples/bookinfo/mesh.yaml"] => shop.up(),
            ["target/release/leno", args @ ..] => shop.world.succeed(args),
            ["curl", .., url] => {
                let path = url.strip_prefix("http://localhost:8080").unwrap();
                let gateway = SocketAddr::from(([127, 0, 0, 1], shop.http));
                let page = ask(gateway, "localhost", path).unwrap();
                assert!(page.starts_with("HTTP/1.1 200"), "{page}");
                page
            }
            _ => panic!("the test does not know how to run `{line}`"),
        };
        run += 1;
    }
    assert!(run >= 10, "{run}");
    nothing_is_left(&shop);
}

/// The lines of a page's blocks of shell.
fn commands(page: &str) -> impl Iterator<Item = &str> {
    let blocks = page.split("```sh\n").skip(1);
    blocks.flat_map(|block| block.split("```").next().unwrap_or_default().lines())
}

fn comes_in_through_the_gateway(shop: &Shop) {
    let gateway = SocketAddr::from(([127, 0, 0, 1], shop.http));
    let page = ask(gateway, "localhost", "/productpage").unwrap();
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    let parts = [
        "George Eliot",
        "Jonas",
        "class=\"stars ",
        "<b>details-0</b>",
    ];
    for part in parts {
        assert!(page.contains(part), "{part}: {page}");
    }
    let path = format!("/bookinfo-ratings/ratings/{BOOK}");
    let ratings = ask(gateway, "localhost", &path).unwrap();
    assert!(ratings.contains("\"rating\":5"), "{ratings}");
    let moved = ask(gateway, "bookinfo.example", "/productpage").unwrap();
    assert!(moved.starts_with("HTTP/1.1 301"), "{moved}");
    let location = "location: https://bookinfo.example:";
    assert!(moved.to_ascii_lowercase().contains(location), "{moved}");
    let statuses = shop.over_tls();
    assert!(statuses.contains("\"200\":"), "{statuses}");
}

fn everybody_proves_who_they_are(shop: &Shop) {
    let stats = shop.world.succeed(&["proxy", "stats", "ratings"]);
    for caller in ["reviews", "api-gateway"] {
        let label = format!(" source_workload={caller} ");
        assert!(stats.contains(&label), "{label}: {stats}");
    }
    let stats = shop.world.succeed(&["proxy", "stats", "productpage"]);
    assert!(stats.contains(" source_workload=edge "), "{stats}");
}

/// Plaintext from outside of the mesh: permissive details answer, strict ratings do not.
fn nobody_else_gets_at_ratings(shop: &Shop) {
    let path = format!("/details/{BOOK}");
    let details = ask(shop.address("details-0"), "details", &path).unwrap();
    assert!(details.starts_with("HTTP/1.1 200"), "{details}");
    let path = format!("/ratings/{BOOK}");
    let answer = ask(shop.address("ratings-0"), "ratings", &path);
    let refused = match &answer {
        Ok(said) => said.is_empty(),
        Err(error) => [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe].contains(&error.kind()),
    };
    assert!(refused, "{answer:?}");
}

fn nothing_is_left(shop: &Shop) {
    assert!(!shop.world.path("run").join(shop.world.name()).exists());
    let namespaces = Command::new("ip").args(["netns", "list"]).output().unwrap();
    let namespaces = String::from_utf8(namespaces.stdout).unwrap();
    assert!(!namespaces.contains(shop.world.name()), "{namespaces}");
    for port in [shop.http, shop.https] {
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "{port}");
    }
}

#[test]
fn a_service_says_where_it_listens_and_ends_when_asked_to() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leno"));
    command.args(["load", "serve", "bookinfo", "ratings"]);
    command
        .args(["--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(ready["role"], "ratings");
    let address = ready["address"].as_str().unwrap().parse().unwrap();
    let health = ask(address, "ratings", "/health").unwrap();
    let pid = child.id().to_string();
    let asked = Command::new("kill").args(["-TERM", &pid]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(health.ends_with(r#"{"status":"UP"}"#), "{health}");
    assert!(asked.success() && output.status.success(), "{output:?}");
    assert_eq!(output.stderr, b"answers: 1\n");
}

#[test]
fn a_callee_that_it_does_not_call_is_refused_with_a_hint() {
    let check = |args: &[&str], hint: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_leno"));
        command.args(["load", "serve", "bookinfo"]).args(args);
        let output = command.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(hint), "{error}");
    };
    let stray = ["reviews", "--upstream", "details=http://127.0.0.1:1"];
    check(&stray, "it calls ratings");
    check(&["reviews", "--upstream", "ratings"], "write NAME=http://");
    check(&["nobody"], "productpage, details");
}

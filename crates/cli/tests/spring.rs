//! `examples/bookinfo-java`: built by Maven with its own tests, brought up as a mesh, and the same
//! for its callers as the static sample. Needs root, the control plane and sidecars that are built
//! beside `leno`, and a JDK with Maven, which gets what it needs over the network; says aloud what
//! is missing.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

#[path = "shared/programs.rs"]
mod programs;
#[expect(dead_code, reason = "shared with tests of what goes wrong")]
#[path = "shared/world.rs"]
mod world;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use load::serve::bookinfo::{self, Role};
use testkit::client::Client;
use world::World;

const BOOK: &str = "2099a055-1e21-46ef-825e-9e0de93554ea";
const EXAMPLE: &str = "../../examples/bookinfo-java";
const SERVICES: [&str; 2] = ["api-gateway", "ratings"];
/// A Java machine that shares two CPUs with other tests takes its time.
const READY_WITHIN_SECONDS: &str = "240";

/// What Maven says where the network is missing, not a defect of the sample.
const UNREACHABLE: [&str; 2] = ["Could not transfer artifact", "Could not resolve"];

/// Builds both services and runs their tests. False, said aloud, where they cannot be built.
fn is_built() -> bool {
    let pom = format!("{EXAMPLE}/pom.xml");
    let mut maven = Command::new("mvn");
    maven.args([
        "--batch-mode",
        "--no-transfer-progress",
        "-f",
        &pom,
        "package",
    ]);
    let Ok(output) = maven.output() else {
        println!("SKIPPED: there is no mvn in $PATH: install Maven and a JDK");
        return false;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() && UNREACHABLE.iter().any(|words| said.contains(words)) {
        println!("SKIPPED: Maven did not get what the sample needs");
        return false;
    }
    assert!(output.status.success(), "{said}");
    true
}

/// The example in a folder that its users may enter, on a port that nobody else has.
fn lay(world: &World) -> (String, SocketAddr) {
    for service in SERVICES {
        let jar = format!("{service}/target/{service}.jar");
        let place = world.path(&jar);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::copy(Path::new(EXAMPLE).join(&jar), place).unwrap();
    }
    let example = fs::read_to_string(format!("{EXAMPLE}/mesh.yaml")).unwrap();
    let [port, _] = world.subnet.ports();
    let file = world.write(&example.replace("port: 8080", &format!("port: {port}")));
    (file, SocketAddr::from(([127, 0, 0, 1], port)))
}

/// Status and body of one request on a connection of its own.
fn ask(address: SocketAddr, request: &str, body: &str) -> (u16, String) {
    let length = body.len();
    let answer = Client::connect(address).ask(format!(
        "{request} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    ));
    (answer.status(), answer.text())
}

/// What the static sample answers.
fn answer_of_ours() -> String {
    let ours = bookinfo::start(&bookinfo::Options {
        role: Role::Ratings,
        listen: "127.0.0.1:0".parse().unwrap(),
        name: "ratings".to_owned(),
        version: bookinfo::Version::V1,
        upstreams: Vec::new(),
    });
    let ours = ours.unwrap();
    ask(ours.address(), &format!("GET /ratings/{BOOK}"), "").1
}

#[test]
fn the_java_services_are_a_mesh_and_answer_as_the_static_ones_do() {
    let Some(world) = World::make("spring") else {
        return;
    };
    if !is_built() {
        return;
    }
    let (file, gateway) = lay(&world);
    world.succeed(&[
        "up",
        &file,
        "--name",
        world.name(),
        "--timeout",
        READY_WITHIN_SECONDS,
    ]);
    let expected = (200, answer_of_ours());
    assert!(expected.1.contains("\"rating\":5"), "{expected:?}");
    for prefix in ["", "/bookinfo-ratings"] {
        let found = ask(gateway, &format!("GET {prefix}/ratings/{BOOK}"), "");
        assert_eq!(found, expected, "{prefix}");
    }
    let rating = r#"{"reviewerId":"r","productId":"p","rating":3}"#;
    let (status, said) = ask(gateway, "POST /bookinfo-ratings/ratings", rating);
    assert_eq!(status, 201, "{said}");
    let (_, found) = ask(gateway, "GET /ratings/p", "");
    assert!(found.contains(r#""productId":"p","rating":3"#), "{found}");
    let stats = world.succeed(&["proxy", "stats", "bookinfo-ratings"]);
    for caller in ["edge", "api-gateway"] {
        let label = format!(" source_workload={caller} ");
        assert!(stats.contains(&label), "{label}: {stats}");
    }
}

//! gRPC's own interoperability client and server, both of grpc-go, with and without the sidecars.
//! Every case that needs no credentials of a cloud; must end the same either way.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::pair::{PLAIN, Pair};
use super::process::{self, Process};
use super::report::Report;
use super::tools;
use super::world::World;

/// The slowest case takes a second.
const LIMIT: Duration = Duration::from_secs(30);

/// As the client calls them, and what they are told beside. `pick_first_unary` is left out: it asks
/// for an id that this server does not give. Cases of compression are not in this client.
const CASES: &[(&str, &[&str])] = &[
    ("empty_unary", &[]),
    ("large_unary", &[]),
    ("client_streaming", &[]),
    ("server_streaming", &[]),
    ("ping_pong", &[]),
    ("empty_stream", &[]),
    ("timeout_on_sleeping_server", &[]),
    ("cancel_after_begin", &[]),
    ("cancel_after_first_response", &[]),
    ("status_code_and_message", &[]),
    ("special_status_message", &[]),
    ("custom_metadata", &[]),
    ("unimplemented_method", &[]),
    ("unimplemented_service", &[]),
    ("orca_per_rpc", ORCA),
    ("orca_oob", ORCA),
    ("rpc_soak", SOAK),
    ("channel_soak", SOAK),
];

/// Load reports are read by a balancer of the client that has to be chosen.
const ORCA: &[&str] = &[concat!(
    "--service_config_json={\"loadBalancingConfig\":",
    "[{\"test_backend_metrics_load_balancer\":{}}]}"
)];

/// Long enough to use connections again, short enough for every run.
const SOAK: &[&str] = &[
    "--soak_iterations=20",
    "--soak_per_iteration_max_acceptable_latency_ms=5000",
    "--soak_overall_timeout_seconds=20",
];

pub(super) fn run(world: &World, report: &mut Report) -> Result<()> {
    let client = tools::go(
        world,
        "grpc-client",
        "google.golang.org/grpc/interop/client",
    )?;
    let server = tools::go(
        world,
        "grpc-server",
        "google.golang.org/grpc/interop/server",
    )?;
    let address = process::free_address()?;
    let mut command = Command::new(server);
    command.args(["--port", process::port(&address)]);
    let app = Process::start_at(&mut command, &address, &world.file("grpc-server.log"))?;
    let pair = Pair::start(world, &app.address, PLAIN)?;
    for (name, args) in CASES {
        report.case(name, || {
            let call = |port: &str| call(&client, port, (name, args), world);
            call(app.port()).context("without sidecars")?;
            call(pair.outbound.port()).context("through the pair")?;
            pair.check().map(|()| String::new())
        });
    }
    Ok(())
}

/// The client ends with an error unless the case went as it has to.
fn call(client: &Path, port: &str, case: (&str, &[&str]), world: &World) -> Result<()> {
    let (name, args) = case;
    let mut command = Command::new(client);
    command.args(["--server_host", "127.0.0.1", "--server_port", port]);
    command.args(["--test_case", name]).args(args);
    process::output(&mut command, LIMIT, &world.file("grpc-client.log")).map(drop)
}

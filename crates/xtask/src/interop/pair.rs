//! Two sidecars in front of an application: outbound in plaintext for the client, the multiplexed
//! hop with mutual TLS, inbound. Every group sends its traffic through one of these.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use super::process::{Process, port};
use super::world::World;

/// What differs between the pairs of the groups.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// What the application speaks, as in the configuration of its cluster.
    pub(super) protocol: &'static str,
    /// Whether the ports are listed as opaque.
    pub(super) is_opaque: bool,
    /// Further keys of both listeners, as in `connect: true`.
    pub(super) listener: &'static str,
}

/// HTTP of either version, as it comes.
pub(super) const PLAIN: Shape = Shape {
    protocol: "auto",
    is_opaque: false,
    listener: "upgrades: [websocket]",
};

/// Both sidecars.
pub(super) struct Pair {
    logs: [PathBuf; 2],
    pub(super) outbound: Process,
    pub(super) inbound: Process,
}

const INBOUND: &str = "\
workload: {name: server}
identity: {certificate: server.pem, key: server.key, trustBundle: ca.pem}
admin: 'off'
metrics: 'off'
accessLog: {path: 'ACCESS', format: json}
opaquePorts: [OPAQUE]
listeners:
- {name: main, direction: inbound, address: '127.0.0.1:0', LISTENER, routes: [{cluster: next}]}
clusters:
- name: next
  protocol: PROTOCOL
  endpoints: [{address: 'NEXT'}]
";

const OUTBOUND: &str = "\
workload: {name: client}
identity: {certificate: client.pem, key: client.key, trustBundle: ca.pem}
admin: 'off'
metrics: 'off'
accessLog: {path: 'ACCESS', format: json}
opaquePorts: [OPAQUE]
listeners:
- {name: main, direction: outbound, address: '127.0.0.1:0', LISTENER, routes: [{cluster: next}]}
clusters:
- name: next
  protocol: auto
  endpoints:
  - address: 'NEXT'
    transport: leno
    identities: ['spiffe://cluster.local/ns/default/sa/server']
";

impl Pair {
    /// Starts both in front of the application at `app`.
    pub(super) fn start(world: &World, app: &str, shape: Shape) -> Result<Self> {
        let number = world.number();
        let names = ["inbound", "outbound"].map(|side| format!("{number}-{side}"));
        let inbound = sidecar(world, &names[0], INBOUND, (app, shape))?;
        let outbound = sidecar(world, &names[1], OUTBOUND, (&inbound.address, shape))?;
        Ok(Self {
            logs: names.map(|name| world.file(&format!("{name}.log"))),
            outbound,
            inbound,
        })
    }

    /// Where the client connects instead of to the application.
    pub(super) fn address(&self) -> &str {
        &self.outbound.address
    }

    /// The most memory that either sidecar has had, in KiB; an error when one has ended.
    pub(super) fn peak_kib(&self) -> Result<u64> {
        let outbound = self.outbound.peak_kib().context("outbound sidecar")?;
        let inbound = self.inbound.peak_kib().context("inbound sidecar")?;
        Ok(outbound.max(inbound))
    }

    /// An error when a sidecar has ended, or has complained of itself (a panic).
    pub(super) fn check(&self) -> Result<()> {
        for log in &self.logs {
            let said = fs::read_to_string(log)?;
            ensure!(
                !said.contains("panicked"),
                "{}: {}",
                log.display(),
                said.trim()
            );
        }
        self.peak_kib().map(drop)
    }
}

/// One outbound sidecar that goes straight to the application, without mesh and TLS: what is
/// refused here was refused by the first to read it.
pub(super) fn alone(world: &World, app: &str, shape: Shape) -> Result<Process> {
    let template = INBOUND.replace("direction: inbound", "direction: outbound");
    sidecar(
        world,
        &format!("{}-alone", world.number()),
        &template,
        (app, shape),
    )
}

fn sidecar(world: &World, name: &str, template: &str, to: (&str, Shape)) -> Result<Process> {
    let (next, shape) = to;
    let opaque = if shape.is_opaque { port(next) } else { "" };
    let access = world.file(&format!("{name}.access"));
    // It is appended to, and what an earlier run left there would mislead.
    fs::write(&access, "")?;
    let text = template
        .replace("ACCESS", &access.display().to_string())
        .replace("NEXT", next)
        .replace("OPAQUE", opaque)
        .replace("LISTENER", shape.listener)
        .replace("PROTOCOL", shape.protocol);
    let file = world.file(&format!("{name}.yaml"));
    fs::write(&file, text)?;
    let mut proxy = world.proxy();
    proxy.args(["--log-level", "warn", "--config"]).arg(&file);
    Process::start(&mut proxy, &world.file(&format!("{name}.log")))
        .with_context(|| format!("{name} sidecar"))
}

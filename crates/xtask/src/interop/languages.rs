//! HTTP libraries of Go, Node and Python, each as client and as server, every client with every
//! server that speaks its version; WebSockets among them. First with each other, then through the
//! pair. What they ask one another is in `docs/interop.md`.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::pair::{PLAIN, Pair, Shape};
use super::process::{self, Process};
use super::report::Report;
use super::tools;
use super::world::World;

/// Python takes a few seconds for it on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Programs in one language: ours, run by what is installed here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Go,
    Node,
    Python,
}

/// What a client speaks, as our programs call it.
type Kind = &'static str;

const SERVERS: &[(Language, Kind)] = &[
    (Language::Go, "1"),
    (Language::Go, "2"),
    (Language::Node, "1"),
    (Language::Node, "2"),
    (Language::Python, "1"),
    (Language::Python, "2"),
];

const CLIENTS: &[(Language, Kind)] = &[
    (Language::Go, "1"),
    (Language::Go, "2"),
    (Language::Node, "1"),
    (Language::Node, "2"),
    (Language::Python, "1"),
    (Language::Python, "2"),
];

/// Clients of WebSockets. The last needs a server that knows extended CONNECT when there are no
/// sidecars between.
const SOCKETS: &[(Language, Kind)] = &[
    (Language::Node, "ws"),
    (Language::Node, "odd"),
    (Language::Python, "ws"),
    (Language::Node, "connect"),
];

/// HTTP of both versions, and between them: a server of one behind a pair that is asked in the
/// other.
pub(super) fn run(world: &World, report: &mut Report) -> Result<()> {
    for &(language, version) in SERVERS {
        let name = format!("{}{version}", language.name());
        let server = match Server::start(world, language, version) {
            Ok(server) => server,
            Err(error) => {
                report.case(&format!("server {name}"), || Err(error));
                continue;
            }
        };
        for &(client, kind) in CLIENTS {
            report.case(&format!("{} to {name}", client.title(kind)), || {
                server.meet(world, client, kind)
            });
        }
    }
    Ok(())
}

/// WebSockets, over HTTP/1.1 and out of HTTP/2.
pub(super) fn run_websockets(world: &World, report: &mut Report) -> Result<()> {
    for language in [Language::Node, Language::Python] {
        let server = match Server::start(world, language, "1") {
            Ok(server) => server,
            Err(error) => {
                report.case(&format!("server {}", language.name()), || Err(error));
                continue;
            }
        };
        for &(client, kind) in SOCKETS {
            report.case(
                &format!("{} to {}", client.title(kind), language.name()),
                || server.meet(world, client, kind),
            );
        }
    }
    Ok(())
}

/// A server with a pair before it.
struct Server {
    language: Language,
    version: Kind,
    process: Process,
    pair: Pair,
}

impl Server {
    fn start(world: &World, language: Language, version: Kind) -> Result<Self> {
        let process = language.server(world, version)?;
        let protocol = if version == "1" { "http1" } else { "http2" };
        let shape = Shape { protocol, ..PLAIN };
        let pair = Pair::start(world, &process.address, shape)?;
        Ok(Self {
            language,
            version,
            process,
            pair,
        })
    }

    /// Runs a client against the server, if they understand each other, and through the pair.
    fn meet(&self, world: &World, client: Language, kind: Kind) -> Result<String> {
        let is_direct = kind != "connect" && (kind == self.version || kind.len() > 1)
            // This server takes extended CONNECT itself, on the port of its HTTP/1.
            || kind == "connect" && self.language == Language::Python;
        if is_direct {
            let result = client.call(world, kind, &self.process.address);
            result.context("without sidecars")?;
        }
        let result = client.call(world, kind, self.pair.address());
        // A sidecar that has ended explains more than what the client then saw.
        self.pair.check()?;
        result.context("through the pair")?;
        Ok(if is_direct {
            ""
        } else {
            "only through the pair"
        }
        .to_owned())
    }
}

impl Language {
    fn name(self) -> &'static str {
        match self {
            Self::Go => "Go",
            Self::Node => "Node",
            Self::Python => "Python",
        }
    }

    fn title(self, kind: Kind) -> String {
        let what = match kind {
            "ws" => " WebSocket",
            "odd" => " WebSocket in odd case",
            "connect" => " WebSocket by CONNECT",
            version => version,
        };
        format!("{}{what}", self.name())
    }

    /// Starts our server in this language.
    pub(super) fn server(self, world: &World, version: Kind) -> Result<Process> {
        let log = world.file(&format!("{}{version}.log", self.name()));
        match self {
            Self::Go => {
                let program = tools::go(world, "server", "./server")?;
                Process::start(&mut Command::new(program), &log)
            }
            Self::Node => {
                let mut command = Command::new("node");
                command.current_dir(tools::node(world)?);
                Process::start(command.args(["server.js", version]), &log)
            }
            Self::Python => {
                let address = process::free_address()?;
                let mut command = python(world, "server.py")?;
                command.arg(process::port(&address));
                Process::start_at(&mut command, &address, &log)
            }
        }
    }

    fn call(self, world: &World, kind: Kind, address: &str) -> Result<()> {
        let url = format!("http://{address}");
        let mut command = match self {
            Self::Go => {
                let mut command = Command::new(tools::go(world, "client", "./client")?);
                command.args(["-version", kind, "-base", &url]);
                command
            }
            Self::Node => {
                let mut command = Command::new("node");
                command.current_dir(tools::node(world)?);
                command.args(["client.js", kind, &url]);
                command
            }
            Self::Python => {
                let mut command = python(world, "client.py")?;
                command.args([kind, &url]);
                command
            }
        };
        process::output(&mut command, LIMIT, &world.file("client.log")).map(drop)
    }
}

/// Python with one of our programs, which leaves nothing behind where it lies.
pub(super) fn python(world: &World, program: &str) -> Result<Command> {
    let path: PathBuf = world.root.join("interop/python").join(program);
    let mut command = Command::new(tools::python(world)?);
    command.arg("-B").arg(path);
    Ok(command)
}

//! `cargo xtask interop`: real clients and servers, first with each other, then through a pair of
//! sidecars, and the same must come of it. One line per case; an error when any failed.
//! What is not installed is skipped and said; must never judge speed, a greeting's wait excepted.

mod curl;
mod grpc;
mod h2spec;
mod languages;
mod names;
mod pair;
mod postgres;
mod process;
mod report;
mod smuggling;
mod tcp;
mod tools;
mod world;
mod xds;

use std::path::Path;

use anyhow::{Result, bail, ensure};

use report::{Report, Wanted};
use world::World;

/// What `cargo xtask interop` takes.
#[derive(Debug, Default, clap::Args)]
pub struct Args {
    /// Only these groups, or only these cases of a group (grpc/ping); default: all
    names: Vec<String>,
    /// Say which groups there are, and end
    #[arg(long)]
    list: bool,
    /// The folder of cargo's to take the programs from
    #[arg(long, default_value = "debug")]
    profile: String,
}

/// A group of cases around one protocol or one program.
struct Group {
    name: &'static str,
    about: &'static str,
    run: fn(&World, &mut Report) -> Result<()>,
}

/// From the protocol's bytes to whole programs. The first four are the ones that `cargo xtask
/// test` runs.
const GROUPS: &[Group] = &[
    Group {
        name: "h2spec",
        about: "HTTP/2 and HPACK as the RFCs want them, plain and inside mesh TLS",
        run: h2spec::run,
    },
    Group {
        name: "grpc",
        about: "gRPC's own interoperability cases",
        run: grpc::run,
    },
    Group {
        name: "smuggling",
        about: "requests that two readers could read two ways",
        run: smuggling::run,
    },
    Group {
        name: "xds",
        about: "go-control-plane tells a sidecar, in both variants",
        run: xds::run,
    },
    Group {
        name: "curl",
        about: "every version of HTTP, bodies of two GiB each way",
        run: curl::run,
    },
    Group {
        name: "http",
        about: "libraries of Go, Node and Python, each with each",
        run: languages::run,
    },
    Group {
        name: "websocket",
        about: "over HTTP/1.1 in odd case too, and out of HTTP/2",
        run: languages::run_websockets,
    },
    Group {
        name: "database",
        about: "PostgreSQL and Redis under their own load tools, on ports declared and not",
        run: tcp::run_databases,
    },
    Group {
        name: "greeting",
        about: "servers that speak first: mail, and how long their greeting takes",
        run: tcp::run_greetings,
    },
    Group {
        name: "names",
        about: "resolvers of glibc, Go, Node and Java, for names of the mesh and others",
        run: names::run,
    },
];

/// What is quick enough to be a step of `cargo xtask test`, and concerns safety or conformance.
const QUICK: &[&str] = &["h2spec", "grpc", "smuggling", "xds"];

/// Runs what was asked for; an error says how many cases failed.
pub fn run(root: &Path, args: &Args) -> Result<()> {
    if args.list {
        for group in GROUPS {
            println!("{:10} {}", group.name, group.about);
        }
        return Ok(());
    }
    let skipped = run_groups(root, &args.profile, &args.names)?;
    if !skipped.is_empty() {
        println!("{} skipped", skipped.len());
    }
    Ok(())
}

/// The quick groups with debug programs, which must be built; gives what was skipped, with why.
pub fn run_quick(root: &Path) -> Result<Vec<String>> {
    let names: Vec<_> = QUICK.iter().map(|&name| name.to_owned()).collect();
    run_groups(root, "debug", &names)
}

fn run_groups(root: &Path, profile: &str, names: &[String]) -> Result<Vec<String>> {
    let wanted = Wanted::new(names);
    for name in names {
        let known = |group: &Group| name.split('/').next() == Some(group.name);
        ensure!(GROUPS.iter().any(known), "{name} is none of --list");
    }
    let world = World::new(root, profile)?;
    let (mut failed, mut skipped) = (Vec::new(), Vec::new());
    for group in GROUPS.iter().filter(|group| wanted.has_group(group.name)) {
        let mut report = Report::new(group.name, &wanted);
        if let Err(error) = (group.run)(&world, &mut report) {
            report.all(&error);
        }
        failed.extend(report.failed);
        skipped.extend(report.skipped);
    }
    if failed.is_empty() {
        Ok(skipped)
    } else {
        bail!("{} failed: {}", failed.len(), failed.join(", "))
    }
}

//! The options of `leno bench cost` with their defaults resolved. Called by `cost`, once; what
//! makes no sense is refused here, before anything is started.

use std::time::Duration;

use anyhow::bail;

use super::Args;
use super::cell::{Placement, Protocol, Scene, Shape, Topology};
use super::contestant::{Contestant, Given};

/// Connections where one carries one request at a time.
const CONNECTIONS: usize = 64;
/// The shapes of HTTP/2: a crowd of clients, and one that asks for much at once.
const STREAMED: [Shape; 2] = [
    Shape {
        connections: 10,
        streams: 10,
    },
    Shape {
        connections: 1,
        streams: 100,
    },
];

/// What is to be measured.
pub(crate) struct Plan {
    pub(crate) contestants: Vec<Contestant>,
    /// Whether the contestants were named: then one that is missing is an error.
    pub(crate) named: bool,
    pub(crate) scenes: Vec<Scene>,
    connections: Vec<usize>,
    streams: Vec<usize>,
    pub(crate) size: usize,
    pub(crate) window: Duration,
    pub(crate) rounds: u32,
    pub(crate) extras: Extras,
    pub(crate) given: Given,
    pub(crate) seed: u64,
}

/// What is measured besides the rounds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extras {
    pub(crate) latency: bool,
    pub(crate) memory: bool,
    pub(crate) instructions: bool,
    pub(crate) netem: bool,
    pub(crate) mixed: bool,
    pub(crate) h2load: bool,
}

impl Plan {
    /// # Errors
    /// Connections and streams that cannot be paired, or a zero among them.
    pub(crate) fn of(args: &Args) -> anyhow::Result<Self> {
        let plan = Self {
            contestants: or_all(&args.only, &Contestant::ALL),
            named: !args.only.is_empty(),
            scenes: scenes(args),
            connections: args.connections.clone(),
            streams: args.streams.clone(),
            size: args.size,
            window: Duration::from_secs_f64(if args.quick { 1.0 } else { args.duration }),
            rounds: if args.quick { 3 } else { args.rounds },
            extras: Extras {
                latency: args.latency,
                memory: args.memory,
                instructions: args.instructions,
                netem: args.netem,
                mixed: args.mixed,
                h2load: args.h2load,
            },
            given: Given {
                proxy: args.proxy.clone(),
                envoy: args.envoy.clone(),
            },
            seed: args.seed,
        };
        if plan
            .connections
            .iter()
            .chain(&plan.streams)
            .any(|n| *n == 0)
        {
            bail!("connections and streams must be at least 1");
        }
        let (connections, streams) = (plan.connections.len(), plan.streams.len());
        if connections > 1 && streams > 1 && connections != streams {
            bail!("--connections and --streams must be lists of the same length, or one value");
        }
        Ok(plan)
    }

    /// The shapes to measure `protocol` in: lists are paired in order, one value goes with all.
    pub(crate) fn shapes(&self, protocol: Protocol) -> Vec<Shape> {
        if !protocol.is_http2() {
            let connections = or_all(&self.connections, &[CONNECTIONS]).into_iter();
            let shape = |connections| Shape {
                connections,
                streams: 1,
            };
            return connections.map(shape).collect();
        }
        if self.connections.is_empty() && self.streams.is_empty() {
            return STREAMED.to_vec();
        }
        let connections = or_all(&self.connections, &[STREAMED[0].connections]);
        let streams = or_all(&self.streams, &[STREAMED[0].streams]);
        let of = |list: &[usize], index: usize| list[index.min(list.len() - 1)];
        let count = connections.len().max(streams.len());
        let shape = |index| Shape {
            connections: of(&connections, index),
            streams: of(&streams, index),
        };
        (0..count).map(shape).collect()
    }
}

/// Protocols × topologies × placements; one hop has no second proxy that could be apart.
fn scenes(args: &Args) -> Vec<Scene> {
    let mut scenes = Vec::new();
    for protocol in or_all(&args.protocol, &[Protocol::Http1]) {
        for topology in or_all(&args.topology, &Topology::ALL) {
            let placements = or_all(&args.placement, &[Placement::Shared]);
            let possible = placements
                .into_iter()
                .filter(|p| topology == Topology::Mtls || *p == Placement::Shared);
            scenes.extend(possible.map(|placement| Scene {
                protocol,
                topology,
                placement,
            }));
        }
    }
    scenes
}

fn or_all<T: Clone>(chosen: &[T], all: &[T]) -> Vec<T> {
    if chosen.is_empty() { all } else { chosen }.to_vec()
}

/// Reads a number of bytes: `1024`, `64KiB`, `1MiB`.
///
/// # Errors
/// Anything else.
pub(super) fn bytes(text: &str) -> Result<usize, String> {
    let hint = || "write a number of bytes, or one with its unit: 64KiB, 1MiB".to_owned();
    let split = text.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = text.split_at(split.unwrap_or(text.len()));
    let scale = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        _ => return Err(hint()),
    };
    let number: usize = number.parse().map_err(|_| hint())?;
    number.checked_mul(scale).ok_or_else(hint)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    /// The plan of a command line.
    pub(crate) fn plan(words: &str) -> anyhow::Result<Plan> {
        let words = ["cost"].into_iter().chain(words.split_whitespace());
        Plan::of(&Line::try_parse_from(words)?.args)
    }

    fn check(words: &str, expected: &[&str]) {
        let plan = plan(words).unwrap();
        let cells = plan.scenes.iter().flat_map(|scene| {
            let shapes = plan.shapes(scene.protocol).into_iter();
            shapes.map(move |shape| format!("{scene} {shape}"))
        });
        assert_eq!(cells.collect::<Vec<_>>(), expected, "{words}");
    }

    #[test]
    fn options_become_cells() {
        check("", &["http1 plain 64", "http1 mtls 64"]);
        check(
            "--protocol http2 --topology plain",
            &["http2 plain 10×10", "http2 plain 1×100"],
        );
        check(
            "--protocol grpc --topology mtls --connections 1,4 --streams 8",
            &["grpc mtls 1×8", "grpc mtls 4×8"],
        );
        check(
            "--protocol tcp,http1 --topology plain --connections 1,2 --streams 3,4",
            &[
                "tcp plain 1",
                "tcp plain 2",
                "http1 plain 1",
                "http1 plain 2",
            ],
        );
        check(
            "--topology mtls --placement shared,apart --connections 1",
            &["http1 mtls 1", "http1 mtls apart 1"],
        );
        check("--topology plain --placement apart", &[]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(plan("--connections 0").is_err());
        assert!(plan("--protocol http2 --connections 1,2 --streams 1,2,3").is_err());
        assert!(plan("--size 1GB").is_err());
    }

    #[test]
    fn sizes_may_have_a_unit() {
        assert_eq!(bytes("1024"), Ok(1024));
        assert_eq!(bytes("64KiB"), Ok(65_536));
        assert_eq!(bytes("1MiB"), Ok(1 << 20));
        assert!(bytes("MiB").is_err());
    }
}

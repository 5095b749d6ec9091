//! Who takes part in a cost run, in which scenes, and where each program is found.

use std::env;
use std::path::PathBuf;

use anyhow::Context;
use serde::Serialize;

use super::cell::{Protocol, Scene, Topology};
use crate::dataplane::find;

/// A proxy that may take part; in a pair, together with what its two sidecars speak to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Contestant {
    /// The relay that only moves bytes.
    Floor,
    /// `leno-proxy`; in a pair with its multiplexed hop.
    Leno,
    /// A pair of `leno-proxy` with HTTP/1.1 in between.
    LenoHttp1,
    /// HAProxy; in a pair with HTTP/1.1 in between.
    Haproxy,
    /// A pair of HAProxy with HTTP/2 in between.
    HaproxyH2,
    /// nginx; in a pair with HTTP/1.1 in between.
    Nginx,
    /// Envoy; in a pair with HTTP/1.1 in between.
    Envoy,
    /// A pair of Envoy with HTTP/2 in between.
    EnvoyH2,
}

/// The program that a contestant runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    Relay,
    Leno,
    Haproxy,
    Nginx,
    Envoy,
}

/// What the two sidecars of a pair speak to each other where the application speaks HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hop {
    Http1,
    Http2,
    /// Many of the application's connections in few, framed by Leno.
    Multiplexed,
}

/// Whether a contestant is in a scene.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Plays,
    /// Another variant of it is there instead.
    Stands,
    /// The program cannot do it; why.
    Cannot(&'static str),
}

/// Programs given by hand instead of found.
#[derive(Debug, Clone, Default)]
pub(crate) struct Given {
    pub(crate) proxy: Option<PathBuf>,
    pub(crate) envoy: Option<PathBuf>,
}

impl Contestant {
    /// Every contestant, in the order of the tables.
    pub const ALL: [Self; 8] = [
        Self::Floor,
        Self::Leno,
        Self::LenoHttp1,
        Self::Haproxy,
        Self::HaproxyH2,
        Self::Nginx,
        Self::Envoy,
        Self::EnvoyH2,
    ];

    /// The word used in tables, options and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Leno => "leno",
            Self::LenoHttp1 => "leno-http1",
            Self::Haproxy => "haproxy",
            Self::HaproxyH2 => "haproxy-h2",
            Self::Nginx => "nginx",
            Self::Envoy => "envoy",
            Self::EnvoyH2 => "envoy-h2",
        }
    }

    pub(crate) fn program(self) -> Program {
        match self {
            Self::Floor => Program::Relay,
            Self::Leno | Self::LenoHttp1 => Program::Leno,
            Self::Haproxy | Self::HaproxyH2 => Program::Haproxy,
            Self::Nginx => Program::Nginx,
            Self::Envoy | Self::EnvoyH2 => Program::Envoy,
        }
    }

    pub(crate) fn hop(self) -> Hop {
        match self {
            Self::Leno => Hop::Multiplexed,
            Self::HaproxyH2 | Self::EnvoyH2 => Hop::Http2,
            Self::Floor | Self::LenoHttp1 | Self::Haproxy | Self::Nginx | Self::Envoy => Hop::Http1,
        }
    }

    /// Whether it takes part in `scene`. A pair that carries HTTP/2 must not fall back to
    /// HTTP/1.1 in between, since that is another task: the other variant stands for it.
    pub(crate) fn part(self, scene: Scene) -> Part {
        let is_variant = matches!(self, Self::LenoHttp1 | Self::HaproxyH2 | Self::EnvoyH2);
        let is_pair = scene.topology == Topology::Mtls;
        if scene.protocol.is_http2() && self == Self::Nginx {
            return Part::Cannot("speaks no HTTP/2 to a server");
        }
        let stands = match scene.protocol {
            Protocol::Http1 => !is_pair && is_variant,
            Protocol::Tcp => is_variant,
            Protocol::Http2 | Protocol::Grpc if is_pair => {
                self.hop() == Hop::Http1 && self != Self::Floor
            }
            Protocol::Http2 | Protocol::Grpc => is_variant,
        };
        if stands { Part::Stands } else { Part::Plays }
    }
}

impl Program {
    /// Where it is.
    ///
    /// # Errors
    /// When it is not installed; the message says how to name it.
    pub(crate) fn find(self, given: &Given) -> anyhow::Result<PathBuf> {
        match self {
            Self::Relay => Ok(env::current_exe()?),
            Self::Leno => find::beside(given.proxy.as_deref(), "leno-proxy"),
            Self::Haproxy => find::installed(None, "haproxy")?.context("haproxy is not installed"),
            Self::Nginx => find::installed(None, "nginx")?.context("nginx is not installed"),
            Self::Envoy => find::envoy(given.envoy.as_deref())?
                .context("envoy is not installed: run make envoy or name it with --envoy"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cell::Placement;
    use super::*;

    fn check(protocol: Protocol, topology: Topology, expected: &str) {
        let scene = Scene {
            protocol,
            topology,
            placement: Placement::Shared,
        };
        let plays = |c: &Contestant| c.part(scene) == Part::Plays;
        let names = Contestant::ALL
            .into_iter()
            .filter(plays)
            .map(Contestant::name);
        assert_eq!(names.collect::<Vec<_>>().join(" "), expected, "{scene}");
    }

    #[test]
    fn everybody_plays_where_the_work_is_the_same() {
        let (plain, mtls) = (Topology::Plain, Topology::Mtls);
        check(Protocol::Http1, plain, "floor leno haproxy nginx envoy");
        check(
            Protocol::Http1,
            mtls,
            "floor leno leno-http1 haproxy haproxy-h2 nginx envoy envoy-h2",
        );
        check(Protocol::Http2, plain, "floor leno haproxy envoy");
        check(Protocol::Grpc, mtls, "floor leno haproxy-h2 envoy-h2");
        check(Protocol::Tcp, mtls, "floor leno haproxy nginx envoy");
    }
}

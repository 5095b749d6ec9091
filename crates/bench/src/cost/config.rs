//! The configuration files of the contestants: minimal, one worker, logs off, keep-alive kept.
//! Pure text from addresses and certificate paths; `subject` writes the files and starts the
//! programs.

mod envoy;
mod leno;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::cell::Protocol;
use super::contestant::{Contestant, Hop, Program};
use crate::dataplane::place::{self, Carries, Leg};
use crate::dataplane::{self, Certificates, haproxy, nginx};

/// Which end of a mesh hop a process is; `Plain` is a proxy alone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Plain,
    /// Takes plaintext, speaks mutual TLS to the other sidecar.
    ClientSide,
    /// Takes mutual TLS, speaks plaintext to the application.
    ServerSide,
}

/// One of the two sides of a proxy.
#[derive(Clone, Copy)]
pub(crate) struct Side {
    pub(crate) tls: bool,
    pub(crate) http2: bool,
}

/// All that a configuration depends on.
pub(crate) struct Place<'a> {
    pub(crate) role: Role,
    pub(crate) protocol: Protocol,
    /// What a pair speaks in between.
    pub(crate) hop: Hop,
    pub(crate) listen: SocketAddr,
    pub(crate) to: SocketAddr,
    /// Downstream connections to be ready for: some set memory aside for each.
    pub(crate) connections_max: usize,
    /// Holds `ca.pem` and for each side `NAME.pem`, `NAME.key` and `NAME.both` (chain and key).
    pub(crate) folder: &'a Path,
    /// A part of the program that it has to load for this protocol.
    pub(crate) module: Option<PathBuf>,
}

impl Place<'_> {
    /// The file stem of the certificate that this side shows.
    fn certificate(&self) -> &'static str {
        match self.role {
            Role::ServerSide => "server",
            Role::Plain | Role::ClientSide => "client",
        }
    }

    fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn downstream(&self) -> Side {
        self.side(self.role == Role::ServerSide)
    }

    fn upstream(&self) -> Side {
        self.side(self.role == Role::ClientSide)
    }

    /// The text that a maker for sidecars gives, for a bare hop.
    fn with_proxy(&self, maker: fn(&place::Place<'_>) -> String) -> String {
        let leg = |addr, Side { tls, http2 }| Leg { addr, tls, http2 };
        maker(&place::Place {
            side: match self.role {
                Role::ServerSide => dataplane::Side::Server,
                Role::Plain | Role::ClientSide => dataplane::Side::Client,
            },
            carries: match self.protocol {
                Protocol::Tcp => Carries::Tcp,
                Protocol::Http1 | Protocol::Http2 | Protocol::Grpc => Carries::Http,
            },
            downstream: leg(self.listen, self.downstream()),
            upstream: leg(self.to, self.upstream()),
            connections_max: self.connections_max,
            certificates: &Certificates::in_folder(self.folder),
            dir: self.folder,
            module: self.module.as_deref(),
            duties: None,
        })
    }

    fn side(&self, is_hop: bool) -> Side {
        let http2 = match is_hop {
            true => self.hop == Hop::Http2,
            false => self.protocol.is_http2(),
        };
        Side { tls: is_hop, http2 }
    }
}

/// The configuration of `contestant` in `place`; the floor has none.
pub(crate) fn text(contestant: Contestant, place: &Place<'_>) -> String {
    match contestant.program() {
        Program::Relay => String::new(),
        Program::Leno => leno::text(place),
        Program::Haproxy => place.with_proxy(haproxy::text),
        Program::Nginx => place.with_proxy(nginx::text),
        Program::Envoy => envoy::text(place),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(contestant: Contestant, role: Role, protocol: Protocol) -> String {
        let place = Place {
            role,
            protocol,
            hop: contestant.hop(),
            listen: SocketAddr::from(([127, 0, 0, 1], 1001)),
            to: SocketAddr::from(([127, 0, 0, 1], 1002)),
            connections_max: 1000,
            folder: Path::new("/certificates"),
            module: None,
        };
        text(contestant, &place)
    }

    fn check(what: (Contestant, Role, Protocol), expected: &[&str], absent: &[&str]) {
        let text = written(what.0, what.1, what.2);
        for word in expected {
            assert!(text.contains(word), "no {word} in {text}");
        }
        for word in absent {
            assert!(!text.contains(word), "{word} in {text}");
        }
    }

    const SIDES: [(Role, &str); 2] = [(Role::ClientSide, "client"), (Role::ServerSide, "server")];

    #[test]
    fn a_plain_hop_has_both_addresses_and_no_tls() {
        for protocol in [Protocol::Http1, Protocol::Http2, Protocol::Tcp] {
            for contestant in [Contestant::Leno, Contestant::Haproxy, Contestant::Nginx] {
                let both = ["127.0.0.1:1001", "127.0.0.1:1002"];
                let what = (contestant, Role::Plain, protocol);
                check(what, &both, &["ca.pem", "ssl"]);
            }
            let ports = ["port_value: 1001", "port_value: 1002"];
            let what = (Contestant::Envoy, Role::Plain, protocol);
            check(what, &ports, &["ca.pem", "tls"]);
        }
    }

    #[test]
    fn both_sides_of_a_mesh_hop_show_and_check_certificates() {
        for protocol in [Protocol::Http1, Protocol::Tcp] {
            for (role, name) in SIDES {
                for contestant in [Contestant::Leno, Contestant::Nginx, Contestant::Envoy] {
                    let key = format!("{name}.key");
                    check((contestant, role, protocol), &["ca.pem", &key], &[]);
                }
                let words = ["verify required", &format!("/{name}.both")];
                check((Contestant::Haproxy, role, protocol), &words, &[]);
            }
        }
    }

    #[test]
    fn the_hop_is_what_the_variant_says() {
        let http1 = Protocol::Http1;
        let client = |contestant| (contestant, Role::ClientSide, http1);
        check(client(Contestant::Leno), &["transport: leno"], &[]);
        check(client(Contestant::LenoHttp1), &["transport: mtls"], &[]);
        for (role, _) in SIDES {
            let h2 = ["alpn h2"];
            check((Contestant::HaproxyH2, role, http1), &h2, &["proto h2"]);
            check((Contestant::Haproxy, role, http1), &[], &h2);
            let h2 = ["alpn_protocols: [h2]"];
            check((Contestant::EnvoyH2, role, http1), &h2, &[]);
            check((Contestant::Envoy, role, http1), &[], &h2);
        }
    }

    #[test]
    fn the_application_is_spoken_to_in_its_protocol() {
        let plain = |contestant, protocol| (contestant, Role::Plain, protocol);
        let words = [
            "bind 127.0.0.1:1001 proto h2",
            "peer 127.0.0.1:1002 proto h2",
        ];
        check(plain(Contestant::Haproxy, Protocol::Http2), &words, &[]);
        let words = ["http2_protocol_options"];
        check(plain(Contestant::Envoy, Protocol::Grpc), &words, &[]);
        let http = ["http_connection_manager", "mode http", "http {"];
        for (contestant, word) in [
            (Contestant::Envoy, "tcp_proxy"),
            (Contestant::Haproxy, "mode tcp"),
            (Contestant::Nginx, "stream {"),
            (Contestant::Leno, "protocol: tcp"),
        ] {
            check(plain(contestant, Protocol::Tcp), &[word], &http);
        }
    }

    #[test]
    fn yaml_configurations_parse() {
        let contestants = [
            Contestant::Leno,
            Contestant::LenoHttp1,
            Contestant::Envoy,
            Contestant::EnvoyH2,
        ];
        for contestant in contestants {
            for role in [Role::Plain, Role::ClientSide, Role::ServerSide] {
                for protocol in [Protocol::Http1, Protocol::Http2, Protocol::Tcp] {
                    let text = written(contestant, role, protocol);
                    let parsed = serde_yaml_ng::from_str::<serde_yaml_ng::Value>(&text);
                    assert!(parsed.is_ok(), "{parsed:?} in {text}");
                }
            }
        }
    }
}

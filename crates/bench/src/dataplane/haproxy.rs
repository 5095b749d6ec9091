//! HAProxy: one thread, mutual TLS with HTTP/1.1 or HTTP/2 between the two. As sidecars here, and
//! as bare hops in `cost`, by the same maker of configurations.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::Context;

use super::envoy::Between;
use super::place::{Carries, Leg, Place, SUITE};
use super::{DataPlane, Hop, InMesh, Launch, Readiness, find, free_port};
use crate::results::{DataPlaneVersion, EnvironmentKind};

/// HAProxy.
#[derive(Debug)]
pub struct Haproxy {
    program: PathBuf,
    between: Between,
}

impl Haproxy {
    /// `program` is the binary, see [`find::installed`].
    pub fn new(program: PathBuf, between: Between) -> Self {
        Self { program, between }
    }
}

impl DataPlane for Haproxy {
    fn name(&self) -> &str {
        match self.between {
            Between::Http1 => "haproxy",
            Between::Http2 => "haproxy-h2",
        }
    }

    fn version(&self) -> anyhow::Result<DataPlaneVersion> {
        // `HAProxy version 2.6.12-1+deb12u1 2023/12/16 - https://haproxy.org/`
        let said = find::said_by(&self.program, "-v")?;
        let number = said.split_whitespace().nth(2).unwrap_or(&said);
        Ok(DataPlaneVersion {
            name: self.name().to_owned(),
            version: number.to_owned(),
            binary: Some(super::binary_of(&self.program)),
        })
    }

    fn launch(&self, hop: &Hop<'_>) -> anyhow::Result<Launch> {
        let (listener, admin) = (free_port()?, free_port()?);
        let config = hop.dir.join("haproxy.cfg");
        let place = Place::of(hop, self.between, listener, admin);
        fs::write(&config, text(&place))
            .with_context(|| format!("writing {}", config.display()))?;
        Ok(Launch {
            program: self.program.clone(),
            args: vec!["-f".into(), config.clone().into()],
            config,
            readiness: Readiness::Listening {
                listener,
                admin: Some(admin),
            },
            counters: "/stats;csv".into(),
        })
    }

    fn notes(&self, _: EnvironmentKind) -> Vec<String> {
        let between = match self.between {
            Between::Http1 => "HTTP/1.1",
            Between::Http2 => "HTTP/2",
        };
        vec![format!(
            "{}: one thread, {between} between the sidecars, connections to the other side reused \
             by all requests, its counters always on; it reads no SPIFFE ids: the server's finds \
             the client's in the bytes of the certificate, once for each connection, the client's \
             checks the server's DNS name instead",
            self.name()
        )]
    }

    fn in_mesh(&self) -> Option<InMesh> {
        None
    }
}

/// The configuration file.
pub(crate) fn text(place: &Place<'_>) -> String {
    let (listen, to) = (place.downstream.addr, place.upstream.addr);
    let connections = place.connections_max;
    let mode = match place.carries {
        Carries::Tcp => "  mode tcp\n",
        Carries::Http => HTTP,
    };
    let bind = words(place, place.downstream);
    let server = words(place, place.upstream);
    let (accepts, verifies) = match place.duties {
        Some(_) => (accepts(place), verifies(place)),
        None => (String::new(), String::new()),
    };
    let admin = admin(place);
    format!(
        "global
  nbthread 1
  maxconn {connections}
defaults
{mode}  no log
  timeout connect 5s
  timeout client 300s
  timeout server 300s
frontend in
  bind {listen}{bind}
{accepts}  default_backend out
backend out
  server peer {to}{server}{verifies}
{admin}"
    )
}

const HTTP: &str = "  mode http\n  timeout http-keep-alive 300s\n  http-reuse always\n";

/// What follows an address.
fn words(place: &Place<'_>, leg: Leg) -> String {
    let http2 = leg.http2 && place.carries != Carries::Tcp;
    if !leg.tls {
        return if http2 { " proto h2" } else { "" }.to_owned();
    }
    let [ca, _, _, pair] = place.files();
    let alpn = if http2 { " alpn h2" } else { "" };
    format!(
        " ssl crt {pair} ca-file {ca} verify required ciphersuites {SUITE} \
         ssl-min-ver TLSv1.3{alpn}"
    )
}

/// Nobody but the peer, by the bytes that its URI has in the certificate (RFC 5280, 4.2.1.6: tag
/// 6 of the general names, then the length): there is no word for the names themselves.
fn accepts(place: &Place<'_>) -> String {
    if !place.downstream.tls {
        return String::new();
    }
    let id = place.peer_id();
    let mut bytes = format!("86{:02X}", id.len());
    for byte in id.bytes() {
        let _ = write!(bytes, "{byte:02X}");
    }
    format!("  tcp-request session reject unless {{ ssl_c_der,hex -m sub {bytes} }}\n")
}

fn verifies(place: &Place<'_>) -> String {
    match place.upstream.tls {
        true => format!(" verifyhost {}", place.peer_name()),
        false => String::new(),
    }
}

fn admin(place: &Place<'_>) -> String {
    let Some(duties) = place.duties else {
        return String::new();
    };
    format!(
        "frontend admin
  mode http
  no log
  bind {}
  stats enable
  stats uri /stats
",
        duties.admin
    )
}

#[cfg(test)]
mod tests {
    use super::super::Side;
    use super::super::place::tests::check;
    use super::*;

    #[test]
    fn each_side_shows_and_checks_certificates() {
        let bind = "bind 127.0.0.1:1001 ssl crt /certificates/server.both \
                    ca-file /certificates/ca.pem verify required";
        // Tag, length, `spiffe:`.
        let id = "tcp-request session reject unless { ssl_c_der,hex -m sub 86317370696666653A";
        check(text, (Side::Server, true), &[bind, id], &["verifyhost"]);
        let server = "server peer 127.0.0.1:1002 ssl crt /certificates/client.both \
                      ca-file /certificates/ca.pem verify required";
        let name = "verifyhost fortioserver.default.svc.cluster.local";
        check(text, (Side::Client, true), &[server, name], &["reject"]);
    }

    #[test]
    fn alone_it_is_plaintext_and_counts() {
        let expected = ["no log", "nbthread 1", "127.0.0.1:1003", "stats uri /stats"];
        check(
            text,
            (Side::Server, false),
            &expected,
            &["ssl", "verify", "reject"],
        );
    }
}

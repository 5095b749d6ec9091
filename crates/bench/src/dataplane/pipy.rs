//! Pipy: a script of ours, written after its documentation: one thread, mutual TLS with HTTP/1.1
//! between the two, one connection to the other side for each from this side.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;

use super::envoy::Between;
use super::place::Place;
use super::{DataPlane, Hop, InMesh, Launch, Readiness, find, free_port};
use crate::results::{DataPlaneVersion, EnvironmentKind};

/// Pipy.
#[derive(Debug)]
pub struct Pipy {
    program: PathBuf,
}

impl Pipy {
    /// `program` is the binary, see [`find::installed`].
    pub fn new(program: PathBuf) -> Self {
        Self { program }
    }
}

impl DataPlane for Pipy {
    fn name(&self) -> &'static str {
        "pipy"
    }

    fn version(&self) -> anyhow::Result<DataPlaneVersion> {
        // `Version     : 0.90.3-11`, then when and from what it was built.
        let said = find::version_of(&self.program)?;
        let line = said.lines().next().unwrap_or_default();
        let number = line.rsplit_once(':').map_or(line, |(_, number)| number);
        Ok(DataPlaneVersion {
            name: self.name().to_owned(),
            version: number.trim().to_owned(),
            binary: Some(super::binary_of(&self.program)),
        })
    }

    fn launch(&self, hop: &Hop<'_>) -> anyhow::Result<Launch> {
        let listener = free_port()?;
        let place = Place::of(hop, Between::Http1, listener, listener);
        let config = hop.dir.join("main.js");
        fs::write(&config, script(&place))
            .with_context(|| format!("writing {}", config.display()))?;
        if hop.mutual_tls {
            // A script loads files from its own folder only.
            let [ca, chain, key, _] = place.files();
            for (from, name) in [(ca, "ca.pem"), (chain, "cert.pem"), (key, "key.pem")] {
                fs::copy(&from, hop.dir.join(name)).with_context(|| format!("copying {from}"))?;
            }
        }
        let mut args: Vec<_> = ["--threads=1", "--log-level=warn"].map(Into::into).to_vec();
        args.push(config.clone().into());
        Ok(Launch {
            program: self.program.clone(),
            args,
            config,
            readiness: Readiness::Listening {
                listener,
                admin: None,
            },
            counters: "".into(),
        })
    }

    fn notes(&self, _: EnvironmentKind) -> Vec<String> {
        let note = "pipy: one thread, HTTP/1.1 between the sidecars, a connection to the other \
                    side for each connection; a script without counters and without an access \
                    log, whatever telemetry is asked for";
        vec![note.to_owned()]
    }

    fn in_mesh(&self) -> Option<InMesh> {
        None
    }
}

/// The script.
fn script(place: &Place<'_>) -> String {
    let (listen, to) = (place.downstream.addr, place.upstream.addr);
    let connect = format!("$=>$.connect('{to}')");
    let connect = match place.upstream.tls {
        true => format!("$=>$.connectTLS({}).to({connect})", tls(&place.peer_id())),
        false => connect,
    };
    let http = format!("demuxHTTP().to($=>$.muxHTTP(() => __inbound).to(\n  {connect}))");
    let http = match place.downstream.tls {
        true => format!("acceptTLS({}).to($=>$.{http})", tls(&place.peer_id())),
        false => http,
    };
    format!("pipy()\n\n.listen('{listen}')\n.{http}\n")
}

/// Options of either side. The authority's own certificate is shown to `verify`, too.
fn tls(peer_id: &str) -> String {
    format!(
        "{{
    certificate: {{
      cert: new crypto.CertificateChain(pipy.load('cert.pem')),
      key: new crypto.PrivateKey(pipy.load('key.pem')),
    }},
    trusted: [new crypto.Certificate(pipy.load('ca.pem'))],
    verify: (ok, cert) => ok && (
      cert.subject.commonName === 'leno bench' ||
      Boolean(cert.subjectAltNames?.includes?.('{peer_id}'))
    ),
  }}"
    )
}

#[cfg(test)]
mod tests {
    use super::super::Side;
    use super::super::place::tests::check;
    use super::*;

    #[test]
    fn each_side_shows_and_checks_certificates() {
        let both = ["pipy.load('cert.pem')", "pipy.load('ca.pem')"];
        for (side, word, peer, not) in [
            (Side::Server, "acceptTLS", "sa/fortioclient'", "connectTLS"),
            (Side::Client, "connectTLS", "sa/fortioserver'", "acceptTLS"),
        ] {
            check(script, (side, true), &both, &[not]);
            check(
                script,
                (side, true),
                &[word, peer, "demuxHTTP()", "muxHTTP("],
                &[],
            );
        }
    }

    #[test]
    fn alone_it_is_plaintext_and_its_brackets_match() {
        check(
            script,
            (Side::Server, false),
            &["demuxHTTP()", "muxHTTP("],
            &["TLS", ".pem"],
        );
        for (side, mutual_tls) in [
            (Side::Server, true),
            (Side::Client, true),
            (Side::Client, false),
        ] {
            check(balance, (side, mutual_tls), &["() {} []"], &[]);
        }
    }

    /// The script, and at its end as many brackets of each kind as are never closed, as pairs.
    fn balance(place: &Place<'_>) -> String {
        let script = script(place);
        let count = |bracket: char| script.matches(bracket).count();
        let pair = |open, close| match count(open) == count(close) {
            true => format!("{open}{close}"),
            false => String::new(),
        };
        let pairs = [pair('(', ')'), pair('{', '}'), pair('[', ']')];
        format!("{script}{}", pairs.join(" "))
    }
}

//! nginx: one worker under its master, mutual TLS with HTTP/1.1 between the two. As sidecars here,
//! and as bare hops in `cost`, also of opaque TCP (`stream`), by the same maker of configurations.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;

use super::envoy::Between;
use super::place::{Carries, Duties, Place, SUITE};
use super::{DataPlane, Hop, InMesh, Launch, Readiness, find, free_port};
use crate::results::{DataPlaneVersion, EnvironmentKind};

/// nginx.
#[derive(Debug)]
pub struct Nginx {
    program: PathBuf,
}

impl Nginx {
    /// `program` is the binary, see [`find::installed`].
    pub fn new(program: PathBuf) -> Self {
        Self { program }
    }
}

impl DataPlane for Nginx {
    fn name(&self) -> &'static str {
        "nginx"
    }

    fn version(&self) -> anyhow::Result<DataPlaneVersion> {
        // `nginx version: nginx/1.22.1`
        let said = find::said_by(&self.program, "-v")?;
        let number = said.rsplit_once('/').map_or(&*said, |(_, number)| number);
        Ok(DataPlaneVersion {
            name: self.name().to_owned(),
            version: number.to_owned(),
            binary: Some(super::binary_of(&self.program)),
        })
    }

    fn launch(&self, hop: &Hop<'_>) -> anyhow::Result<Launch> {
        let (listener, admin) = (free_port()?, free_port()?);
        let config = hop.dir.join("nginx.conf");
        let place = Place::of(hop, Between::Http1, listener, admin);
        fs::write(&config, text(&place))
            .with_context(|| format!("writing {}", config.display()))?;
        let folder = hop.dir.as_os_str().to_owned();
        Ok(Launch {
            program: self.program.clone(),
            args: vec!["-p".into(), folder, "-c".into(), config.clone().into()],
            config,
            readiness: Readiness::Listening {
                listener,
                admin: Some(admin),
            },
            counters: "/stub_status".into(),
        })
    }

    fn notes(&self, _: EnvironmentKind) -> Vec<String> {
        let note = "nginx: one worker and its master, both counted, HTTP/1.1 between the \
                    sidecars, up to 1024 idle connections to the other side, its few counters \
                    always on; it reads no SPIFFE ids: the server's compares the subject of the \
                    client's certificate, which has it too, with each request, the client's \
                    checks the server's DNS name instead";
        vec![note.to_owned()]
    }

    fn in_mesh(&self) -> Option<InMesh> {
        None
    }
}

/// The configuration file.
pub(crate) fn text(place: &Place<'_>) -> String {
    let dir = place.dir.display();
    let load = place.module;
    let load = load.map(|path| format!("load_module {};\n", path.display()));
    let service = match place.carries {
        Carries::Tcp => stream(place),
        Carries::Http => http(place),
    };
    format!(
        "{load}daemon off;
{processes}worker_processes 1;
pid {dir}/nginx-{port}.pid;
events {{ worker_connections {connections}; }}
{service}",
        load = load.unwrap_or_default(),
        processes = processes(place.duties),
        // nginx counts both sides.
        connections = place.connections_max * 2,
        port = place.downstream.addr.port(),
    )
}

/// A bare hop is one process; a sidecar is run as an operator would.
fn processes(duties: Option<Duties>) -> &'static str {
    match duties {
        None => "master_process off;\nerror_log /dev/null crit;\n",
        // Another user could not enter our folders; without root nginx has no choice anyway.
        Some(duties) if duties.is_root => "user root;\nerror_log stderr error;\n",
        Some(_) => "error_log stderr error;\n",
    }
}

fn http(place: &Place<'_>) -> String {
    let scheme = if place.upstream.tls { "https" } else { "http" };
    let (listen, to, tls) = (listen(place), place.upstream.addr, tls(place));
    let dir = place.dir.display();
    let (accepts, host) = match place.duties {
        Some(_) => (accepts(place), "      proxy_set_header Host $http_host;\n"),
        None => (String::new(), ""),
    };
    let admin = admin(place.duties);
    format!(
        "http {{
  access_log off;
  keepalive_timeout 300s;
  keepalive_requests 1000000000;
  tcp_nodelay on;
  client_body_temp_path {dir}/body;
  proxy_temp_path {dir}/proxy;
  fastcgi_temp_path {dir}/fastcgi;
  uwsgi_temp_path {dir}/uwsgi;
  scgi_temp_path {dir}/scgi;
  upstream peer {{
    server {to};
    keepalive 1024;
    keepalive_requests 1000000000;
    keepalive_timeout 300s;
  }}
  server {{
{listen}{tls}{accepts}    location / {{
      proxy_pass {scheme}://peer;
      proxy_http_version 1.1;
      proxy_set_header Connection \"\";
{host}    }}
  }}
{admin}}}
"
    )
}

/// Nobody but the peer: its SPIFFE id is its certificate's common name, too.
fn accepts(place: &Place<'_>) -> String {
    match place.downstream.tls {
        true => format!(
            "    if ($ssl_client_s_dn != \"CN={}\") {{ return 403; }}\n",
            place.peer_id()
        ),
        false => String::new(),
    }
}

fn admin(duties: Option<Duties>) -> String {
    let Some(duties) = duties else {
        return String::new();
    };
    format!(
        "  server {{
    listen {};
    access_log off;
    location = /stub_status {{ stub_status; }}
  }}
",
        duties.admin
    )
}

fn stream(place: &Place<'_>) -> String {
    let (listen, to, tls) = (listen(place), place.upstream.addr, tls(place));
    let dial = if place.upstream.tls {
        "    proxy_ssl on;\n"
    } else {
        ""
    };
    format!(
        "stream {{
  tcp_nodelay on;
  server {{
{listen}{tls}{dial}    proxy_timeout 300s;
    proxy_pass {to};
  }}
}}
"
    )
}

fn listen(place: &Place<'_>) -> String {
    let ssl = if place.downstream.tls { " ssl" } else { "" };
    format!("    listen {}{ssl} backlog=4096;\n", place.downstream.addr)
}

fn tls(place: &Place<'_>) -> String {
    let [ca, chain, key, _] = place.files();
    if place.downstream.tls {
        format!(
            "    ssl_protocols TLSv1.3;
    ssl_conf_command Ciphersuites {SUITE};
    ssl_certificate {chain};
    ssl_certificate_key {key};
    ssl_client_certificate {ca};
    ssl_verify_client on;
"
        )
    } else if place.upstream.tls {
        format!(
            "    proxy_ssl_protocols TLSv1.3;
    proxy_ssl_conf_command Ciphersuites {SUITE};
    proxy_ssl_certificate {chain};
    proxy_ssl_certificate_key {key};
    proxy_ssl_trusted_certificate {ca};
    proxy_ssl_verify on;
    proxy_ssl_name {name};
",
            name = place.peer_name()
        )
    } else {
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Side;
    use super::super::place::tests::check;
    use super::*;

    #[test]
    fn each_side_shows_and_checks_certificates() {
        let expected = [
            "listen 127.0.0.1:1001 ssl",
            "ssl_certificate /certificates/server.pem",
            "ssl_verify_client on",
            "if ($ssl_client_s_dn != \"CN=spiffe://cluster.local/ns/default/sa/fortioclient\")",
            "proxy_pass http://peer",
        ];
        check(text, (Side::Server, true), &expected, &["proxy_ssl"]);
        let expected = [
            "proxy_ssl_certificate /certificates/client.pem",
            "proxy_ssl_verify on",
            "proxy_ssl_name fortioserver.default.svc.cluster.local",
            "proxy_pass https://peer",
        ];
        check(
            text,
            (Side::Client, true),
            &expected,
            &["ssl_verify_client"],
        );
    }

    #[test]
    fn alone_it_is_plaintext_and_counts() {
        let expected = [
            "access_log off",
            "worker_processes 1",
            "listen 127.0.0.1:1003",
        ];
        check(
            text,
            (Side::Server, false),
            &expected,
            &["ssl", "master_process off"],
        );
    }
}

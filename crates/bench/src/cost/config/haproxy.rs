//! HAProxy as a plain hop or as one side of a mesh hop.

use super::{Place, Role};

const SUITE: &str = "TLS_AES_128_GCM_SHA256";

pub(super) fn text(place: &Place<'_>) -> String {
    let (listen, to, connections) = (place.listen, place.to, place.connections_max);
    let ca = place.file("ca.pem");
    let pair = place.file(&format!("{}.both", place.certificate()));
    let tls = format!("ssl crt {pair} ca-file {ca} verify required ciphersuites {SUITE}");
    let (bind_tls, server_tls) = match place.role {
        Role::Plain => (String::new(), String::new()),
        Role::ClientSide => (String::new(), format!("{tls} ssl-min-ver TLSv1.3")),
        Role::ServerSide => (format!("{tls} ssl-min-ver TLSv1.3"), String::new()),
    };
    format!(
        "global
  nbthread 1
  maxconn {connections}
defaults
  mode http
  no log
  timeout connect 5s
  timeout client 300s
  timeout server 300s
  timeout http-keep-alive 300s
  http-reuse always
frontend in
  bind {listen} {bind_tls}
  default_backend out
backend out
  server peer {to} {server_tls}
"
    )
}

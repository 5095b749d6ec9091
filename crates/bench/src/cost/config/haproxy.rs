//! HAProxy as a plain hop or as one side of a mesh hop.

use super::{Place, Side};
use crate::cost::cell::Protocol;

const SUITE: &str = "TLS_AES_128_GCM_SHA256";

pub(super) fn text(place: &Place<'_>) -> String {
    let (listen, to, connections) = (place.listen, place.to, place.connections_max);
    let mode = match place.protocol {
        Protocol::Tcp => "  mode tcp\n",
        Protocol::Http1 | Protocol::Http2 | Protocol::Grpc => {
            "  mode http\n  timeout http-keep-alive 300s\n  http-reuse always\n"
        }
    };
    let (bind, server) = (
        words(place, place.downstream()),
        words(place, place.upstream()),
    );
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
  default_backend out
backend out
  server peer {to}{server}
"
    )
}

/// What follows an address.
fn words(place: &Place<'_>, side: Side) -> String {
    let http2 = side.http2 && place.protocol != Protocol::Tcp;
    if !side.tls {
        return if http2 { " proto h2" } else { "" }.to_owned();
    }
    let ca = place.file("ca.pem");
    let pair = place.file(&format!("{}.both", place.certificate()));
    let alpn = if http2 { " alpn h2" } else { "" };
    format!(
        " ssl crt {pair} ca-file {ca} verify required ciphersuites {SUITE} \
         ssl-min-ver TLSv1.3{alpn}"
    )
}

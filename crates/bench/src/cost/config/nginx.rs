//! nginx as a plain hop or as one side of a mesh hop, for HTTP/1.1 or, as `stream`, for TCP.

use super::Place;
use crate::cost::cell::Protocol;

const SUITE: &str = "TLS_AES_128_GCM_SHA256";

pub(super) fn text(place: &Place<'_>) -> String {
    let folder = place.folder.display();
    let load = place.module.as_ref();
    let load = load.map(|path| format!("load_module {};\n", path.display()));
    let service = match place.protocol {
        Protocol::Tcp => stream(place),
        Protocol::Http1 | Protocol::Http2 | Protocol::Grpc => http(place),
    };
    format!(
        "{load}daemon off;
master_process off;
worker_processes 1;
pid {folder}/nginx-{port}.pid;
error_log /dev/null crit;
events {{ worker_connections {connections}; }}
{service}",
        load = load.unwrap_or_default(),
        // nginx counts both sides.
        connections = place.connections_max * 2,
        port = place.listen.port(),
    )
}

fn http(place: &Place<'_>) -> String {
    let scheme = if place.upstream().tls {
        "https"
    } else {
        "http"
    };
    let (listen, to, tls) = (listen(place), place.to, tls(place));
    let folder = place.folder.display();
    format!(
        "http {{
  access_log off;
  keepalive_timeout 300s;
  keepalive_requests 1000000000;
  tcp_nodelay on;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  upstream peer {{
    server {to};
    keepalive 1024;
    keepalive_requests 1000000000;
    keepalive_timeout 300s;
  }}
  server {{
{listen}{tls}    location / {{
      proxy_pass {scheme}://peer;
      proxy_http_version 1.1;
      proxy_set_header Connection \"\";
    }}
  }}
}}
"
    )
}

fn stream(place: &Place<'_>) -> String {
    let (listen, to, tls) = (listen(place), place.to, tls(place));
    let dial = if place.upstream().tls {
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
    let ssl = if place.downstream().tls { " ssl" } else { "" };
    format!("    listen {}{ssl} backlog=4096;\n", place.listen)
}

fn tls(place: &Place<'_>) -> String {
    let ca = place.file("ca.pem");
    let chain = place.file(&format!("{}.pem", place.certificate()));
    let key = place.file(&format!("{}.key", place.certificate()));
    if place.downstream().tls {
        format!(
            "    ssl_protocols TLSv1.3;
    ssl_conf_command Ciphersuites {SUITE};
    ssl_certificate {chain};
    ssl_certificate_key {key};
    ssl_client_certificate {ca};
    ssl_verify_client on;
"
        )
    } else if place.upstream().tls {
        format!(
            "    proxy_ssl_protocols TLSv1.3;
    proxy_ssl_conf_command Ciphersuites {SUITE};
    proxy_ssl_certificate {chain};
    proxy_ssl_certificate_key {key};
    proxy_ssl_trusted_certificate {ca};
    proxy_ssl_verify on;
    proxy_ssl_name server.mesh;
"
        )
    } else {
        String::new()
    }
}

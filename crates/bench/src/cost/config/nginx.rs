//! nginx as a plain hop or as one side of a mesh hop.

use super::{Place, Role};

const SUITE: &str = "TLS_AES_128_GCM_SHA256";

pub(super) fn text(place: &Place<'_>) -> String {
    let scheme = if place.role == Role::ClientSide {
        "https"
    } else {
        "http"
    };
    let ssl = if place.role == Role::ServerSide {
        " ssl"
    } else {
        ""
    };
    let (listen, to, tls) = (place.listen, place.to, tls(place));
    let folder = place.folder.display();
    format!(
        "daemon off;
master_process off;
worker_processes 1;
pid {folder}/nginx-{port}.pid;
error_log /dev/null crit;
events {{ worker_connections {connections}; }}
http {{
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
    listen {listen}{ssl} backlog=4096;
{tls}    location / {{
      proxy_pass {scheme}://peer;
      proxy_http_version 1.1;
      proxy_set_header Connection \"\";
    }}
  }}
}}
",
        // nginx counts both sides.
        connections = place.connections_max * 2,
        port = place.listen.port(),
    )
}

fn tls(place: &Place<'_>) -> String {
    let ca = place.file("ca.pem");
    let chain = place.file(&format!("{}.pem", place.certificate()));
    let key = place.file(&format!("{}.key", place.certificate()));
    match place.role {
        Role::Plain => String::new(),
        Role::ServerSide => format!(
            "    ssl_protocols TLSv1.3;
    ssl_conf_command Ciphersuites {SUITE};
    ssl_certificate {chain};
    ssl_certificate_key {key};
    ssl_client_certificate {ca};
    ssl_verify_client on;
"
        ),
        Role::ClientSide => format!(
            "    proxy_ssl_protocols TLSv1.3;
    proxy_ssl_conf_command Ciphersuites {SUITE};
    proxy_ssl_certificate {chain};
    proxy_ssl_certificate_key {key};
    proxy_ssl_trusted_certificate {ca};
    proxy_ssl_verify on;
    proxy_ssl_name server.mesh;
"
        ),
    }
}

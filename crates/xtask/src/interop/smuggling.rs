//! Requests that two readers could read two ways, sent to sidecars in front of nginx and of a Go
//! server. Each is refused, or the back end saw exactly one; the corpus lies in
//! `interop/smuggling`, what is done with a case in `interop/go/attack`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::pair::{self, PLAIN, Pair, Shape};
use super::process::{self, Process};
use super::report::Report;
use super::tools;
use super::world::World;

/// Most cases take milliseconds; one that waits for more takes half a second.
const LIMIT: Duration = Duration::from_secs(120);

const NGINX: &str = "\
daemon off;
master_process off;
worker_processes 1;
pid FOLDER/nginx.pid;
error_log FOLDER/nginx.log;
events { worker_connections 512; }
http {
  client_body_temp_path FOLDER/nginx-body;
  proxy_temp_path FOLDER/nginx-proxy;
  fastcgi_temp_path FOLDER/nginx-fastcgi;
  uwsgi_temp_path FOLDER/nginx-uwsgi;
  scgi_temp_path FOLDER/nginx-scgi;
  map $request_method $read { '' unread; default $request_method; }
  log_format seen escape=none '$read $request_uri $http_host -';
  access_log FOLDER/nginx-seen.log seen;
  server {
    listen ADDRESS;
    location / {
      add_header x-seen '$request_method $uri';
      return 200 'hello';
    }
  }
}
";

/// A back end, and the file where it writes what it saw.
struct BackEnd {
    process: Process,
    seen: PathBuf,
}

/// Who reads the requests, and in front of what.
struct Way {
    name: &'static str,
    is_pair: bool,
    is_nginx: bool,
    protocol: &'static str,
}

const WAYS: &[Way] = &[
    Way {
        name: "one sidecar, Go",
        is_pair: false,
        is_nginx: false,
        protocol: "auto",
    },
    Way {
        name: "one sidecar, Go with HTTP/1",
        is_pair: false,
        is_nginx: false,
        protocol: "http1",
    },
    Way {
        name: "one sidecar, Go with HTTP/2",
        is_pair: false,
        is_nginx: false,
        protocol: "http2",
    },
    Way {
        name: "one sidecar, nginx",
        is_pair: false,
        is_nginx: true,
        protocol: "http1",
    },
    Way {
        name: "pair, Go",
        is_pair: true,
        is_nginx: false,
        protocol: "auto",
    },
    Way {
        name: "pair, nginx",
        is_pair: true,
        is_nginx: true,
        protocol: "http1",
    },
];

pub(super) fn run(world: &World, report: &mut Report) -> Result<()> {
    let attack = tools::go(world, "attack", "./attack")?;
    let server = tools::go(world, "server", "./server")?;
    for way in WAYS {
        for corpus in ["http1", "http2"] {
            report.case(&format!("{corpus} {}", way.name), || {
                let app = if way.is_nginx {
                    nginx(world)?
                } else {
                    go(world, &server)?
                };
                attempt(world, &attack, corpus, (way, &app))
            });
        }
    }
    Ok(())
}

/// Sends one corpus one way; gives how many cases there were.
fn attempt(world: &World, attack: &Path, corpus: &str, to: (&Way, &BackEnd)) -> Result<String> {
    let (way, app) = to;
    let protocol = way.protocol;
    let shape = Shape { protocol, ..PLAIN };
    let next = &app.process.address;
    let said = if way.is_pair {
        let pair = Pair::start(world, next, shape)?;
        let said = send(world, attack, corpus, (&pair.outbound, app))?;
        pair.check().map(|()| said)?
    } else {
        let alone = pair::alone(world, next, shape)?;
        send(world, attack, corpus, (&alone, app))?
    };
    let last = said.lines().last().context("no case was sent")?;
    Ok(last.to_owned())
}

fn send(world: &World, attack: &Path, corpus: &str, to: (&Process, &BackEnd)) -> Result<String> {
    let (front, app) = to;
    let folder = world.root.join("interop/smuggling");
    let mut command = Command::new(attack);
    command.arg("-corpus");
    command.arg(folder.join(format!("{corpus}.txt")));
    command
        .args(["-to", &front.address, "-seen"])
        .arg(&app.seen);
    process::output(&mut command, LIMIT, &world.file("attack.log"))
}

fn go(world: &World, server: &Path) -> Result<BackEnd> {
    let seen = world.file("go-seen.log");
    fs::write(&seen, "")?;
    let mut command = Command::new(server);
    command.arg("-log").arg(&seen);
    let process = Process::start(&mut command, &world.file("server.log"))?;
    Ok(BackEnd { process, seen })
}

fn nginx(world: &World) -> Result<BackEnd> {
    let nginx = tools::find("nginx")?;
    let address = process::free_address()?;
    let seen = world.file("nginx-seen.log");
    fs::write(&seen, "")?;
    let file = world.file("nginx.conf");
    let folder = world.folder.display().to_string();
    fs::write(
        &file,
        NGINX
            .replace("FOLDER", &folder)
            .replace("ADDRESS", &address),
    )?;
    let mut command = Command::new(nginx);
    command.arg("-p").arg(&world.folder).arg("-c").arg(&file);
    let process = Process::start_at(&mut command, &address, &world.file("nginx-start.log"))?;
    Ok(BackEnd { process, seen })
}

//! Protocols that are not HTTP, through a pair that passes them on unread: on ports that are listed
//! as opaque and on others, where the sidecars have to find out. Databases with their own load
//! tools, mail, and a server that speaks first.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::languages::{self, Language};
use super::pair::{PLAIN, Pair, Shape};
use super::postgres::Postgres;
use super::process::{self, Process, port};
use super::report::Report;
use super::tools;
use super::world::World;

/// The load tools take seconds.
const LIMIT: Duration = Duration::from_secs(90);
/// What a client of a silent protocol waits at most for its greeting: 50 ms until the destination
/// is dialled, twice because there are two sidecars, and what it takes to connect.
const GREETING_MAX: Duration = Duration::from_millis(150);
/// An odd number, for the median.
const GREETINGS: usize = 5;
/// As a MySQL server begins: length, number, version of the protocol, version of the server.
const GREETING: &[u8] = b"\x4a\0\0\0\x0a8.4.0\0";

/// A port that is listed as opaque, and one that is not.
const DECLARED: Shape = Shape {
    is_opaque: true,
    ..PLAIN
};

/// Databases.
pub(super) fn run_databases(world: &World, report: &mut Report) -> Result<()> {
    match Postgres::start(world) {
        Ok(server) => {
            each_way(world, report, "PostgreSQL", &server.process, postgres)?;
            server.end()?;
        }
        Err(error) => report.case("PostgreSQL", || Err(error)),
    }
    match redis_server(world) {
        Ok(server) => each_way(world, report, "Redis", &server, redis),
        Err(error) => {
            report.case("Redis", || Err(error));
            Ok(())
        }
    }
}

/// Mail, and whoever else speaks first.
pub(super) fn run_greetings(world: &World, report: &mut Report) -> Result<()> {
    match mail_server(world) {
        Ok(server) => each_way(world, report, "SMTP", &server, mail)?,
        Err(error) => report.case("SMTP", || Err(error)),
    }
    report.case("greeting, destination unknown", || {
        let server = greeter()?;
        let mut times = Vec::new();
        for _ in 0..GREETINGS {
            let pair = Pair::start(world, &server, PLAIN)?;
            times.push(greeting(pair.address())?);
        }
        judge(times)
    });
    report.case("greeting, destination remembered", || {
        let pair = Pair::start(world, &greeter()?, PLAIN)?;
        let times: Result<Vec<_>> = (0..GREETINGS).map(|_| greeting(pair.address())).collect();
        judge(times?)
    });
    for protocol in ["auto", "http1", "http2"] {
        report.case(&format!("late request, {protocol} behind"), || {
            let server = Language::Go.server(world, "1")?;
            let shape = Shape { protocol, ..PLAIN };
            let pair = Pair::start(world, &server.address, shape)?;
            let result = late_request(pair.address());
            pair.check()?;
            result.map(|()| String::new())
        });
    }
    Ok(())
}

/// A session with a server at an address.
type Session = fn(&World, &str) -> Result<()>;

fn each_way(
    world: &World,
    report: &mut Report,
    name: &str,
    server: &Process,
    session: Session,
) -> Result<()> {
    for (way, shape) in [("declared", DECLARED), ("undeclared", PLAIN)] {
        report.case(&format!("{name} on a port {way}"), || {
            session(world, &server.address).context("without sidecars")?;
            let pair = Pair::start(world, &server.address, shape)?;
            let result = session(world, pair.address());
            pair.check()?;
            result.context("through the pair").map(|()| String::new())
        });
    }
    Ok(())
}

/// A query, and the load tool's tables and transactions.
fn postgres(world: &World, address: &str) -> Result<()> {
    let log = world.file("postgres-client.log");
    let run = |program: &str, args: &[&str]| {
        let mut command = Command::new(tools::find(program)?);
        command.args(["-h", "127.0.0.1", "-p", port(address), "-U", "postgres"]);
        process::output(command.args(args), LIMIT, &log)
    };
    let said = run("psql", &["-At", "-c", "select 6 * 7"])?;
    ensure!(said.trim() == "42", "psql said {said:?}");
    run("pgbench", &["-i", "--quiet", "postgres"])?;
    let said = run("pgbench", &["-c", "4", "-t", "200", "postgres"])?;
    let all = "transactions actually processed: 800/800";
    ensure!(said.contains(all), "pgbench said {said}");
    Ok(())
}

fn redis_server(world: &World) -> Result<Process> {
    let mut command = Command::new(tools::find("redis-server")?);
    let address = process::free_address()?;
    command.args(["--port", port(&address), "--bind", "127.0.0.1"]);
    command.args(["--save", "", "--appendonly", "no", "--dir"]);
    command.arg(&world.folder);
    Process::start_at(&mut command, &address, &world.file("redis.log"))
}

/// The load tool, small and pipelined, and values of a MiB. It stops at the first error.
fn redis(world: &World, address: &str) -> Result<()> {
    let loads: [&[&str]; 3] = [
        &["-t", "ping,set,get,lpush,lrange_100", "-c", "20"],
        &["-t", "set,get", "-P", "16"],
        &["-t", "set,get", "-d", "1048576", "-n", "50"],
    ];
    for load in loads {
        let mut command = Command::new(tools::find("redis-benchmark")?);
        command.args(["-h", "127.0.0.1", "-p", port(address)]);
        command.args(["-q", "-n", "20000"]).args(load);
        let said = process::output(&mut command, LIMIT, &world.file("redis-client.log"))?;
        ensure!(!said.contains("rror"), "redis-benchmark said {said}");
    }
    Ok(())
}

fn mail_server(world: &World) -> Result<Process> {
    let mut command = languages::python(world, "smtp_server.py")?;
    Process::start(&mut command, &world.file("smtp-server.log"))
}

fn mail(world: &World, address: &str) -> Result<()> {
    let mut command = languages::python(world, "smtp_client.py")?;
    command.arg(port(address));
    process::output(&mut command, LIMIT, &world.file("smtp-client.log")).map(drop)
}

/// A server that greets whoever comes, and waits for no answer. It lives as long as we do.
fn greeter() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    thread::spawn(move || {
        let mut open = Vec::new();
        for mut conn in listener.incoming().flatten() {
            // Whoever has gone before the greeting is not missed.
            let _ = conn.write_all(GREETING);
            open.push(conn);
        }
    });
    Ok(address)
}

/// How long a silent client waits for its greeting.
fn greeting(address: &str) -> Result<Duration> {
    let begun = Instant::now();
    let mut conn = TcpStream::connect(address)?;
    conn.set_read_timeout(Some(LIMIT))?;
    let mut got = [0; GREETING.len()];
    conn.read_exact(&mut got).context("no greeting came")?;
    let took = begun.elapsed();
    ensure!(got == GREETING, "another greeting came: {got:?}");
    Ok(took)
}

/// Connections that are made before there is anything to ask, as pools and browsers do: the
/// sidecars have dialled for a silent client by then, and find that it speaks HTTP after all.
fn late_request(address: &str) -> Result<()> {
    let mut conns = Vec::new();
    for _ in 0..GREETINGS {
        let conn = TcpStream::connect(address)?;
        conn.set_read_timeout(Some(LIMIT))?;
        conns.push(conn);
    }
    thread::sleep(2 * GREETING_MAX);
    for mut conn in conns {
        let request = b"GET / HTTP/1.1\r\nhost: app\r\nconnection: close\r\n\r\n";
        conn.write_all(request).context("closed before it spoke")?;
        let mut answer = String::new();
        conn.read_to_string(&mut answer)?;
        ensure!(answer.starts_with("HTTP/1.1 200 "), "answered {answer:?}");
    }
    Ok(())
}

fn judge(mut times: Vec<Duration>) -> Result<String> {
    times.sort();
    let median = times[times.len() / 2];
    let said = format!("median of {GREETINGS}: {} ms", median.as_millis());
    ensure!(median <= GREETING_MAX, "{said}");
    Ok(said)
}

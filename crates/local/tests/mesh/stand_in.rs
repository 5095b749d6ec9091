//! Every program of a mesh, for its tests: what turns into jobs and supervisors, a control plane
//! that only gives tokens, a sidecar that relays to where connections were meant to go, and an
//! application with its client. Which one it is, its arguments say.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use rustix::net::sockopt;
use serde_json::{Value, json};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["workload", "run"] => Err(local::job::run_from_stdin().into()),
        ["workload", "supervise"] => local::supervisor::run_detached().map_err(Into::into),
        ["exec", base, name, workload, command @ ..] => exec(base, name, workload, command),
        ["serve", address] => serve(address),
        ["late", file, address] => late(file, address),
        ["mark", file] => mark(file),
        ["ask", address] => ask(address),
        ["--source", ..] => control(&args),
        ["--config", config] => sidecar(config),
        _ => Err(format!("unknown arguments {args:?}").into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("stand_in: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn exec(base: &str, name: &str, workload: &str, command: &[&str]) -> Result<()> {
    let command: Vec<_> = command.iter().map(|&word| word.to_owned()).collect();
    Err(local::exec(
        Path::new(base),
        &name.parse()?,
        &workload.parse()?,
        &command,
    )
    .into())
}

/// An application: tells everyone who asks what it is allowed to, and from where it is asked.
fn serve(address: &str) -> Result<()> {
    let listener = TcpListener::bind(address)?;
    for stream in listener.incoming() {
        let mut stream = stream?;
        let status = fs::read_to_string("/proc/self/status")?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_default()
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
        };
        let variables: Vec<_> = std::env::vars().map(|(name, _)| name).collect();
        let answer = json!({
            "peer": stream.peer_addr()?.ip().to_canonical(),
            "uid": field("Uid:"),
            "gid": field("Gid:"),
            "groups": field("Groups:"),
            "effective": field("CapEff:"),
            "bounding": field("CapBnd:"),
            "noNewPrivileges": field("NoNewPrivs:"),
            "resolver": fs::read_to_string("/etc/resolv.conf")?,
            "folder": std::env::current_dir()?,
            "variables": variables,
        });
        // Who has gone need not be told.
        let _ = stream.write_all(answer.to_string().as_bytes());
    }
    Ok(())
}

/// An application that does not listen before there is that file.
fn late(file: &str, address: &str) -> Result<()> {
    while !Path::new(file).exists() {
        thread::sleep(Duration::from_millis(10));
    }
    serve(address)
}

/// An application that writes down that it was there, and ends as the file beside says.
fn mark(file: &str) -> Result<()> {
    let mut options = fs::OpenOptions::new();
    let mut log = options.create(true).append(true).open(file)?;
    writeln!(log, "{}", std::env::var("LENO_INSTANCE")?)?;
    let code = fs::read_to_string(format!("{file}.code")).unwrap_or_default();
    std::process::exit(code.trim().parse().unwrap_or(0));
}

fn ask(address: &str) -> Result<()> {
    let address: SocketAddr = address.parse()?;
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(10))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    io::copy(&mut stream, &mut io::stdout())?;
    Ok(())
}

/// A control plane: reads its sources, writes what it has to, gives a token to whoever asks, and
/// has told everybody everything.
fn control(args: &[&str]) -> Result<()> {
    let options = || args.chunks_exact(2).map(|pair| (pair[0], pair[1]));
    let option = |name| {
        options()
            .find(|(found, _)| *found == name)
            .map_or("", |(_, value)| value)
    };
    for (_, folder) in options().filter(|(name, _)| *name == "--source") {
        for entry in fs::read_dir(folder)? {
            // One that was listed may have been replaced.
            match fs::read_to_string(entry?.path()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                read => drop(read?),
            }
        }
    }
    let _listener = TcpListener::bind(option("--listen"))?;
    let state = Path::new(option("--state"));
    fs::write(state.join("root.pem"), "a root\n")?;
    let socket = state.join("operator.sock");
    let _ = fs::remove_file(&socket);
    let listener = UnixListener::bind(&socket)?;
    println!(
        "{}",
        json!({"event": "ready", "admin": "127.0.0.1:1", "operator": socket})
    );
    for stream in listener.incoming() {
        let mut stream = stream?;
        let mut reader = BufReader::new(stream.try_clone()?);
        let lines = (&mut reader).lines().map_while(io::Result::ok);
        let head: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
        let length = head
            .iter()
            .find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.unwrap_or("0").parse()?];
        reader.read_exact(&mut body)?;
        let asked: Value = serde_json::from_slice(&body)?;
        let answer = match asked["workload"].as_str() {
            Some(name) => json!({"token": format!("for {name}")}),
            None => json!({"settled": true, "behind": []}),
        };
        let answer = answer.to_string();
        let length = answer.len();
        // Who has gone need not be told.
        let _ = write!(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{answer}"
        );
    }
    Ok(())
}

/// A sidecar: keeps its token, and relays. What is to answer for names is told of no control plane,
/// and is only there.
fn sidecar(config: &str) -> Result<()> {
    let config: Value = serde_json::from_str(&fs::read_to_string(config)?)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if config["control"].is_null() {
        println!("{}", json!({"event": "ready"}));
        loop {
            thread::park();
        }
    }
    let mut token = String::new();
    io::stdin().read_line(&mut token)?;
    fs::read_to_string(text(&config["control"]["trustBundle"]))?;
    let state = text(&config["control"]["state"]);
    fs::write(Path::new(&state).join("token"), token)?;
    let control = text(&config["control"]["addresses"][0]);
    drop(TcpStream::connect_timeout(
        &control.parse()?,
        Duration::from_secs(10),
    )?);
    let [outbound, inbound] = ["[::]:15001", "[::]:15003"].map(TcpListener::bind);
    let (outbound, inbound) = (outbound?, inbound?);
    println!("{}", json!({"event": "ready"}));
    thread::spawn(move || relay_all(&inbound));
    relay_all(&outbound);
    Ok(())
}

fn relay_all(listener: &TcpListener) {
    for stream in listener.incoming().map_while(io::Result::ok) {
        thread::spawn(move || relay(stream));
    }
}

fn relay(mut downstream: TcpStream) -> io::Result<()> {
    let local = downstream.local_addr()?;
    let is_ipv4 = local.ip().to_canonical().is_ipv4();
    let meant: SocketAddr = if is_ipv4 {
        sockopt::ip_original_dst(&downstream)?.into()
    } else {
        sockopt::ipv6_original_dst(&downstream)?.into()
    };
    let refused =
        [15001, 15003].contains(&meant.port()) || meant.ip() == IpAddr::V4(Ipv4Addr::LOCALHOST);
    if refused {
        return Ok(());
    }
    let mut upstream = TcpStream::connect_timeout(&meant, Duration::from_secs(10))?;
    io::copy(&mut upstream, &mut downstream).map(drop)
}

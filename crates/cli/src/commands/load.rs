//! `leno load`: the load generator and its echo server from the command line. Called by `main`;
//! everything that measures is in the `load` crate.

mod bookinfo;

use anyhow::{Context, bail};
use clap::{Subcommand, ValueEnum, ValueHint};
use load::{
    Arrivals, ClientTls, GrpcMode, Outcome, Phase, Plan, Progress, Protocol, Rate, Verdict, report,
    serve,
};
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    flag,
    low_level::pipe,
};
use std::{
    fs,
    io::{self, IsTerminal, Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

/// Generate HTTP/1.1, HTTP/2, gRPC or TCP load and measure the answers, or serve the answers.
///
/// With a rate (--qps N) the loop is open: each connection has a schedule that is fixed before
/// the run, and latency counts from the intended send, so that a stall of the target shows with
/// everything it held up. With --qps max the loop is closed: each connection sends as soon as it
/// has its answer. Over HTTP/2 and gRPC the same holds for each stream (--streams) of each
/// connection. TCP sends the body and wants it back; that is one request.
///
///   leno load serve --port 8080 --tcp 127.0.0.1:9090
///   leno load http://127.0.0.1:8080/ -c 16 --qps 1000 -t 10s --warm-up 1s --size 1024
///   leno load http://127.0.0.1:8080/ --protocol http2 -c 10 --streams 10 --qps max --size 1024
///   leno load http://127.0.0.1:8080 --protocol grpc --grpc-mode stream --body-size 100
///   leno load 127.0.0.1:9090 --protocol tcp --body-size 1024 --qps max
///   leno load https://server:8443/ --cacert ca.pem --cert me.pem --key me.key --json run.json
///
/// The verdict is `valid`, `saturated` (the target took less than 99 % of the asked rate: a
/// result) or `void` (the generator was the cause: more than 1 % of sends over 1 ms late on a
/// free connection, or a thread over 90 % busy; exit status 3). Ctrl-C ends the window early
/// and reports what there is.
#[derive(clap::Args)]
#[command(
    verbatim_doc_comment,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    /// What to ask for: http://HOST[:PORT]/PATH or https://…; HOST:PORT with --protocol tcp.
    #[arg(value_name = "URL", value_hint = ValueHint::Url, required = true)]
    url: Option<String>,

    #[command(flatten)]
    shape: Shape,

    #[command(flatten)]
    request: Request,

    #[command(flatten)]
    tls: Tls,

    #[command(flatten)]
    output: Output,
}

#[derive(Subcommand)]
enum Command {
    Serve(Serve),
}

/// How much load, and from where.
#[derive(clap::Args)]
#[command(next_help_heading = "Load")]
struct Shape {
    /// What to speak.
    #[arg(long, value_enum, default_value_t = Spoken::Http1)]
    protocol: Spoken,

    /// Connections kept open; each, or each of its streams, carries one request at a time.
    #[arg(short, long, value_name = "N", default_value_t = 4)]
    connections: u32,

    /// Streams used on each connection of http2 or grpc at the same time.
    #[arg(long, value_name = "N", default_value_t = 1)]
    streams: u32,

    /// What a request of grpc is.
    #[arg(long, value_enum, default_value_t = Mode::Unary)]
    grpc_mode: Mode,

    /// Requests per second over all connections, or `max` for as many as the target takes.
    #[arg(long, short = 'q', value_name = "N|max", default_value = "8",
        value_parser = rate, allow_negative_numbers = true)]
    qps: Rate,

    /// Length of the measured window (10s, 500ms, 2m).
    #[arg(short = 't', long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    duration: Duration,

    /// Load before the window that is not recorded.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    warm_up: Duration,

    /// How an open loop spreads its requests.
    #[arg(long, value_enum, default_value_t = Spread::Staggered)]
    arrivals: Spread,

    /// Threads that generate.
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,

    /// CPUs to pin the threads to, in turn (0,2); default: no pinning.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    cpus: Vec<usize>,

    /// From send to end of answer; then the request has failed, and its connection is replaced
    /// or its stream reset.
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = duration)]
    timeout: Duration,

    /// Seed of the Poisson schedule.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// What is sent.
#[derive(clap::Args)]
#[command(next_help_heading = "Request")]
struct Request {
    /// Bytes to ask the echo server for over http1 and http2: adds size=N to the query.
    #[arg(long, value_name = "BYTES")]
    size: Option<usize>,

    /// HTTP method; default GET, or POST with a body. Always POST for grpc.
    #[arg(long, short = 'X', value_name = "NAME")]
    method: Option<String>,

    /// Further header; may be repeated.
    #[arg(long, short = 'H', value_name = "NAME: VALUE", value_parser = header)]
    header: Vec<(String, String)>,

    /// Body, or message of grpc and tcp: text, or @FILE.
    #[arg(long, value_name = "TEXT|@FILE", conflicts_with = "body_size")]
    body: Option<String>,

    /// Body or message of this many bytes.
    #[arg(long, value_name = "BYTES")]
    body_size: Option<usize>,

    /// Connect to this address whatever the URL's host says.
    #[arg(long, value_name = "IP:PORT")]
    connect_to: Option<SocketAddr>,
}

/// TLS, for https URLs of http1.
#[derive(clap::Args)]
#[command(next_help_heading = "TLS")]
struct Tls {
    /// PEM file of the CAs to trust; default: the system's.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    cacert: Option<PathBuf>,

    /// PEM file of the client certificate, leaf first.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "key")]
    cert: Option<PathBuf>,

    /// PEM file of its key.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "cert")]
    key: Option<PathBuf>,

    /// Name to ask for and verify, or the SPIFFE id (spiffe://…) that the server must have;
    /// default: the URL's host.
    #[arg(long, value_name = "NAME|ID")]
    server_name: Option<String>,

    /// ALPN protocols to offer, in order; default: none.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    alpn: Vec<String>,

    /// Accept any server certificate.
    #[arg(long)]
    insecure: bool,
}

/// Where results go.
#[derive(clap::Args)]
#[command(next_help_heading = "Output")]
struct Output {
    /// Results as fortio's JSON; - is standard output, instead of the text.
    #[arg(long, value_name = "FILE|-", value_hint = ValueHint::FilePath)]
    json: Option<PathBuf>,

    /// Latencies as an HdrHistogram log (V2), one line per second.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    hdr: Option<PathBuf>,

    /// Free text for the JSON's Labels.
    #[arg(long, value_name = "TEXT", default_value = "")]
    labels: String,

    /// Progress line on standard error; auto: if that is a terminal.
    #[arg(long, value_enum, default_value_t = When::Auto)]
    progress: When,
}

/// Serve HTTP/1.1, HTTP/2 and gRPC answers on one port, and a TCP echo on another.
///
/// The first bytes of a connection tell HTTP/1.1 from HTTP/2 (in plaintext, with prior
/// knowledge). Fortio's /echo parameters hold on every path of both:
/// ?size=BYTES, ?status=CODE and ?delay=TIME say what to answer, each also with percentages
/// (status=500:1,503:0.5  delay=10ms:50,100ms:10); without a size, the request's body comes
/// back. The gRPC service is leno.load.Echo: Unary and Stream send their messages back. Prints
/// one JSON line when it listens; ends on SIGTERM or SIGINT.
#[derive(clap::Args)]
#[command(verbatim_doc_comment, args_conflicts_with_subcommands = true)]
struct Serve {
    #[command(subcommand)]
    sample: Option<Sample>,

    /// Address to listen on.
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    address: IpAddr,

    /// Port to listen on; 0 takes a free one.
    #[arg(long, short, value_name = "PORT", default_value_t = 8080)]
    port: u16,

    /// Address for a TCP echo besides; port 0 takes a free one.
    #[arg(long, value_name = "IP:PORT")]
    tcp: Option<SocketAddr>,

    /// Threads that serve.
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,

    /// CPUs to pin the threads to, in turn; default: no pinning.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    cpus: Vec<usize>,

    /// Where to write, at the end, the delays from request read to answer written: JSON if the
    /// name ends in .json, else an HdrHistogram log.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    delay_log: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Sample {
    Bookinfo(bookinfo::Args),
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Spoken {
    /// HTTP/1.1, plain or over TLS.
    Http1,
    /// HTTP/2 in plaintext, with prior knowledge.
    Http2,
    /// gRPC over such: leno.load.Echo, unless the URL has a path.
    Grpc,
    /// The body, which must come back as it was sent.
    Tcp,
}

#[derive(Clone, Copy, ValueEnum)]
enum Mode {
    /// One call for each message.
    Unary,
    /// One call for each stream of each connection, message after message.
    Stream,
}

#[derive(Clone, Copy, ValueEnum)]
enum Spread {
    /// Even gaps, the connections' phases even as well.
    Staggered,
    /// Independent exponential gaps.
    Poisson,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum When {
    Auto,
    Always,
    Never,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    match args.command {
        Some(Command::Serve(Serve {
            sample: Some(Sample::Bookinfo(args)),
            ..
        })) => bookinfo::run(args),
        Some(Command::Serve(args)) => serve(args),
        None => generate(args),
    }
}

fn generate(args: Args) -> anyhow::Result<()> {
    let plan = Plan {
        stop: Some(interrupt().context("cannot listen for signals")?),
        ..plan(&args)?
    };
    let output = args.output;
    let show = match output.progress {
        When::Auto => io::stderr().is_terminal(),
        When::Always => true,
        When::Never => false,
    };
    let outcome = load::run(&plan, &mut |progress| {
        if show {
            show_progress(progress);
        }
    })?;
    write_results(&outcome, &output)?;
    if matches!(outcome.verdict, Verdict::Void { .. }) {
        std::process::exit(3);
    }
    Ok(())
}

fn plan(args: &Args) -> anyhow::Result<Plan> {
    let Args {
        shape,
        request,
        tls,
        output,
        ..
    } = args;
    let protocol = match (shape.protocol, shape.grpc_mode) {
        (Spoken::Http1, _) => Protocol::Http1,
        (Spoken::Http2, _) => Protocol::Http2,
        (Spoken::Grpc, Mode::Unary) => Protocol::Grpc(GrpcMode::Unary),
        (Spoken::Grpc, Mode::Stream) => Protocol::Grpc(GrpcMode::Stream),
        (Spoken::Tcp, _) => Protocol::Tcp,
    };
    if request.size.is_some() && matches!(protocol, Protocol::Grpc(_) | Protocol::Tcp) {
        let name = protocol.name();
        bail!("--size is of http1 and http2; {name} gets back what it sends: use --body-size");
    }
    let body = body(request)?;
    let method = if body.is_empty() { "GET" } else { "POST" };
    Ok(Plan {
        protocol,
        connections: shape.connections,
        streams: shape.streams,
        rate: shape.qps,
        arrivals: match shape.arrivals {
            Spread::Staggered => Arrivals::Staggered,
            Spread::Poisson => Arrivals::Poisson,
        },
        duration: shape.duration,
        warm_up: shape.warm_up,
        threads: shape.threads,
        cpus: shape.cpus.clone(),
        timeout: shape.timeout,
        seed: shape.seed,
        method: request.method.clone().unwrap_or_else(|| method.to_owned()),
        headers: request.header.clone(),
        body,
        connect_to: request.connect_to,
        tls: Some(ClientTls {
            roots_pem: tls.cacert.clone(),
            certificate_pem: tls.cert.clone(),
            key_pem: tls.key.clone(),
            server_name: tls.server_name.clone(),
            insecure: tls.insecure,
            alpn: tls.alpn.clone(),
        }),
        labels: output.labels.clone(),
        ..Plan::new(url(args))
    })
}

fn url(args: &Args) -> String {
    let url = args
        .url
        .as_deref()
        .expect("clap requires it where there is no subcommand");
    match args.request.size {
        None => url.to_owned(),
        Some(size) if url.contains('?') => format!("{url}&size={size}"),
        Some(size) => format!("{url}?size={size}"),
    }
}

fn body(request: &Request) -> anyhow::Result<Vec<u8>> {
    match (&request.body, request.body_size) {
        (Some(text), _) => match text.strip_prefix('@') {
            None => Ok(text.clone().into_bytes()),
            Some(path) => {
                fs::read(path).with_context(|| format!("cannot read the body from {path}"))
            }
        },
        (None, Some(size)) => Ok(vec![b'x'; size]),
        (None, None) => Ok(Vec::new()),
    }
}

fn show_progress(progress: &Progress) {
    let Progress {
        phase,
        elapsed,
        total,
        answers,
        failures,
    } = *progress;
    let name = match phase {
        Phase::Connecting => "connecting",
        Phase::WarmUp => "warming up",
        Phase::Measuring => "measuring",
        Phase::Draining => "waiting for the last answers",
        Phase::Done => {
            eprint!("\r\x1b[K");
            return;
        }
    };
    let (elapsed, total) = (elapsed.as_secs_f64(), total.as_secs_f64());
    let percent = 100.0 * (elapsed / total).min(1.0);
    eprint!("\r\x1b[K{name}: {elapsed:.1} of {total:.1} s ({percent:.0} %), {answers} answers");
    if failures > 0 {
        eprint!(", {failures} failed");
    }
}

fn write_results(outcome: &Outcome, output: &Output) -> anyhow::Result<()> {
    let to_stdout = output.json.as_deref() == Some(Path::new("-"));
    if !to_stdout {
        print!("{}", report::text(outcome));
    }
    if let Some(path) = &output.json {
        let json = format!("{:#}\n", report::fortio(outcome));
        if to_stdout {
            io::stdout().write_all(json.as_bytes())?;
        } else {
            fs::write(path, json).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    if let Some(path) = &output.hdr {
        let context = || format!("cannot write {}", path.display());
        let mut file = fs::File::create(path)
            .map(io::BufWriter::new)
            .with_context(context)?;
        report::write_hdr_log(&mut file, outcome).with_context(context)?;
        file.flush().with_context(context)?;
    }
    Ok(())
}

fn serve(args: Serve) -> anyhow::Result<()> {
    let options = serve::Options {
        tcp: args.tcp,
        threads: args.threads,
        cpus: args.cpus,
        delay_log: args.delay_log,
        ..serve::Options::new(SocketAddr::new(args.address, args.port))
    };
    let end = end_of_service().context("cannot listen for signals")?;
    let server = serve::start(&options)?;
    let (pid, address) = (std::process::id(), server.address());
    let tcp = server.tcp_address();
    let tcp = tcp.map_or_else(String::new, |tcp| format!(r#","tcp":"{tcp}""#));
    println!(r#"{{"event":"ready","pid":{pid},"address":"{address}"{tcp}}}"#);
    io::stdout().flush()?;
    // Any outcome means that a signal has come.
    let _ = (&end).read(&mut [0]);
    server.stop();
    eprintln!("{}", report::delays_text(&server.join()?));
    Ok(())
}

/// Set by SIGINT or SIGTERM; a second one ends the program.
fn interrupt() -> io::Result<Arc<AtomicBool>> {
    let raised = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // Order matters: the first signal must find the flag still unset here.
        flag::register_conditional_shutdown(signal, 130, Arc::clone(&raised))?;
        flag::register(signal, Arc::clone(&raised))?;
    }
    Ok(raised)
}

/// Becomes readable on SIGTERM or SIGINT.
fn end_of_service() -> io::Result<UnixStream> {
    let (end, signal) = UnixStream::pair()?;
    pipe::register(SIGINT, signal.try_clone()?)?;
    pipe::register(SIGTERM, signal)?;
    Ok(end)
}

fn rate(text: &str) -> Result<Rate, String> {
    if text == "max" {
        return Ok(Rate::Max);
    }
    let hint = || "write a number above 0, or max".to_owned();
    let rate: f64 = text.parse().map_err(|_| hint())?;
    if rate.is_finite() && rate > 0.0 {
        Ok(Rate::PerSecond(rate))
    } else {
        Err(hint())
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let hint = || "write a time with its unit: 500ms, 10s, 2m, 1h".to_owned();
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .ok_or_else(hint)?;
    let number: f64 = text[..split].parse().map_err(|_| hint())?;
    let scale = match &text[split..] {
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(hint()),
    };
    Duration::try_from_secs_f64(number * scale).map_err(|_| hint())
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("write 'Name: value'")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn parse(words: &[&str]) -> Result<Args, clap::Error> {
        let words = ["load"].iter().chain(words);
        Line::try_parse_from(words).map(|line| line.args)
    }

    #[test]
    fn a_url_generates_and_serve_serves() {
        let args = parse(&["http://a/", "-c", "16", "--qps", "max"]).unwrap();
        assert!(args.command.is_none());
        assert_eq!((args.shape.connections, args.shape.qps), (16, Rate::Max));
        let args = parse(&["serve", "--port", "0"]).unwrap();
        assert!(matches!(
            args.command,
            Some(Command::Serve(Serve { port: 0, .. }))
        ));
    }

    #[test]
    fn refuses_with_a_hint() {
        let check = |words: &[&str], hint: &str| {
            let text = parse(words).err().unwrap().to_string();
            assert!(text.contains(hint), "{words:?}: {text}");
        };
        check(&["http://a/", "--qps", "-1"], "above 0, or max");
        check(&["http://a/", "-t", "10"], "with its unit");
        check(&["http://a/", "-H", "x"], "Name: value");
        check(&["http://a/", "--cert", "x"], "--key");
    }

    #[test]
    fn a_protocol_makes_the_plan_its_own() {
        let check = |words: &[&str], expected| {
            let plan = plan(&parse(words).unwrap()).unwrap();
            assert_eq!((plan.protocol, plan.streams), expected, "{words:?}");
        };
        check(&["http://a/"], (Protocol::Http1, 1));
        let words = ["http://a/", "--protocol", "http2", "--streams", "10"];
        check(&words, (Protocol::Http2, 10));
        let words = ["http://a/", "--protocol", "grpc"];
        check(&words, (Protocol::Grpc(GrpcMode::Unary), 1));
        let words = ["http://a/", "--protocol", "grpc", "--grpc-mode", "stream"];
        check(&words, (Protocol::Grpc(GrpcMode::Stream), 1));
        let words = ["a:1", "--protocol", "tcp", "--body-size", "8"];
        check(&words, (Protocol::Tcp, 1));
        let words = ["a:1", "--protocol", "tcp", "--size", "8"];
        let error = plan(&parse(&words).unwrap()).unwrap_err().to_string();
        assert!(error.contains("use --body-size"), "{error}");
    }

    #[test]
    fn a_size_is_asked_for_in_the_query() {
        let url = |text: &str| url(&parse(&[text, "--size", "1024"]).unwrap());
        assert_eq!(url("http://a/"), "http://a/?size=1024");
        assert_eq!(url("http://a/?x=y"), "http://a/?x=y&size=1024");
    }
}

//! curl in every version of HTTP that it knows, and bodies of two GiB each way, whose every byte is
//! checked, through sidecars whose memory must not follow the body.

use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::languages::Language;
use super::pair::{PLAIN, Pair};
use super::process::{self, Process};
use super::report::Report;
use super::tools;
use super::world::World;

/// A debug sidecar moves some hundred MB/s.
const LIMIT: Duration = Duration::from_secs(120);
/// More than 31 bits, where lengths have wrapped before.
const BULK_BYTES: &str = "2147483651";
/// A sidecar holds a few buffers per connection; the body is thirty times as long.
const PEAK_KIB_MAX: u64 = 64 * 1024;

/// Name, arguments of curl (`URL` is the server's), what it has to print.
type Case = (&'static str, &'static [&'static str], &'static str);

const VERSION: &str = "%{http_version} %{response_code}\n";

const CASES: &[Case] = &[
    (
        "HTTP/1.0",
        &["--http1.0", "-w", "%{response_code}\n", "URL/"],
        "hello\n200\n",
    ),
    (
        "HTTP/1.1",
        &["--http1.1", "-w", VERSION, "URL/"],
        "hello\n1.1 200\n",
    ),
    (
        "HTTP/2 by prior knowledge",
        &["--http2-prior-knowledge", "-w", VERSION, "URL/"],
        "hello\n2 200\n",
    ),
    (
        "upgrade to h2c is ignored",
        &["--http2", "-w", VERSION, "URL/"],
        "hello\n1.1 200\n",
    ),
    (
        "upgrade to h2c with a body",
        &["--http2", "-d", "body", "-w", VERSION, "URL/echo"],
        "body1.1 200\n",
    ),
    (
        "100-continue",
        &["-H", "Expect: 100-continue", "-d", "body", "URL/echo"],
        "body",
    ),
    (
        "chunked upload",
        &["-H", "Transfer-Encoding: chunked", "-d", "body", "URL/echo"],
        "body",
    ),
    (
        "chunked download",
        &["--http1.1", "URL/chunks"],
        "one\ntwo\nthree\n",
    ),
    (
        "chunks over HTTP/2",
        &["--http2-prior-knowledge", "URL/chunks"],
        "one\ntwo\nthree\n",
    ),
    (
        "two requests on one connection",
        &["-w", "%{num_connects}\n", "URL/", "URL/"],
        "hello\n1\nhello\n0\n",
    ),
    (
        "HEAD",
        &["--head", "-o", "/dev/null", "-w", VERSION, "URL/bytes/9"],
        "1.1 200\n",
    ),
    (
        "trailers",
        &["--http1.1", "-D", "-", "URL/trailers"],
        "X-End: reached\r\n",
    ),
    (
        "trailers over HTTP/2",
        &["--http2-prior-knowledge", "-D", "-", "URL/trailers"],
        "x-end: reached\r\n",
    ),
];

pub(super) fn run(world: &World, report: &mut Report) -> Result<()> {
    tools::find("curl")?;
    let server = Language::Go.server(world, "1")?;
    let pair = Pair::start(world, &server.address, PLAIN)?;
    for case in CASES {
        report.case(case.0, || {
            for (who, process) in [("without sidecars", &server), ("pair", &pair.outbound)] {
                let said = curl(world, case.1, process)?;
                let fits = said == case.2 || case.0.contains("trailers") && said.contains(case.2);
                // Go takes this upgrade; sidecars take none.
                let is_taken = case.0.contains("upgrade") && said.ends_with("2 200\n");
                let is_direct = std::ptr::eq(process, &server);
                ensure!(fits || is_taken && is_direct, "{who}: {said:?}");
            }
            pair.check().map(|()| String::new())
        });
    }
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        report.case(&format!("2 GiB down {version}"), || {
            let pair = Pair::start(world, &server.address, PLAIN)?;
            let pipe = "\"$1\" -sSf \"$2\" \"$3/bytes/$5\" | \"$4\" check";
            bulk(world, pipe, version, &pair)
        });
        report.case(&format!("2 GiB up {version}"), || {
            let pair = Pair::start(world, &server.address, PLAIN)?;
            let pipe = "\"$4\" make \"$5\" | \"$1\" -sSf \"$2\" -T - \"$3/sink\"";
            bulk(world, pipe, version, &pair)
        });
    }
    Ok(())
}

fn curl(world: &World, args: &[&str], server: &Process) -> Result<String> {
    let url = format!("http://{}", server.address);
    let args = args.iter().map(|arg| arg.replace("URL", &url));
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--max-time", "20"]);
    process::output(command.args(args), LIMIT, &world.file("curl.log"))
}

/// Runs a pipe of curl and `bulk`; both say how many right bytes came.
fn bulk(world: &World, pipe: &str, version: &str, pair: &Pair) -> Result<String> {
    let bulk = tools::go(world, "bulk", "./bulk")?;
    let url = format!("http://{}", pair.address());
    let mut shell = Command::new("bash");
    shell.args(["-o", "pipefail", "-c", pipe, "bulk", "curl", version, &url]);
    shell.arg(bulk).arg(BULK_BYTES);
    let said = process::output(&mut shell, LIMIT, &world.file("bulk.log"))?;
    ensure!(said.trim() == BULK_BYTES, "{} bytes came", said.trim());
    let peak = pair.peak_kib()?;
    ensure!(
        peak <= PEAK_KIB_MAX,
        "a sidecar has had {peak} KiB, more than {PEAK_KIB_MAX}"
    );
    pair.check()?;
    Ok(format!("at most {peak} KiB in a sidecar"))
}

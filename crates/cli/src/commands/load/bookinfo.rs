//! `leno load serve bookinfo`: one service of the sample from the command line. Called by `load`;
//! the services themselves are in the `load` crate.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Context;
use clap::ValueEnum;
use clap::builder::PossibleValue;
use load::serve::bookinfo::{self, Options, Role, Upstream, Version};

/// Where services of the sample look for each other.
const PORT: u16 = 9080;

/// Serve one service of the bookinfo sample, which shows and measures a mesh.
///
/// The services call each other over HTTP/1.1, by default at http://NAME:9080, keep their
/// connections, and pass on the headers that tell which requests belong together. A service
/// whose callee fails answers 502 and says why. All of them have /health. Prints one JSON line
/// when it listens; on SIGTERM or SIGINT it finishes the requests that it has, and ends.
///
///   productpage  /productpage, /api/v1/products/ID: calls details and reviews
///   details      /details/ID
///   reviews      /reviews/ID: calls ratings, except as v1
///   ratings      GET /ratings/ID, POST /ratings
///   gateway      /bookinfo-NAME/REST: calls NAME (ratings, reviews, details) as /REST
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Args {
    /// What to serve.
    #[arg(value_enum)]
    role: Word<Role>,

    /// Where to listen; port 0 takes a free one.
    #[arg(long, value_name = "IP:PORT",
        default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)))]
    listen: SocketAddr,

    /// Where a callee is, if not at http://NAME:9080; may be repeated.
    #[arg(long, value_name = "NAME=http://HOST[:PORT]", value_parser = upstream)]
    upstream: Vec<Upstream>,

    /// Which reviews: v1 has no stars, v2 black ones, v3 red ones.
    #[arg(long, value_enum, default_value = "v2")]
    reviews_version: Word<Version>,

    /// What it calls itself in its answers; default: what it serves.
    #[arg(long, env = "LENO_INSTANCE", hide_env_values = true)]
    name: Option<String>,
}

/// A word of the command line for a value of the sample.
#[derive(Clone, Copy)]
struct Word<T>(T);

impl ValueEnum for Word<Role> {
    fn value_variants<'a>() -> &'a [Self] {
        const { &words(Role::ALL) }
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()))
    }
}

impl ValueEnum for Word<Version> {
    fn value_variants<'a>() -> &'a [Self] {
        const { &words(Version::ALL) }
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()))
    }
}

const fn words<T: Copy, const N: usize>(values: [T; N]) -> [Word<T>; N] {
    let mut words = [Word(values[0]); N];
    let mut index = 1;
    while index < N {
        words[index] = Word(values[index]);
        index += 1;
    }
    words
}

fn upstream(text: &str) -> Result<Upstream, String> {
    let known = Role::ALL.map(Role::name).join(", ");
    let hint = || format!("write NAME=http://HOST[:PORT]; names are {known}");
    let (name, url) = text.split_once('=').ok_or_else(hint)?;
    let role = Role::ALL.into_iter().find(|role| role.name() == name);
    Upstream::parse(role.ok_or_else(hint)?, url).map_err(|error| error.to_string())
}

/// Serves until a signal comes.
pub(super) fn run(args: Args) -> anyhow::Result<()> {
    let role = args.role.0;
    let options = Options {
        role,
        listen: args.listen,
        name: args.name.unwrap_or_else(|| role.name().to_owned()),
        version: args.reviews_version.0,
        upstreams: args.upstream,
    };
    let end = super::end_of_service().context("cannot listen for signals")?;
    let server = bookinfo::start(&options)?;
    let (pid, address, name) = (std::process::id(), server.address(), role.name());
    println!(r#"{{"event":"ready","pid":{pid},"role":"{name}","address":"{address}"}}"#);
    io::stdout().flush()?;
    // Any outcome means that a signal has come.
    let _ = (&end).read(&mut [0]);
    server.stop();
    eprintln!("answers: {}", server.join());
    Ok(())
}

//! Puts rules into a namespace and takes them out again, with the system's own tools.
//! Called by whoever made the namespace. Must never change a rule that is not ours.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Policy, iptables, netns, nft};

/// Whose rules they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// `nft`.
    Nft,
    /// `iptables-restore` and `ip6tables-restore`, of either make.
    Iptables,
    /// nft; where it is missing or fails, iptables.
    Detect,
}

/// Why rules were not changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The namespace is not there, or may not be entered.
    #[error(
        "the network namespace {} cannot be entered ({source}); make it first, and be root",
        path.display()
    )]
    Namespace {
        /// As given.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// A program that we need.
    #[error("{program} is not installed; install the package {package}")]
    Missing {
        /// Its name.
        program: &'static str,
        /// What it is in on most systems.
        package: &'static str,
    },
    /// It ran and did not do it.
    #[error("{program} refused: {said}{}", advice(said))]
    Refused {
        /// Its name.
        program: &'static str,
        /// What it wrote to its standard error.
        said: String,
    },
    /// It could not be run.
    #[error("{program} cannot be run ({source}); see whether it is executable")]
    Run {
        /// Its name.
        program: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// Neither of the two.
    #[error("neither nftables nor iptables can be used: {nft}; {iptables}")]
    Neither {
        /// What was wrong with the first.
        nft: Box<Self>,
        /// What was wrong with the second.
        iptables: Box<Self>,
    },
}

fn advice(said: &str) -> &'static str {
    if said.contains("not permitted") || said.contains("Permission denied") {
        "; this needs root, or the capability NET_ADMIN in the namespace"
    } else if said.contains("not supported") || said.contains("No such file") {
        "; the kernel lacks what the rules need: load its netfilter modules (nat, redirect, fib)"
    } else {
        ""
    }
}

/// Has `policy` hold in the network namespace that is mounted at `namespace`, or in our own when
/// there is none given. Whatever policy of ours held there before is replaced; a second time
/// changes nothing. Returns the backend that did it, never [`Backend::Detect`].
///
/// # Errors
/// When the namespace cannot be entered, or a tool is missing or refuses.
pub fn apply(
    namespace: Option<&Path>,
    policy: &Policy,
    backend: Backend,
) -> Result<Backend, Error> {
    within(namespace, || match backend {
        Backend::Nft => apply_nft(policy),
        Backend::Iptables => apply_iptables(policy),
        Backend::Detect => apply_nft(policy).or_else(|nft| {
            apply_iptables(policy).map_err(|iptables| Error::Neither {
                nft: Box::new(nft),
                iptables: Box::new(iptables),
            })
        }),
    })
}

/// Takes our rules out of a namespace, and nothing else. None there is no error.
/// [`Backend::Detect`] looks for both kinds.
///
/// # Errors
/// When the namespace cannot be entered, or a tool is missing or refuses.
pub fn remove(namespace: Option<&Path>, backend: Backend) -> Result<(), Error> {
    within(namespace, || match backend {
        Backend::Nft => run(NFT, nft::removal()).map(drop),
        Backend::Iptables => remove_iptables(),
        Backend::Detect => {
            let results = [run(NFT, nft::removal()).map(drop), remove_iptables()];
            let wrong = |error: &Error| !matches!(error, Error::Missing { .. });
            let mut errors = results.into_iter().filter_map(Result::err);
            errors.find(wrong).map_or(Ok(()), Err)
        }
    })
}

fn within<T: Send>(
    namespace: Option<&Path>,
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> Result<T, Error> {
    let Some(path) = namespace else {
        return work();
    };
    netns::inside(path, work).map_err(|source| Error::Namespace {
        path: path.to_path_buf(),
        source,
    })?
}

fn apply_nft(policy: &Policy) -> Result<Backend, Error> {
    run(NFT, &nft::script(policy))?;
    Ok(Backend::Nft)
}

fn apply_iptables(policy: &Policy) -> Result<Backend, Error> {
    let texts = iptables::texts(policy);
    for (family, text) in families().zip([&texts.v4, &texts.v6]) {
        let saved = run(family.save, "")?;
        run(family.restore, &iptables::without_jumps(text, &saved))?;
    }
    Ok(Backend::Iptables)
}

fn remove_iptables() -> Result<(), Error> {
    for family in families() {
        let text = iptables::removal(&run(family.save, "")?);
        if !text.is_empty() {
            run(family.restore, &text)?;
        }
    }
    Ok(())
}

/// A kernel without IPv6 has nothing to redirect, and no tables to hold rules.
fn families() -> impl Iterator<Item = &'static Family> {
    let has_ipv6 = Path::new("/proc/sys/net/ipv6").exists();
    [&V4, &V6].into_iter().take(if has_ipv6 { 2 } else { 1 })
}

/// A program with its arguments, and the package it is in.
#[derive(Clone, Copy)]
struct Tool {
    program: &'static str,
    args: &'static [&'static str],
    package: &'static str,
}

const NFT: Tool = Tool {
    program: "nft",
    args: &["-f", "-"],
    package: "nftables",
};

/// The two tools of one family.
struct Family {
    save: Tool,
    restore: Tool,
}

const V4: Family = Family {
    save: iptables_tool("iptables-save", &[]),
    restore: iptables_tool("iptables-restore", RESTORE_ARGS),
};
const V6: Family = Family {
    save: iptables_tool("ip6tables-save", &[]),
    restore: iptables_tool("ip6tables-restore", RESTORE_ARGS),
};
/// Leaves the rules of others, and waits for others who change rules at the same time.
const RESTORE_ARGS: &[&str] = &["--noflush", "--wait"];

const fn iptables_tool(program: &'static str, args: &'static [&'static str]) -> Tool {
    Tool {
        program,
        args,
        package: "iptables",
    }
}

/// Runs `tool` with `input` and gives what it wrote.
fn run(tool: Tool, input: &str) -> Result<String, Error> {
    let program = tool.program;
    let failed = |source: io::Error| Error::Run { program, source };
    let child = Command::new(program)
        .args(tool.args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => Error::Missing {
            program,
            package: tool.package,
        },
        _ => failed(source),
    })?;
    // What does not read its input to the end says why on its standard error.
    let written = child
        .stdin
        .take()
        .map_or(Ok(()), |mut stdin| stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().map_err(failed)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Error::Refused { program, said });
    }
    written.map_err(failed)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

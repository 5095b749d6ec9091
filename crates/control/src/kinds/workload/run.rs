//! How a Workload is run: what is started, how often, where, as whom, after what, and what becomes
//! of it when it ends. Called by the Workload's reader; `leno up` does what it says.

use std::ops::RangeInclusive;
use std::time::Duration;

use yaml::{Fault, Fields, Node, quote};

use super::{REPLICAS_MAX, WorkloadKey};
use crate::kinds::metadata::{self, Metadata};

/// How the instances of a Workload are replaced when it changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// One instance more is started and becomes ready before an old one ends.
    #[default]
    RollingUpdate,
    /// The old one ends before its successor is started: for what must not run twice.
    Recreate,
}

/// What becomes of an instance whose application has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RestartPolicy {
    /// It is started again.
    #[default]
    Always,
    /// It is started again unless it ended with 0: then it has completed.
    OnFailure,
    /// It is not started again; with 0 it has completed, otherwise failed.
    Never,
}

/// For an application that is asked to end, if nothing else is said.
pub(super) const GRACE: Duration = Duration::from_secs(10);
/// Longest time for that.
const GRACE_SECONDS_MAX: usize = 3600;

/// Users that bypass the sidecar, or could.
const USERS_REFUSED: &[&str] = &["0", "root", "1500"];
/// Users that `leno up` gives to sidecars and applications, each its own.
const USERS_GIVEN: RangeInclusive<u32> = 60600..=61183;

pub(super) fn command(node: &Node) -> Result<Vec<String>, Fault> {
    let hint = "write [PROGRAM, ARGUMENT, …]";
    let words = node.list()?.iter();
    let words = words.map(|node| word(node, "a command is a list of words", hint));
    let words: Vec<String> = words.collect::<Result<_, _>>()?;
    match words.first() {
        Some(program) if !program.is_empty() => Ok(words),
        _ => Err(node.fault("a command without a program", hint)),
    }
}

/// A word that a program can be given, which may be empty.
fn word(node: &Node, message: &str, hint: &str) -> Result<String, Fault> {
    match &node.kind {
        yaml::Kind::Scalar { text, .. } if !text.contains('\0') => Ok(text.clone()),
        _ => Err(node.fault(message, hint)),
    }
}

pub(super) fn user(node: &Node) -> Result<String, Fault> {
    let word = node.text()?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    if !word.bytes().all(plain) {
        let hint = "write a user's name or number";
        return Err(node.fault(format!("{} is not a user", quote(word)), hint));
    }
    let number = word.parse();
    if USERS_REFUSED.contains(&word) || number.is_ok_and(|user| USERS_GIVEN.contains(&user)) {
        let message = format!("the user {} could go past the sidecar", quote(word));
        return Err(node.fault(message, "choose one of its own, or remove the key"));
    }
    Ok(word.to_owned())
}

pub(super) fn replicas(node: &Node) -> Result<u32, Fault> {
    let count = node.count(0..=REPLICAS_MAX as usize)?;
    Ok(u32::try_from(count).expect("the range says so"))
}

pub(super) fn strategy(node: &Node) -> Result<Strategy, Fault> {
    let fields = Fields::open(node, "a strategy", &["type"])?;
    fields.required("type")?.choice(&[
        ("RollingUpdate", Strategy::RollingUpdate),
        ("Recreate", Strategy::Recreate),
    ])
}

pub(super) fn restart(node: &Node) -> Result<RestartPolicy, Fault> {
    node.choice(&[
        ("Always", RestartPolicy::Always),
        ("OnFailure", RestartPolicy::OnFailure),
        ("Never", RestartPolicy::Never),
    ])
}

pub(super) fn grace(node: &Node) -> Result<Duration, Fault> {
    let seconds = node.count(0..=GRACE_SECONDS_MAX)?;
    Ok(Duration::from_secs(seconds as u64))
}

pub(super) fn working_dir(node: &Node) -> Result<String, Fault> {
    node.text()?;
    word(node, "a folder without a name", "write its path")
}

pub(super) fn env(node: &Node) -> Result<Vec<(String, String)>, Fault> {
    let mut env: Vec<(String, String)> = Vec::new();
    for node in node.list()? {
        let fields = Fields::open(node, "a variable", &["name", "value"])?;
        let named = fields.required("name")?;
        let name = variable(named)?;
        if env.iter().any(|(other, _)| *other == name) {
            let message = format!("the variable {} is there twice", quote(&name));
            return Err(named.fault(message, "remove one of them"));
        }
        let (message, hint) = ("a variable's value is a word", "write it in quotes");
        env.push((name, word(fields.required("value")?, message, hint)?));
    }
    Ok(env)
}

/// The name of a variable, as Kubernetes has it.
fn variable(node: &Node) -> Result<String, Fault> {
    let word = node.text()?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_-.".contains(&b);
    if word.bytes().all(plain) && !word.starts_with(|first: char| first.is_ascii_digit()) {
        return Ok(word.to_owned());
    }
    let hint = "letters, digits, - _ and . only, with no digit at the start";
    Err(node.fault(format!("{} is not a variable's name", quote(word)), hint))
}

/// Names of Workloads, those of other namespaces as NAME.NAMESPACE.
pub(super) fn depends_on(node: &Node, metadata: &Metadata) -> Result<Vec<WorkloadKey>, Fault> {
    let own = WorkloadKey::new(&*metadata.namespace, &*metadata.name);
    let mut keys = Vec::new();
    for node in node.list()? {
        let key = dependency(node, &metadata.namespace)?;
        if key == own {
            let message = "a Workload that waits for itself";
            return Err(node.fault(message, "remove it: it would never start"));
        }
        if keys.contains(&key) {
            let message = format!("{} is listed twice", quote(node.text()?));
            return Err(node.fault(message, "remove one of them"));
        }
        keys.push(key);
    }
    Ok(keys)
}

fn dependency(node: &Node, namespace: &str) -> Result<WorkloadKey, Fault> {
    let word = node.text()?;
    let (name, namespace) = word.split_once('.').unwrap_or((word, namespace));
    if metadata::is_label(name) && metadata::is_label(namespace) {
        return Ok(WorkloadKey::new(namespace, name));
    }
    let hint = "write NAME, or NAME.NAMESPACE for one of another namespace";
    Err(node.fault(format!("{} is not a Workload's name", quote(word)), hint))
}

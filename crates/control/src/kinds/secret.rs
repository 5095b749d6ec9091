//! Secret: a certificate with its key, for clients outside of the mesh. Called by `kinds`.
//! Must never put anything of its content into a fault, nor print it: what cannot be shown to
//! clients is kept with the reason, so that it stops nothing but the listener that wants it.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use identity::serving::Certificate;
use rustls::SignatureAlgorithm;
use yaml::{Fault, Fields, Kind, Node, quote};
use zeroize::Zeroizing;

/// A certificate with its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret {
    /// Both, or why they cannot be shown to anybody.
    pub pair: Result<Pair, String>,
}

/// A chain, and the key of its leaf. Invariant: they parse, and belong together.
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    /// PEM, the leaf first.
    pub chain: String,
    /// PEM; wiped from memory when it is dropped.
    pub key: Zeroizing<String>,
    /// For which names and addresses the leaf stands.
    pub hosts: Vec<String>,
    /// Whether the key is of that kind, which Envoy does not take.
    pub is_ed25519: bool,
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair")
            .field("hosts", &self.hosts)
            .finish_non_exhaustive()
    }
}

impl Pair {
    /// Whether clients that ask for `host`, which may begin with `*.`, take the certificate.
    #[must_use]
    pub fn is_for(&self, host: &str) -> bool {
        let one = |name: &String| match name.strip_prefix("*.") {
            // One label, and no more.
            Some(suffix) => host.split_once('.').is_some_and(|(_, rest)| rest == suffix),
            None => name == host,
        };
        self.hosts.iter().any(one)
    }
}

/// What is read of it.
const TYPE: &str = "kubernetes.io/tls";
const CHAIN: &str = "tls.crt";
const KEY: &str = "tls.key";
/// What others put there as well.
const OTHERS: &[&str] = &["ca.crt"];

pub(super) fn read(fields: &Fields<'_>) -> Result<Secret, Fault> {
    let kind = fields.required("type")?;
    if kind.text()? != TYPE {
        let message = format!("a Secret of the type {} is of no use here", kind.describe());
        let hint = format!("write `type: {TYPE}`, with `{CHAIN}` and `{KEY}`, or remove it");
        return Err(kind.fault(message, hint));
    }
    let given = [("data", true), ("stringData", false)];
    let mut found = [None, None];
    let mut place = kind;
    for (section, is_encoded) in given {
        let Some(node) = fields.optional(section) else {
            continue;
        };
        place = node;
        for (name, text) in texts(node, section, is_encoded)? {
            let slot = usize::from(name == KEY);
            found[slot] = Some(text);
        }
    }
    match found {
        [Some(chain), Some(key)] => Ok(Secret {
            pair: pair(&chain, key),
        }),
        _ => {
            let message = format!("a Secret of the type {TYPE} has `{CHAIN}` and `{KEY}`");
            let hint = "add them to `data` in base64, or to `stringData` as they are";
            Err(place.fault(message, hint))
        }
    }
}

fn pair(chain: &str, key: Zeroizing<String>) -> Result<Pair, String> {
    let certificate = Certificate::from_pem(chain, &key).map_err(|error| error.to_string())?;
    Ok(Pair {
        chain: chain.to_owned(),
        key,
        hosts: certificate.overview().hosts.clone(),
        is_ed25519: certificate.key().key.algorithm() == SignatureAlgorithm::ED25519,
    })
}

/// Those of a section that are of use.
fn texts<'a>(
    node: &'a Node,
    section: &str,
    is_encoded: bool,
) -> Result<Vec<(&'a str, Zeroizing<String>)>, Fault> {
    let Kind::Map(entries) = &node.kind else {
        let message = format!("`{section}` is not a mapping");
        return Err(node.fault(message, format!("write `{CHAIN}: …` and `{KEY}: …` in it")));
    };
    let mut texts = Vec::new();
    for (key, value) in entries {
        let name = key.text.as_str();
        if OTHERS.contains(&name) {
            continue;
        }
        if ![CHAIN, KEY].contains(&name) {
            let message = format!("unknown key {} in `{section}`", quote(name));
            let hint = format!("known here: {CHAIN}, {KEY}");
            return Err(Fault::new(key.place, message, hint));
        }
        texts.push((name, text(name, value, is_encoded)?));
    }
    Ok(texts)
}

fn text(name: &str, value: &Node, is_encoded: bool) -> Result<Zeroizing<String>, Fault> {
    let Kind::Scalar { text, .. } = &value.kind else {
        let message = format!("`{name}` is not a text");
        return Err(value.fault(message, "write it in one piece, with `|` for several lines"));
    };
    if !is_encoded {
        return Ok(Zeroizing::new(text.clone()));
    }
    let blank = |c: &char| !c.is_ascii_whitespace();
    let packed: Zeroizing<String> = Zeroizing::new(text.chars().filter(blank).collect());
    let decoded = STANDARD.decode(packed.as_bytes()).ok();
    let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
    decoded.map(Zeroizing::new).ok_or_else(|| {
        let hint = "encode the PEM in base64, or move it to `stringData` as it is";
        value.fault(format!("`{name}` is not a text in base64"), hint)
    })
}

#[cfg(test)]
mod tests;

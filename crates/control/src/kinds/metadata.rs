//! `metadata`, and the words that many kinds share: names, labels, protocols.
//! Called by `kinds` and by each kind's reader. Must never correct what it reads.

use std::collections::BTreeMap;

use yaml::{Fault, Fields, Node, quote};

use super::{Kind, ignored};

/// The namespace of what does not name one.
pub(super) const NAMESPACE: &str = "default";

/// Longest label of a DNS name (RFC 1123, section 2.1), and longest value of a label.
const LABEL_BYTES_MAX: usize = 63;

/// Longest DNS name.
const NAME_BYTES_MAX: usize = 253;

/// Labels, or what they must be.
pub(super) type Labels = BTreeMap<String, String>;

pub(super) struct Metadata {
    pub(super) name: String,
    /// Empty for kinds that live in none.
    pub(super) namespace: String,
    pub(super) labels: Labels,
    /// Where it begins.
    pub(super) place: yaml::Place,
}

pub(super) fn read(node: &Node, kind: Kind) -> Result<Metadata, Fault> {
    const KEYS: &[&str] = &["name", "namespace", "labels"];
    let fields = Fields::open_beside(node, "metadata", KEYS, ignored::METADATA)?;
    let name = fields.required("name")?;
    Ok(Metadata {
        name: match kind {
            Kind::Service | Kind::Workload | Kind::WorkloadStatus | Kind::Namespace => label(name)?,
            _ => subdomain(name)?,
        },
        namespace: namespace(&fields, kind)?,
        labels: fields.map("labels", labels)?.unwrap_or_default(),
        place: node.place,
    })
}

fn namespace(fields: &Fields<'_>, kind: Kind) -> Result<String, Fault> {
    match fields.optional("namespace") {
        None if kind.has_namespace() => Ok(NAMESPACE.to_owned()),
        None => Ok(String::new()),
        Some(node) if kind.has_namespace() => label(node),
        Some(node) => Err(node.fault(
            format!("a {} lives in no namespace", kind.label()),
            "remove `namespace`",
        )),
    }
}

/// A DNS label: names of Services and Workloads become parts of host names.
pub(super) fn label(node: &Node) -> Result<String, Fault> {
    let word = node.text()?;
    if is_label(word) {
        return Ok(word.to_owned());
    }
    let hint = "at most 63 lower-case letters, digits and -, with no - at the ends";
    Err(node.fault(format!("{} is not a name", quote(word)), hint))
}

/// A DNS name: labels with dots between them.
pub(super) fn subdomain(node: &Node) -> Result<String, Fault> {
    let word = node.text()?;
    if word.len() <= NAME_BYTES_MAX && word.split('.').all(is_label) {
        return Ok(word.to_owned());
    }
    let hint = "lower-case letters, digits, - and . only, with neither - nor . at the ends";
    Err(node.fault(format!("{} is not a name", quote(word)), hint))
}

pub(super) fn is_label(word: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let ends = word.starts_with('-') || word.ends_with('-');
    (1..=LABEL_BYTES_MAX).contains(&word.len()) && word.bytes().all(plain) && !ends
}

/// A mapping of labels; values may be empty.
pub(super) fn labels(node: &Node) -> Result<Labels, Fault> {
    let mut labels = Labels::new();
    for (key, value) in node.entries()? {
        let yaml::Kind::Scalar { text, .. } = &value.kind else {
            return Err(value.fault("a label's value is a word", "write `key: value`"));
        };
        let name = key.text.rsplit('/').next().unwrap_or_default();
        let prefix = key.text.strip_suffix(name).unwrap_or_default();
        if value.is_empty() || !is_label_word(name, 1) || prefix.len() > NAME_BYTES_MAX {
            let message = format!("{} is not a label", quote(&key.text));
            let hint = "write `key: value`, the key of letters, digits, - _ . and one /";
            return Err(Fault::new(key.place, message, hint));
        }
        if !is_label_word(text, 0) {
            let hint = "at most 63 letters, digits, - _ and .";
            return Err(value.fault(format!("{} is not a label's value", quote(text)), hint));
        }
        labels.insert(key.text.clone(), text.clone());
    }
    Ok(labels)
}

fn is_label_word(word: &str, least: usize) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    (least..=LABEL_BYTES_MAX).contains(&word.len()) && word.bytes().all(plain)
}

/// Transport protocols: TCP is what a mesh carries.
pub(super) fn check_tcp(fields: &Fields<'_>) -> Result<(), Fault> {
    let Some(node) = fields.optional("protocol") else {
        return Ok(());
    };
    match node.text()? {
        "TCP" => Ok(()),
        word => Err(node.fault(
            format!("{} is not carried by the mesh, only TCP is", quote(word)),
            "remove this port; its clients may use the workloads' own addresses",
        )),
    }
}

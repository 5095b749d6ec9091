//! Hostnames, as routes and gateways have them. Called by their readers.

use model::HostMatch;
use yaml::{Fault, Node, quote};

/// Longest DNS name, and longest label of one (RFC 1035, section 2.3.4).
const NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

/// A name, or a suffix with `*.` before it.
pub(super) fn read(node: &Node) -> Result<HostMatch, Fault> {
    let word = node.text()?;
    if !is_name(word.strip_prefix("*.").unwrap_or(word)) {
        let hint = "a lower-case name without port, or \"*.suffix\"; remove the key to take all";
        return Err(node.fault(format!("{} is not a host", quote(word)), hint));
    }
    Ok(match word.strip_prefix('*') {
        Some(suffix) => HostMatch::Suffix(suffix.to_owned()),
        None => HostMatch::Exact(word.to_owned()),
    })
}

/// A name that takes the place of another.
pub(super) fn read_name(node: &Node) -> Result<String, Fault> {
    let word = node.text()?;
    match is_name(word) {
        true => Ok(word.to_owned()),
        false => {
            let hint = "a lower-case name without port";
            Err(node.fault(format!("{} is not a host", quote(word)), hint))
        }
    }
}

fn is_name(name: &str) -> bool {
    let label = |label: &str| {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        (1..=LABEL_BYTES_MAX).contains(&label.len()) && label.bytes().all(plain)
    };
    name.len() <= NAME_BYTES_MAX && name.split('.').all(label)
}

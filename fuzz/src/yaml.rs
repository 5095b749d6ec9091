//! What must hold of strict YAML for any text. Called by the target `yaml` and, over the checked-in
//! seeds, by yaml's own tests. Panics where it does not hold.

use std::collections::HashSet;
use std::fmt::Write as _;

use yaml::{Kind, Node, Place, Zero};

/// Files with several documents, and with one.
pub fn yaml(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let one = Node::read(text);
    match Node::read_all(text) {
        Ok(nodes) => {
            nodes.iter().for_each(|node| check(text, node));
            check_again(&nodes);
            if let Ok(one) = &one {
                assert_eq!((nodes.len(), write(one)), (1, write(&nodes[0])));
            }
        }
        Err(fault) => {
            assert!(one.is_err(), "what is wrong with several is wrong with one");
            check_place(text, fault.line, fault.column);
            assert!(!fault.message.contains('\n') && !fault.hint.is_empty());
        }
    }
    if let Err(fault) = one {
        check_place(text, fault.line, fault.column);
    }
}

/// For YAML a line may end with CR alone, and the text ends on a line of its own.
fn check_place(text: &str, line: usize, column: usize) {
    let ends = text.bytes().filter(|byte| b"\r\n".contains(byte));
    assert!(
        column >= 1 && (1..=ends.count() + 2).contains(&line),
        "{line}:{column}"
    );
}

/// Places are in the text, keys are unique, nothing is empty that was asked for, no reader panics.
fn check(text: &str, node: &Node) {
    let Place { line, column } = node.place;
    check_place(text, line, column);
    match &node.kind {
        Kind::Scalar { .. } => check_readers(node),
        Kind::List(nodes) => nodes.iter().for_each(|node| check(text, node)),
        Kind::Map(entries) => {
            let keys: HashSet<_> = entries.iter().map(|(key, _)| &key.text).collect();
            assert_eq!(keys.len(), entries.len());
            entries.iter().for_each(|(_, node)| check(text, node));
        }
    }
}

fn check_readers(node: &Node) {
    assert!(node.text().is_ok_and(|text| !text.is_empty()) || node.text().is_err());
    assert!(node.list().is_err() && node.entries().is_err());
    assert!(node.port().is_ok_and(|port| port > 0) || node.port().is_err());
    assert!(
        node.duration(Zero::Refused)
            .map_or(true, |time| !time.is_zero())
    );
    let _ = (node.switch(), node.ip(), node.address());
    assert!(
        node.choice(&[("a", 1), ("bc", 2)])
            .map_or_else(|fault| !fault.hint.is_empty(), |_| true)
    );
}

/// What was read means the same when it is written out in full.
fn check_again(nodes: &[Node]) {
    let mut text = String::new();
    for node in nodes {
        writeln!(text, "---\n{}", write(node)).expect("strings grow");
    }
    let again = Node::read_all(&text).expect("what we write is YAML");
    let (before, after): (Vec<_>, Vec<_>) = (
        nodes.iter().map(write).collect(),
        again.iter().map(write).collect(),
    );
    assert_eq!(before, after);
}

/// On one line, every word in quotes, keys as long as they like.
fn write(node: &Node) -> String {
    match &node.kind {
        Kind::Scalar { text, .. } => word(text),
        Kind::List(nodes) => {
            let nodes: Vec<_> = nodes.iter().map(write).collect();
            format!("[{}]", nodes.join(", "))
        }
        Kind::Map(entries) => {
            let entries = entries.iter();
            let entries =
                entries.map(|(key, node)| format!("? {} : {}", word(&key.text), write(node)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
    }
}

fn word(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            c if c.is_ascii_alphanumeric() => out.push(c),
            c => write!(out, "\\U{:08X}", u32::from(c)).expect("strings grow"),
        }
    }
    out.push('"');
    out
}

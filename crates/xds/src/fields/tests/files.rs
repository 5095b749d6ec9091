//! A reader of `.proto` files, as far as it takes to know each message's fields: name, tag, whether
//! repeated, and which exclude each other. The files are those that the oracle of our tests was
//! made from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(super) struct Files(BTreeMap<String, Definition>);

/// A message.
#[derive(Default)]
pub(super) struct Definition {
    pub(super) fields: Vec<Field>,
}

pub(super) struct Field {
    pub(super) tag: u32,
    pub(super) name: String,
    pub(super) repeated: bool,
    pub(super) oneof: Option<String>,
}

impl Files {
    /// All files of the packages that resources are in.
    pub(super) fn read() -> Self {
        let root = folder();
        let mut files = Self(BTreeMap::new());
        files.read_all(&root.join("data-plane-api/envoy"));
        files.read_all(&root.join("googleapis/google/rpc"));
        files.read_all(&root.join("xds/xds/type/matcher"));
        files
    }

    #[track_caller]
    pub(super) fn find(&self, name: &str) -> &Definition {
        let found = self.0.get(name);
        found.unwrap_or_else(|| panic!("no message {name} in any file"))
    }

    fn read_all(&mut self, folder: &Path) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                self.read_all(&path);
            } else if path.extension().is_some_and(|it| it == "proto") {
                self.file(&std::fs::read_to_string(&path).unwrap());
            }
        }
    }

    fn file(&mut self, text: &str) {
        let mut words = words(text).into_iter().peekable();
        let mut package = String::new();
        while let Some(word) = words.next() {
            match word.as_str() {
                "package" => package = words.next().unwrap(),
                "message" => {
                    let name = format!("{package}.{}", words.next().unwrap());
                    words.next();
                    self.message(&name, None, &mut words);
                }
                ";" => {}
                _ => skip(&mut words),
            }
        }
    }

    /// After the brace that opens it; `oneof` is the choice that it is.
    fn message(&mut self, name: &str, oneof: Option<&str>, words: &mut Words) {
        self.0.entry(name.to_owned()).or_default();
        loop {
            let word = words.next().unwrap();
            match word.as_str() {
                "}" => return,
                ";" => {}
                "message" => {
                    let inner = format!("{name}.{}", words.next().unwrap());
                    words.next();
                    self.message(&inner, None, words);
                }
                "oneof" => {
                    let choice = words.next().unwrap();
                    words.next();
                    self.message(name, Some(&choice), words);
                }
                "option" | "reserved" | "extensions" | "enum" => skip(words),
                _ => self.field(name, &word, oneof, words),
            }
        }
    }

    /// After its first word: `repeated`, `map`, or a type.
    fn field(&mut self, message: &str, first: &str, oneof: Option<&str>, words: &mut Words) {
        let repeated = matches!(first, "repeated" | "map");
        if matches!(first, "repeated" | "optional") {
            words.next();
        }
        if first == "map" {
            words.by_ref().find(|word| word == ">").unwrap();
        }
        let name = words.next().unwrap();
        assert_eq!(words.next().as_deref(), Some("="), "{message}.{name}");
        let tag = words.next().unwrap().parse().unwrap();
        skip(words);
        self.0.get_mut(message).unwrap().fields.push(Field {
            tag,
            name,
            repeated,
            oneof: oneof.map(str::to_owned),
        });
    }
}

type Words = std::iter::Peekable<std::vec::IntoIter<String>>;

/// To the end of a statement: a semicolon, or the brace that closes its block.
fn skip(words: &mut Words) {
    let mut depth = 0_usize;
    for word in words.by_ref() {
        match word.as_str() {
            "{" | "[" | "(" => depth += 1,
            "]" | ")" => depth -= 1,
            "}" if depth == 1 => return,
            "}" => depth -= 1,
            ";" if depth == 0 => return,
            _ => {}
        }
    }
}

/// Names with their dots, and single signs; no comments, and nothing of texts but their quotes.
fn words(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let mut rest = line.trim_start();
        while let Some(c) = rest.chars().next() {
            let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
            let length = match c {
                _ if rest.starts_with("//") => break,
                '"' | '\'' => text_length(rest, c),
                _ if is_name(c) => rest.find(|c| !is_name(c)).unwrap_or(rest.len()),
                _ => c.len_utf8(),
            };
            found.push(rest[..length].to_owned());
            rest = rest[length..].trim_start();
        }
    }
    found
}

fn text_length(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Where cargo keeps the sources of the crate that has the files.
fn folder() -> PathBuf {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline"])
        // Crates for other platforms may never have been fetched.
        .args(["--filter-platform", &platform])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let package = packages
        .iter()
        .find(|package| package["name"] == "envoy-types")
        .unwrap();
    let manifest = Path::new(package["manifest_path"].as_str().unwrap());
    manifest.parent().unwrap().join("proto")
}

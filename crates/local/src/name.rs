//! What things are called: meshes, workloads, and what the kernel knows them by. Pure.
//! Invariant: whatever carries one mesh's name cannot be taken for another's.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The name of a mesh on this machine.
///
/// Invariant: 1 to 40 of a-z, 0-9 and `-`, so that a dot ends it wherever it is a prefix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MeshName(String);

/// Why a text is no name of a mesh.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a name for a mesh; use 1 to 40 of a-z, 0-9 and `-`, beginning with a letter")]
pub struct NameError(String);

impl MeshName {
    /// What goes into the names of interfaces, which have 15 bytes.
    const TAG_BYTES_MAX: usize = 8;

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The bridge that the workloads hang on.
    #[must_use]
    pub fn bridge(&self) -> String {
        format!("leno-{}", self.tag())
    }

    /// This machine's end of the wire to the instance with that place among the addresses.
    #[must_use]
    pub fn link(&self, offset: u32) -> String {
        format!("ln{}-{offset}", self.tag())
    }

    /// What the names of all namespaces and cgroups of this mesh begin with.
    #[must_use]
    pub fn prefix(&self) -> String {
        format!("leno-{}.", self.0)
    }

    /// The network namespace of an instance.
    #[must_use]
    pub fn namespace(&self, instance: &WorkloadId) -> String {
        format!("{}{instance}", self.prefix())
    }

    /// The name itself where it is short, else a number made from it.
    fn tag(&self) -> String {
        if self.0.len() <= Self::TAG_BYTES_MAX {
            return self.0.clone();
        }
        // FNV-1a: the same in every version, which the standard hasher does not promise.
        let mix = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        format!("{:08x}", self.0.bytes().fold(0x811c_9dc5, mix))
    }
}

impl fmt::Display for MeshName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for MeshName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let begins = text.starts_with(|c: char| c.is_ascii_lowercase());
        if begins && text.len() <= 40 && text.chars().all(is_plain) {
            return Ok(Self(text.to_owned()));
        }
        Err(NameError(text.to_owned()))
    }
}

impl TryFrom<String> for MeshName {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<MeshName> for String {
    fn from(name: MeshName) -> Self {
        name.0
    }
}

/// A workload of a mesh, or an instance of one; shown as `name` where its namespace is `default`,
/// else `name.namespace`.
///
/// Invariant: neither part has anything but letters, digits and `-`, so that it may stand in paths.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct WorkloadId {
    namespace: String,
    name: String,
}

/// Why a workload's name cannot be used here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` cannot be part of a path and a host name; use 1 to 63 of a-z, 0-9 and `-`")]
pub struct LabelError(String);

impl WorkloadId {
    /// The namespace that need not be said.
    pub const DEFAULT: &'static str = "default";

    /// Checks both parts.
    ///
    /// # Errors
    /// The part that is not 1 to 63 of a-z, 0-9 and `-`.
    pub fn new(namespace: &str, name: &str) -> Result<Self, LabelError> {
        Ok(Self {
            namespace: label(namespace)?,
            name: label(name)?,
        })
    }

    /// Its namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Its name within the namespace.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One instance of this workload.
    ///
    /// # Errors
    /// When the workload's name leaves no room for the number.
    pub fn instance(&self, ordinal: u32) -> Result<Self, LabelError> {
        Self::new(&self.namespace, &format!("{}-{ordinal}", self.name))
    }
}

fn label(text: &str) -> Result<String, LabelError> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if (1..=63).contains(&text.len()) && text.chars().all(is_plain) && !text.starts_with('-') {
        return Ok(text.to_owned());
    }
    Err(LabelError(text.to_owned()))
}

impl fmt::Display for WorkloadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if self.namespace == Self::DEFAULT {
            return Ok(());
        }
        write!(f, ".{}", self.namespace)
    }
}

impl FromStr for WorkloadId {
    type Err = LabelError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, namespace) = text.split_once('.').unwrap_or((text, Self::DEFAULT));
        Self::new(namespace, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mesh(text: &str) -> MeshName {
        text.parse().unwrap()
    }

    #[test]
    fn names_of_interfaces_fit_whatever_the_mesh_is_called() {
        for name in [
            "a",
            "leno",
            "eight888",
            "a-name-of-forty-letters-which-is-the-most",
        ] {
            let mesh = mesh(&name[..name.len().min(40)]);
            assert!(mesh.bridge().len() <= 15, "{}", mesh.bridge());
            assert!(mesh.link(9999).len() <= 15, "{}", mesh.link(9999));
        }
        assert_ne!(
            mesh("long-name-one").bridge(),
            mesh("long-name-two").bridge()
        );
    }

    #[test]
    fn one_mesh_is_not_the_beginning_of_another() {
        let workload: WorkloadId = "hello".parse().unwrap();
        assert_eq!(mesh("a").namespace(&workload), "leno-a.hello");
        assert!(
            !mesh("a-b")
                .namespace(&workload)
                .starts_with(&mesh("a").prefix())
        );
        for text in ["", "A", "a.b", "a/b", "-a", "1"] {
            assert!(text.parse::<MeshName>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_workload_is_shown_as_it_is_typed() {
        for text in ["hello", "hello.shop"] {
            assert_eq!(text.parse::<WorkloadId>().unwrap().to_string(), text);
        }
        assert_eq!(
            "hello.default".parse::<WorkloadId>().unwrap().to_string(),
            "hello"
        );
        for text in ["", "../etc", "a.b.c", "Hello", "a."] {
            assert!(text.parse::<WorkloadId>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_instance_has_the_name_of_its_workload_and_a_number() {
        let workload: WorkloadId = "hello.shop".parse().unwrap();
        assert_eq!(workload.instance(7).unwrap().to_string(), "hello-7.shop");
        let long: WorkloadId = "a".repeat(62).parse().unwrap();
        assert!(long.instance(7).is_err());
    }
}

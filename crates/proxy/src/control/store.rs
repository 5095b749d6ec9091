//! What a sidecar keeps on disk, if it is allowed to, so that it can start and serve without its
//! control plane: certificate, key, and resources as they came. Used by `control`. The directory
//! and all in it is for its owner alone; each file is replaced in one step.

use super::leaf::Leaf;
use super::machine::Machine;
use super::mesh::Mesh;
use anyhow::Context;
use bytes::Bytes;
use identity::key::PrivateKey;
use prost::Message;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use xds::kind::Kind;
use xds::proto::discovery::{DeltaDiscoveryResponse, Resource};
use xds::proto::google::Any;
use xds::resource;

const LEAF: &str = "leaf.pem";
const CHAIN_BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const RESOURCES: &str = "resources.pb";
/// A file with more than any mesh has is not ours.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// A directory.
#[derive(Clone)]
pub(super) struct Store {
    dir: PathBuf,
}

/// A resource as it came.
pub(super) struct One {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) value: Bytes,
}

impl Store {
    pub(super) fn open(dir: &Path) -> anyhow::Result<Self> {
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir);
        made.with_context(|| format!("the directory {} cannot be made", dir.display()))?;
        Ok(Self {
            dir: dir.to_owned(),
        })
    }

    /// The key and the chain that were kept last, if any were.
    pub(super) fn load_leaf(&self) -> anyhow::Result<Option<(PrivateKey, String)>> {
        let Some(bytes) = self.read(LEAF)? else {
            return Ok(None);
        };
        let text = String::from_utf8(bytes).context("it is no text")?;
        let chain = text.find(CHAIN_BEGIN).context("there is no chain in it")?;
        let key = PrivateKey::from_pem(&text.as_bytes()[..chain])?;
        Ok(Some((key, text[chain..].to_owned())))
    }

    /// The resources that were kept last.
    pub(super) fn load_resources(&self) -> anyhow::Result<Vec<One>> {
        let mut bytes = Bytes::from(self.read(RESOURCES)?.unwrap_or_default());
        let mut resources = Vec::new();
        while !bytes.is_empty() {
            let response = DeltaDiscoveryResponse::decode_length_delimited(&mut bytes)?;
            let kind = Kind::find(&response.type_url).context("a kind that is not known")?;
            resources.extend(response.resources.into_iter().map(|one| One {
                kind,
                name: one.name,
                version: one.version,
                value: one.resource.unwrap_or_default().value,
            }));
        }
        Ok(resources)
    }

    /// Key and chain go into one file, so that neither is ever found without the other.
    pub(super) fn save_leaf(&self, leaf: &Leaf) -> anyhow::Result<()> {
        let mut text = leaf.proof.key.to_pem();
        text.push_str(&leaf.proof.chain);
        self.replace(LEAF, text.as_bytes())
    }

    /// What `mesh` has, in the versions that `machine` accepted, as it is written.
    pub(super) fn encode(mesh: &Mesh, machine: &Machine) -> anyhow::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for kind in Kind::ALL {
            let mut response = DeltaDiscoveryResponse {
                type_url: kind.type_url().to_owned(),
                ..DeltaDiscoveryResponse::default()
            };
            for (name, version) in machine.known(kind) {
                let Some(resource) = mesh.find(kind, name) else {
                    continue;
                };
                // The control plane will say it again.
                let Ok(value) = resource::encode(&resource) else {
                    continue;
                };
                let type_url = kind.type_url().to_owned();
                response.resources.push(Resource {
                    name: name.to_owned(),
                    version: version.to_owned(),
                    resource: Some(Any { type_url, value }),
                    ..Resource::default()
                });
            }
            response.encode_length_delimited(&mut bytes)?;
        }
        Ok(bytes)
    }

    /// Writes what [`Self::encode`] made. Waits for the disk.
    pub(super) fn save(&self, bytes: &[u8]) -> anyhow::Result<()> {
        self.replace(RESOURCES, bytes)
    }

    /// `None` if it is not there.
    fn read(&self, name: &str) -> anyhow::Result<Option<Vec<u8>>> {
        let path = self.dir.join(name);
        let Ok(data) = fs::metadata(&path) else {
            return Ok(None);
        };
        let (size, path) = (data.len(), path.display());
        anyhow::ensure!(size <= FILE_BYTES_MAX, "{path} is too large");
        let bytes = fs::read(self.dir.join(name));
        bytes
            .with_context(|| format!("{path} cannot be read"))
            .map(Some)
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let beside = self.dir.join(format!("{name}.new"));
        // What an interrupted run left behind must not lend its rights to a key.
        let _ = fs::remove_file(&beside);
        let mut options = fs::OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        Ok(fs::rename(&beside, self.dir.join(name))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::XdsVariant;
    use xds::TRUST_BUNDLE;
    use xds::proto::discovery::Node;
    use xds::resource::Resource as Part;

    fn bundle() -> model::TrustBundle {
        model::TrustBundle {
            name: TRUST_BUNDLE.to_owned(),
            authorities: "an authority".to_owned(),
            revocations: String::new(),
        }
    }

    /// A store in `dir/state` to which a trust bundle was saved.
    fn saved(dir: &Path) -> Store {
        let store = Store::open(&dir.join("state")).unwrap();
        let (mut mesh, mut machine) = (
            Mesh::default(),
            Machine::new(XdsVariant::Delta, Node::default()),
        );
        mesh.add(Part::Bundle(bundle()));
        machine.subscribe(Kind::Secret, [TRUST_BUNDLE]);
        machine.restore(Kind::Secret, TRUST_BUNDLE, "7");
        let bytes = Store::encode(&mesh, &machine).unwrap();
        store.save(&bytes).unwrap();
        store
    }

    #[test]
    fn what_was_kept_is_found_in_its_version() {
        let dir = tempfile::tempdir().unwrap();
        let kept = saved(dir.path()).load_resources().unwrap();
        let [one] = kept.as_slice() else { panic!() };
        assert_eq!(
            (one.kind, &*one.name, &*one.version),
            (Kind::Secret, TRUST_BUNDLE, "7")
        );
        let decoded = resource::decode(one.kind, &one.value).unwrap();
        assert_eq!(decoded.value, Part::Bundle(bundle()));
    }

    #[test]
    fn nothing_is_found_where_nothing_was_kept() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("new/state")).unwrap();
        assert!(store.load_leaf().unwrap().is_none());
        assert!(store.load_resources().unwrap().is_empty());
    }

    #[test]
    fn what_was_cut_short_is_an_error_wherever_that_was() {
        let dir = tempfile::tempdir().unwrap();
        let store = saved(dir.path());
        let path = dir.path().join("state").join(RESOURCES);
        let whole = fs::read(&path).unwrap();
        let empty: usize = Kind::ALL[1..]
            .iter()
            .map(|kind| kind.type_url().len() + 3)
            .sum();
        for length in 1..whole.len() - empty {
            fs::write(&path, &whole[..length]).unwrap();
            assert!(store.load_resources().is_err(), "{length} bytes");
        }
    }

    #[test]
    fn leaf_without_a_chain_or_a_key_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let store = saved(dir.path());
        let key = identity::key::generate().unwrap().to_pem();
        for text in [key.as_str(), CHAIN_BEGIN, "\u{fffd}"] {
            fs::write(dir.path().join("state").join(LEAF), text).unwrap();
            assert!(store.load_leaf().is_err(), "{text}");
        }
    }
}

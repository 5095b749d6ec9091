//! The book on the disk: JSON, replaced as a whole. Read at start, written when something was
//! allocated. Must never be left half written.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Book;
use crate::kinds::ServiceKey;

/// Why there is no book, or it could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It could not be read.
    #[error("cannot read {}: {source}; check who may read it", path.display())]
    Read {
        /// The book.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is not what we write.
    #[error(
        "{} is not a book of addresses: {source}; restore it, or remove it and Services are given \
         new addresses", path.display()
    )]
    Parse {
        /// The book.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// It could not be written.
    #[error("cannot write {}: {source}; check the folder given to --state", path.display())]
    Write {
        /// The book.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    /// By `namespace/name`.
    services: BTreeMap<String, Vec<IpAddr>>,
}

impl Book {
    /// The book in the file at `path`; an empty one if there is none.
    ///
    /// # Errors
    /// When the file cannot be read, or is not a book.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let path_buf = || path.to_owned();
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(source) => {
                let path = path_buf();
                return Err(Error::Read { path, source });
            }
        };
        let written: Written = serde_json::from_slice(&text).map_err(|source| Error::Parse {
            path: path_buf(),
            source,
        })?;
        let mut book = Self::default();
        let mut taken = std::collections::BTreeSet::new();
        for (name, mut addresses) in written.services {
            addresses.retain(|address| taken.insert(*address));
            if let Some((namespace, name)) = name.split_once('/') {
                book.allocated
                    .insert(ServiceKey::new(namespace, name), addresses);
            }
        }
        Ok(book)
    }

    /// Writes what was allocated to the file at `path`, which only its owner may read.
    ///
    /// # Errors
    /// When it cannot be written; then the file is what it was.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        let services = self.allocated.iter();
        let services = services.map(|(key, addresses)| (key.to_string(), addresses.clone()));
        let written = Written {
            services: services.collect(),
        };
        replace(path, &written).map_err(|source| Error::Write {
            path: path.to_owned(),
            source,
        })
    }
}

fn replace(path: &Path, written: &Written) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)?;
    serde_json::to_writer_pretty(&mut file, written)?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    fs::rename(&new, path)
}

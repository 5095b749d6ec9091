//! The roots and the intermediates under them, each in a directory of its own. New certificates
//! come from the first intermediate; the others are there as long as theirs have not expired.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use identity::ca::{self, Serial};
use identity::certificate;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde::{Deserialize, Serialize};

use super::error::Error;
use super::store::{create_private_dir, failed, read, replace};

/// Intermediates at a time: each is in the bundle that every sidecar gets.
const ISSUERS_MAX: usize = 8;
const CERTIFICATE: &str = "ca.pem";

/// Who signs.
///
/// Invariant: at least one root and one intermediate, and the first intermediate is the first
/// root's.
#[derive(Debug)]
pub(super) struct Hierarchy {
    dir: PathBuf,
    pub(super) roots: Vec<Root>,
    pub(super) issuers: Vec<Issuer>,
}

/// One that is trusted by itself.
#[derive(Debug)]
pub(super) struct Root {
    pub(super) serial: Serial,
    pub(super) pem: String,
    not_after: SystemTime,
    /// `None` where its key is kept elsewhere, and is not at hand.
    authority: Option<ca::Authority>,
}

/// An intermediate.
#[derive(Debug)]
pub(super) struct Issuer {
    pub(super) serial: Serial,
    pub(super) root: Serial,
    pub(super) authority: ca::Authority,
}

/// Where roots come from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin<'a> {
    pub(super) trust_domain: &'a str,
    /// The operator's directory; without one, the authority makes its own roots.
    pub(super) external: Option<&'a Path>,
}

/// The order of the authorities, as the state file has it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Names {
    roots: Vec<Serial>,
    issuers: Vec<IssuerName>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IssuerName {
    serial: Serial,
    root: Serial,
}

impl Hierarchy {
    /// A root, and an intermediate under it.
    pub(super) fn create(
        dir: PathBuf,
        origin: Origin<'_>,
        ttl: Duration,
        now: SystemTime,
    ) -> Result<Self, Error> {
        create_private_dir(&dir)?;
        let mut hierarchy = Self {
            dir,
            roots: Vec::new(),
            issuers: Vec::new(),
        };
        hierarchy.add_root(origin, now)?;
        hierarchy.add_issuer(ttl, now)?;
        Ok(hierarchy)
    }

    pub(super) fn load(dir: PathBuf, names: &Names, origin: Origin<'_>) -> Result<Self, Error> {
        let external = origin
            .external
            .and_then(|dir| ca::Authority::load(dir).ok());
        let mut external = external.map(|authority| (serial_of(&authority), authority));
        let mut roots = Vec::new();
        for serial in &names.roots {
            let own = dir.join(serial.to_string());
            let authority = match external.take_if(|(found, _)| *found == Some(*serial)) {
                Some((_, authority)) => Some(authority),
                None if own.join("ca.key").exists() => Some(ca::Authority::load(&own)?),
                None => None,
            };
            roots.push(load_root(&own.join(CERTIFICATE), *serial, authority)?);
        }
        let mut issuers = Vec::new();
        for name in &names.issuers {
            issuers.push(Issuer {
                serial: name.serial,
                root: name.root,
                authority: ca::Authority::load(&dir.join(name.serial.to_string()))?,
            });
        }
        let hierarchy = Self {
            dir,
            roots,
            issuers,
        };
        hierarchy.check(origin.trust_domain)?;
        Ok(hierarchy)
    }

    fn check(&self, trust_domain: &str) -> Result<(), Error> {
        let state = |reason: &str| Error::State {
            path: self.dir.clone(),
            reason: reason.to_owned(),
        };
        let issuer = self
            .issuers
            .first()
            .ok_or_else(|| state("no authority issues"))?;
        let root = self.roots.first().ok_or_else(|| state("it has no root"))?;
        if issuer.root != root.serial {
            return Err(state("who issues is not under the first root"));
        }
        check_trust_domain(&issuer.authority, &self.dir, trust_domain)
    }

    /// Adds a root behind the others: it is trusted, but does not issue yet.
    pub(super) fn add_root(&mut self, origin: Origin<'_>, now: SystemTime) -> Result<(), Error> {
        let authority = match origin.external {
            Some(dir) => ca::Authority::load(dir)?,
            None => ca::Authority::create(origin.trust_domain, now)?,
        };
        let path = origin.external.unwrap_or(&self.dir);
        check_trust_domain(&authority, path, origin.trust_domain)?;
        let serial = serial_of(&authority).ok_or_else(|| Error::State {
            path: path.to_owned(),
            reason: "its serial number is not of 16 bytes, as those of `leno cert ca`".to_owned(),
        })?;
        if self.roots.iter().any(|root| root.serial == serial) {
            return Err(Error::SameRoot(path.to_owned()));
        }
        let own = self.dir.join(serial.to_string());
        create_private_dir(&own)?;
        match origin.external {
            // Its key stays where the operator keeps it.
            Some(_) => replace(&own.join(CERTIFICATE), authority.certificate_pem(), 0o644)?,
            None => authority.save(&own)?,
        }
        self.roots.push(Root {
            serial,
            pem: authority.certificate_pem().to_owned(),
            not_after: (*authority.validity().end()).into(),
            authority: Some(authority),
        });
        Ok(())
    }

    /// Makes the newest root the first: the next intermediate will be its.
    pub(super) fn prefer_newest_root(&mut self) {
        self.roots.rotate_right(1);
    }

    /// Makes an intermediate of the first root, which issues from now on.
    pub(super) fn add_issuer(&mut self, ttl: Duration, now: SystemTime) -> Result<(), Error> {
        if self.issuers.len() >= ISSUERS_MAX {
            return Err(Error::TooManyIssuers(self.issuers.len()));
        }
        let root = &self.roots[0];
        let key = root.authority.as_ref().ok_or(Error::NoRootKey)?;
        let authority = key.intermediate(ttl, now)?;
        let serial = serial_of(&authority).expect("our own serial numbers have 16 bytes");
        let own = self.dir.join(serial.to_string());
        create_private_dir(&own)?;
        authority.save(&own)?;
        let issuer = Issuer {
            serial,
            root: root.serial,
            authority,
        };
        self.issuers.insert(0, issuer);
        Ok(())
    }

    /// Drops all roots but the first, and what is under them.
    pub(super) fn drop_old_roots(&mut self) {
        self.roots.truncate(1);
        let first = self.roots[0].serial;
        self.issuers.retain(|issuer| issuer.root == first);
    }

    /// Drops intermediates that `is_used` does not want; never the first.
    pub(super) fn drop_issuers(&mut self, is_used: impl Fn(&Serial) -> bool) {
        let first = self.issuers[0].serial;
        let keep = |issuer: &Issuer| issuer.serial == first || is_used(&issuer.serial);
        self.issuers.retain(keep);
    }

    /// Removes the files of those that were dropped.
    pub(super) fn clean(&self) -> Result<(), Error> {
        let roots = self.roots.iter().map(|root| root.serial);
        let issuers = self.issuers.iter().map(|issuer| issuer.serial);
        let names: Vec<_> = roots
            .chain(issuers)
            .map(|serial| serial.to_string())
            .collect();
        let entries = fs::read_dir(&self.dir).map_err(|reason| failed(&self.dir, reason))?;
        for entry in entries.flatten() {
            let is_named = entry
                .file_name()
                .to_str()
                .is_some_and(|name| names.iter().any(|known| known == name));
            if !is_named {
                let path = entry.path();
                fs::remove_dir_all(&path).map_err(|reason| failed(&path, reason))?;
            }
        }
        Ok(())
    }

    /// Who issues now.
    pub(super) fn issuer(&self) -> &Issuer {
        &self.issuers[0]
    }

    /// Whether another intermediate can be made that would live longer than the first.
    pub(super) fn can_renew_issuer(&self) -> bool {
        let (root, validity) = (&self.roots[0], self.issuer().authority.validity());
        root.authority.is_some() && SystemTime::from(*validity.end()) < root.not_after
    }

    /// The root above an intermediate, if both are still there.
    pub(super) fn root_of(&self, issuer: &Serial) -> Option<Serial> {
        let issuers = self.issuers.iter();
        let mut found = issuers.filter(|one| one.serial == *issuer);
        found.next().map(|issuer| issuer.root)
    }

    /// The trust bundle, PEM: who issues now comes first, and of the roots the `preferred` one.
    pub(super) fn bundle(&self, preferred: Serial) -> String {
        let issuers = self.issuers.iter();
        let mut bundle: String = issuers.map(|one| one.authority.certificate_pem()).collect();
        let mut roots: Vec<_> = self.roots.iter().collect();
        roots.sort_by_key(|root| root.serial != preferred);
        roots.iter().for_each(|root| bundle += &root.pem);
        bundle
    }

    /// The roots alone, PEM.
    pub(super) fn roots(&self) -> String {
        self.roots.iter().map(|root| root.pem.as_str()).collect()
    }

    pub(super) fn names(&self) -> Names {
        let issuers = self.issuers.iter().map(|issuer| IssuerName {
            serial: issuer.serial,
            root: issuer.root,
        });
        Names {
            roots: self.roots.iter().map(|root| root.serial).collect(),
            issuers: issuers.collect(),
        }
    }
}

fn load_root(path: &Path, serial: Serial, authority: Option<ca::Authority>) -> Result<Root, Error> {
    let bad = |reason: &str| Error::State {
        path: path.to_owned(),
        reason: reason.to_owned(),
    };
    let pem = read(path)?.ok_or_else(|| bad("there is no such file"))?;
    let der = CertificateDer::from_pem_slice(pem.as_bytes());
    let der = der.map_err(|_| bad("it holds no certificate"))?;
    if Serial::of(&der) != Some(serial) {
        return Err(bad("it holds another certificate"));
    }
    let validity = certificate::validity(&der).map_err(|e| bad(&e.to_string()))?;
    Ok(Root {
        serial,
        pem,
        not_after: (*validity.end()).into(),
        authority,
    })
}

fn check_trust_domain(authority: &ca::Authority, path: &Path, expected: &str) -> Result<(), Error> {
    match authority.trust_domain() == expected {
        true => Ok(()),
        false => Err(Error::TrustDomain {
            path: path.to_owned(),
            found: authority.trust_domain().to_owned(),
            expected: expected.to_owned(),
        }),
    }
}

fn serial_of(authority: &ca::Authority) -> Option<Serial> {
    Serial::of(authority.certificate())
}

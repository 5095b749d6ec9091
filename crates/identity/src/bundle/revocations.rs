//! Lists of revoked certificates (RFC 5280, section 5), one per authority. Read by a trust bundle;
//! applied by the verifier, which checks each list's signature again with the issuer that the
//! peer's chain proves.

use std::collections::BTreeSet;

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer};
use webpki::{CertRevocationList, OwnedCertRevocationList};
use x509_parser::prelude::FromDer;
use x509_parser::revocation_list::CertificateRevocationList;

use crate::certificate;

/// Longest serial number (RFC 5280, section 4.1.2.2).
const SERIAL_BYTES_MAX: usize = 20;

/// What is revoked.
///
/// Invariant: at most one list per issuer, its latest.
#[derive(Default)]
pub(super) struct Revocations {
    lists: Vec<CertRevocationList<'static>>,
    /// Issuer's name, serial number.
    revoked: BTreeSet<(Vec<u8>, Vec<u8>)>,
}

impl Revocations {
    /// Reads PEM of lists. One that an authority of `authorities` has issued must be signed by it;
    /// the signature of another one is checked when a chain brings its issuer along.
    pub(super) fn read(pem: &[u8], authorities: &[CertificateDer<'_>]) -> Result<Self, String> {
        let ders: Vec<_> = CertificateRevocationListDer::pem_slice_iter(pem)
            .collect::<Result<_, _>>()
            .map_err(|e| format!("it is not PEM ({e})"))?;
        let mut parsed = Vec::new();
        for der in &ders {
            let list = parse(der)?;
            check_signature(&list, authorities)?;
            parsed.push((list, der));
        }
        parsed.sort_by_key(|(list, _)| std::cmp::Reverse(list.last_update()));
        let mut read = Self::default();
        let mut issuers = BTreeSet::new();
        for (list, der) in parsed {
            if issuers.insert(list.issuer().as_raw().to_vec()) {
                read.add(&list, der)?;
            }
        }
        Ok(read)
    }

    fn add(
        &mut self,
        list: &CertificateRevocationList<'_>,
        der: &CertificateRevocationListDer<'_>,
    ) -> Result<(), String> {
        let usable = OwnedCertRevocationList::from_der(der).map_err(|e| e.to_string())?;
        let issuer = list.issuer().as_raw();
        for entry in list.iter_revoked_certificates() {
            let serial = entry.raw_serial().to_vec();
            if serial.len() > SERIAL_BYTES_MAX {
                return Err("a serial number in it is too long".to_owned());
            }
            self.revoked.insert((issuer.to_vec(), serial));
        }
        self.lists.push(usable.into());
        Ok(())
    }

    pub(super) fn lists(&self) -> &[CertRevocationList<'static>] {
        &self.lists
    }

    pub(super) fn count(&self) -> usize {
        self.revoked.len()
    }

    /// Issuer's name and serial number of each, in one order whatever the lists' order.
    pub(super) fn revoked(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let pairs = self.revoked.iter();
        pairs.map(|(issuer, serial)| (issuer.as_slice(), serial.as_slice()))
    }
}

fn parse<'a>(
    der: &'a CertificateRevocationListDer<'_>,
) -> Result<CertificateRevocationList<'a>, String> {
    match CertificateRevocationList::from_der(der) {
        Ok(([], list)) => Ok(list),
        Ok(_) => Err("bytes after its end".to_owned()),
        Err(error) => Err(format!("it does not parse ({error})")),
    }
}

fn check_signature(
    list: &CertificateRevocationList<'_>,
    authorities: &[CertificateDer<'_>],
) -> Result<(), String> {
    let parsed: Vec<_> = authorities
        .iter()
        .filter_map(|der| certificate::parse(der).ok())
        .filter(|authority| authority.subject().as_raw() == list.issuer().as_raw())
        .collect();
    let signed = |authority: &x509_parser::certificate::X509Certificate<'_>| {
        list.verify_signature(authority.public_key()).is_ok()
    };
    match parsed.is_empty() || parsed.iter().any(signed) {
        true => Ok(()),
        false => Err(format!("`{}` did not sign it", list.issuer())),
    }
}

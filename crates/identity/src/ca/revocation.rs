//! An authority's list of what it has revoked (RFC 5280, section 5). What is in the list is up to
//! the caller, who knows the serial numbers.

use std::time::{Duration, SystemTime};

use rcgen::{
    CertificateRevocationListParams, KeyIdMethod, RevocationReason, RevokedCertParams, SerialNumber,
};
use time::OffsetDateTime;

use super::{Authority, Error, Serial, whole_seconds};

/// One revoked certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Revoked {
    /// Its serial number.
    pub serial: Serial,
    /// Since when.
    pub at: SystemTime,
}

impl Authority {
    /// Signs the list of everything that it has revoked, PEM. `number` must grow from list to
    /// list; `fresh` says how long readers that care for it take the list for current.
    ///
    /// # Errors
    /// [`Error::Validity`], [`Error::Crypto`].
    pub fn revocations(
        &self,
        revoked: &[Revoked],
        number: u64,
        now: SystemTime,
        fresh: Duration,
    ) -> Result<String, Error> {
        let (this_update, fresh_for) = (whole_seconds(now), time::Duration::try_from(fresh));
        let next_update = fresh_for
            .ok()
            .and_then(|fresh| this_update.checked_add(fresh))
            .ok_or(Error::Validity(fresh))?;
        let list = CertificateRevocationListParams {
            this_update,
            next_update,
            crl_number: SerialNumber::from(number),
            issuing_distribution_point: None,
            revoked_certs: revoked.iter().map(entry).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        Ok(list.signed_by(&self.issuer)?.pem()?)
    }
}

fn entry(revoked: &Revoked) -> RevokedCertParams {
    RevokedCertParams {
        serial_number: SerialNumber::from_slice(&revoked.serial.0),
        revocation_time: OffsetDateTime::from(revoked.at),
        reason_code: Some(RevocationReason::CessationOfOperation),
        invalidity_date: None,
    }
}

//! The lists of revoked certificates, as they were signed last. Signed anew when something else is
//! revoked, or when they get old; else they stay as they are, so that nobody is told for nothing.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use identity::ca::Serial;
use serde::{Deserialize, Serialize};

use super::error::Error;
use super::hierarchy::Hierarchy;
use super::ledger::Ledger;
use super::store::{from_unix, unix};

/// How long readers that care for it may take a list for current. Our sidecars apply the last one
/// that they have; Envoy refuses everybody once it is over.
const FRESH: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The lists of all intermediates.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Lists {
    /// PEM; empty where nothing is revoked.
    pub(super) pem: String,
    /// Grows with each signing.
    number: u64,
    /// Seconds since 1970.
    signed_at: u64,
    /// By intermediate.
    revoked: BTreeMap<Serial, Vec<Serial>>,
}

impl Lists {
    /// Signs anew if that is due.
    pub(super) fn refresh(
        &mut self,
        hierarchy: &Hierarchy,
        ledger: &Ledger,
        now: SystemTime,
    ) -> Result<(), Error> {
        let mut revoked = BTreeMap::new();
        for issuer in &hierarchy.issuers {
            let of_issuer = ledger.revoked_by(&issuer.serial);
            revoked.insert(issuer.serial, of_issuer);
        }
        let nothing = revoked.values().all(Vec::is_empty);
        let serials =
            |list: &Vec<identity::ca::Revoked>| list.iter().map(|one| one.serial).collect();
        let serials: BTreeMap<_, _> = match nothing {
            true => BTreeMap::new(),
            false => revoked
                .iter()
                .map(|(issuer, list)| (*issuer, serials(list)))
                .collect(),
        };
        let is_old = from_unix(self.signed_at) + FRESH / 2 <= now;
        if self.revoked == serials && (nothing || !is_old) {
            return Ok(());
        }
        let number = self.number + 1;
        let mut pem = String::new();
        for issuer in hierarchy.issuers.iter().filter(|_| !nothing) {
            let list = &revoked[&issuer.serial];
            pem += &issuer.authority.revocations(list, number, now, FRESH)?;
        }
        *self = Self {
            pem,
            number,
            signed_at: unix(now),
            revoked: serials,
        };
        Ok(())
    }

    /// How many certificates are revoked.
    pub(super) fn count(&self) -> usize {
        self.revoked.values().map(Vec::len).sum()
    }
}

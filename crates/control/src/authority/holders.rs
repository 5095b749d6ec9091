//! Which instance holds which certificate, for whoever asks while the ledger waits for the disk.
//! Written by the ledger alone; asked once for each stream.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use identity::ca::Serial;

use crate::kinds::WorkloadKey;

/// Certificates that have neither expired nor been revoked.
#[derive(Debug, Default)]
pub struct Holders {
    by_serial: RwLock<BTreeMap<Serial, WorkloadKey>>,
}

impl Holders {
    /// Whether the certificate of that number was issued for `workload`, and still counts.
    #[must_use]
    pub fn is_of(&self, serial: &Serial, workload: &WorkloadKey) -> bool {
        let by_serial = self.by_serial.read();
        let by_serial = by_serial.unwrap_or_else(PoisonError::into_inner);
        by_serial.get(serial) == Some(workload)
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut BTreeMap<Serial, WorkloadKey>)) {
        let by_serial = self.by_serial.write();
        change(&mut by_serial.unwrap_or_else(PoisonError::into_inner));
    }
}

//! What must hold of signing requests, bundles and lists of revoked certificates for any bytes.
//! Called by the target `csr` and, over the checked-in seeds, by identity's own tests. Panics where
//! it does not hold. No part of the library: that is built into tests which know no certificates.

use std::time::{Duration, SystemTime};

use identity::TrustBundle;
use identity::ca::requested_key;

/// The bytes as a request, and as what a control plane would send.
pub fn csr(data: &[u8]) {
    if let Ok(key) = requested_key(data) {
        assert_eq!(
            (key.len(), key[0]),
            (65, 4),
            "a point of P-256, uncompressed"
        );
    }
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    // Text is taken for authorities and lists at once: each reader skips the other's.
    if let Ok(bundle) = TrustBundle::from_pem(text, text, "cluster.local", now) {
        let again = TrustBundle::from_pem(text, text, "cluster.local", now);
        let again = again.expect("what was read is read again");
        assert_eq!(bundle.fingerprint(), again.fingerprint());
    }
}

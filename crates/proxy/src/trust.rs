//! Whether a peer that was proven once is still to be trusted after the trust bundle has changed.
//! Asked by connections that are there, until others have taken their place.

use crate::worker::View;
use identity::credentials::Fingerprint;
use identity::tls::{self, Side};
use rustls::pki_types::CertificateDer;
use std::cell::Cell;

/// What a peer has shown, and the bundle that it was last checked against.
pub(crate) struct Shown {
    chain: Vec<CertificateDer<'static>>,
    bundle: Cell<Fingerprint>,
}

/// What has become of a peer's proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing has changed.
    Same,
    /// Others are trusted now, and this one still is.
    Confirmed,
    /// It would not be let in now.
    Lost,
}

impl Shown {
    /// A chain that a handshake has verified against `bundle`.
    pub(crate) fn new(chain: Vec<CertificateDer<'static>>, bundle: Fingerprint) -> Box<Self> {
        let bundle = Cell::new(bundle);
        Box::new(Self { chain, bundle })
    }

    /// Whether it will still be good once the authorities that are to go are gone.
    pub(crate) fn lasts(&self, view: &View) -> bool {
        let identity = view.snapshot.identity.as_ref();
        identity
            .is_some_and(|identity| tls::rests_on_first_root(&self.chain, &identity.credentials))
    }

    /// Checks the chain anew if the bundle has changed, and remembers if it is still good.
    pub(crate) fn standing(&self, view: &View, side: Side<'_>) -> Standing {
        let Some(identity) = &view.snapshot.identity else {
            return Standing::Lost;
        };
        let now = identity.credentials.bundle_fingerprint();
        if self.bundle.get() == now {
            return Standing::Same;
        }
        match tls::recheck(&self.chain, &identity.credentials, side) {
            Ok(_) => {
                self.bundle.set(now);
                Standing::Confirmed
            }
            Err(_) => Standing::Lost,
        }
    }
}

//! The keys that seal session tickets: one set per process, shared by all workers, rotated every
//! six hours, and replaced at once when the trust bundle changes, so that nobody resumes a
//! session that an authority no longer trusted has let in. Never stored.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::server::ProducesTickets;

use crate::credentials::Fingerprint;

/// The ticket keys of a process.
#[derive(Debug, Default)]
pub struct Tickets {
    current: Mutex<Option<(Fingerprint, Arc<dyn ProducesTickets>)>>,
}

impl Tickets {
    /// No keys yet; they are made with the first configuration.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// The keys for sessions that this bundle has let in: the present ones if they were made
    /// for it, else new ones, which replace them.
    pub(crate) fn keys(
        &self,
        bundle: Fingerprint,
    ) -> Result<Arc<dyn ProducesTickets>, rustls::Error> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((made_for, keys)) = &*current
            && *made_for == bundle
        {
            return Ok(Arc::clone(keys));
        }
        let keys = rustls::crypto::aws_lc_rs::Ticketer::new()?;
        *current = Some((bundle, Arc::clone(&keys)));
        Ok(keys)
    }
}

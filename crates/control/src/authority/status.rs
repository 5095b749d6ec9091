//! What an operator sees of the authority. No secret is in it.

use identity::ca::Serial;
use serde::Serialize;

use super::rotation::Phase;

/// The authority at a glance. Times are seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Whose ids it signs.
    pub trust_domain: String,
    /// How far a rotation of the root is.
    pub phase: Phase,
    /// Since when.
    pub since: u64,
    /// Counts the changes of the trust bundle since the start.
    pub generation: u64,
    /// Trusted roots, by serial number.
    pub roots: Vec<Serial>,
    /// Intermediates; the first issues.
    pub issuers: Vec<IssuerStatus>,
    /// Workloads with a certificate that is valid.
    pub enrolled: usize,
    /// Those of them whose last certificate does not come from the first intermediate.
    pub to_renew: usize,
    /// Certificates that are revoked and have not expired.
    pub revoked: usize,
    /// Tokens that were not used yet.
    pub tokens: usize,
}

/// One intermediate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IssuerStatus {
    /// Its serial number.
    pub serial: Serial,
    /// That of its root.
    pub root: Serial,
    /// When it expires.
    pub not_after: u64,
    /// How many of its certificates have not expired.
    pub certificates: usize,
}

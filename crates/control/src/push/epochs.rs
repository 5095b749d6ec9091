//! What tells an Envoy, which asks for certificates at handshakes only, that connections are to be
//! made anew: words that change with what they rest on. The same authorities have the same words,
//! in any process.

use aws_lc_rs::digest::{Context, SHA256};
use model::TrustBundle;

use crate::authority::Roots;

/// Of the digest that a word is: two that follow each other are not the same.
const BYTES: usize = 4;

/// Empty before there is a trust bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Epochs {
    /// Of connections that Envoy makes: another one when other roots are trusted, or another of
    /// them is preferred.
    pub(super) upstream: String,
    /// Of connections that Envoy accepts: another one when some certificate counts no longer.
    pub(super) downstream: String,
}

impl Epochs {
    pub(super) fn of(bundle: &TrustBundle, roots: &Roots) -> Self {
        let [preferred, oldest] = [roots.preferred, roots.oldest].map(|root| root.to_string());
        let count = roots.count.to_string();
        Self {
            upstream: word(&[&preferred, &oldest, &count]),
            downstream: word(&[&oldest, &bundle.revocations]),
        }
    }
}

fn word(parts: &[&str]) -> String {
    let mut digest = Context::new(&SHA256);
    parts.iter().for_each(|part| digest.update(part.as_bytes()));
    let digest = digest.finish();
    let bytes = digest.as_ref()[..BYTES].iter();
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

//! Bootstrap tokens: what a sidecar proves its workload with before it has a certificate. Kept as
//! hashes only; a token that was shown once is never shown again.

use std::time::{Duration, SystemTime};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use identity::SpiffeId;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::kinds::WorkloadKey;

use super::error::{Error, Refused};
use super::store::unix;

/// 256 random bits are not to be guessed.
const TOKEN_BYTES: usize = 32;
/// How long a token can be used.
pub(super) const TOKEN_TTL: Duration = Duration::from_secs(10 * 60);
/// Tokens of one workload that are not used yet; a further one replaces the oldest.
const TOKENS_PER_WORKLOAD_MAX: usize = 4;

/// A bootstrap token in clear: for the workload's sidecar, and for nobody else.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Zeroizing<String>);

impl Token {
    fn random() -> Result<Self, Error> {
        let mut bytes = Zeroizing::new([0; TOKEN_BYTES]);
        aws_lc_rs::rand::fill(&mut *bytes).map_err(|_| Error::Random)?;
        Ok(Self(Zeroizing::new(
            URL_SAFE_NO_PAD.encode(bytes.as_slice()),
        )))
    }

    /// The token itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Tokens that can still be used.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Tokens(Vec<Pending>);

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Pending {
    hash: [u8; 32],
    namespace: String,
    name: String,
    id: String,
    expires: u64,
    /// SHA-256 of the public key that it was used for. An answer can get lost, so the same key may
    /// use it again while it lasts; another key may not.
    used_for: Option<[u8; 32]>,
}

/// Whom a token stands for.
pub(super) struct Found {
    pub(super) workload: WorkloadKey,
    pub(super) id: SpiffeId,
    index: usize,
}

impl Tokens {
    pub(super) fn issue(
        &mut self,
        workload: &WorkloadKey,
        id: &SpiffeId,
        now: SystemTime,
    ) -> Result<Token, Error> {
        let token = Token::random()?;
        self.make_room(workload);
        self.0.push(Pending {
            hash: hash(token.as_str().as_bytes()),
            namespace: workload.namespace.clone(),
            name: workload.name.clone(),
            id: id.to_string(),
            expires: unix(now + TOKEN_TTL),
            used_for: None,
        });
        Ok(token)
    }

    fn make_room(&mut self, workload: &WorkloadKey) {
        let mut of_workload = self
            .0
            .iter()
            .enumerate()
            .filter(|(_, one)| one.is_of(workload));
        let (oldest, count) = (of_workload.next(), of_workload.count() + 1);
        if let Some((oldest, _)) = oldest
            && count >= TOKENS_PER_WORKLOAD_MAX
        {
            self.0.remove(oldest);
        }
    }

    /// Whom the token stands for. It is not used up yet.
    pub(super) fn find(&self, token: &str, now: SystemTime) -> Result<Found, Refused> {
        let token = hash(token.as_bytes());
        // All are looked at, whichever it is.
        let mut found = None;
        for (index, pending) in self.0.iter().enumerate() {
            if verify_slices_are_equal(&pending.hash, &token).is_ok() {
                found = Some((index, pending));
            }
        }
        let live = found.filter(|(_, pending)| pending.expires > unix(now));
        let (index, pending) = live.ok_or(Refused::Token)?;
        Ok(Found {
            workload: WorkloadKey::new(&pending.namespace, &pending.name),
            id: SpiffeId::parse(&pending.id).map_err(|_| Refused::Token)?,
            index,
        })
    }

    /// Binds a token that was found to the public key that it is used for.
    pub(super) fn use_up(&mut self, found: &Found, key: &[u8]) -> Result<(), Refused> {
        let key = hash(key);
        let pending = self.0.get_mut(found.index).ok_or(Refused::Token)?;
        match *pending.used_for.get_or_insert(key) == key {
            true => Ok(()),
            false => Err(Refused::Token),
        }
    }

    /// Removes those that `is_void` chooses by id and workload; says whether there were any.
    pub(super) fn remove(&mut self, is_void: impl Fn(&str, &WorkloadKey) -> bool) -> bool {
        let before = self.0.len();
        self.0
            .retain(|one| !is_void(&one.id, &WorkloadKey::new(&one.namespace, &one.name)));
        self.0.len() < before
    }

    pub(super) fn sweep(&mut self, now: SystemTime) {
        self.0.retain(|pending| pending.expires > unix(now));
    }

    /// How many are not used yet.
    pub(super) fn count(&self) -> usize {
        let unused = self.0.iter().filter(|pending| pending.used_for.is_none());
        unused.count()
    }
}

impl Pending {
    fn is_of(&self, workload: &WorkloadKey) -> bool {
        (&self.namespace, &self.name) == (&workload.namespace, &workload.name)
    }
}

fn hash(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
    hash
}

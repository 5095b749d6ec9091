//! The authority behind its lock: the state, and every change of it. A change is on the disk
//! before anybody learns of it.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use identity::ca::{self, Serial};
use identity::credentials::{Credentials, Parts};
use identity::tls::{self, Side};
use identity::{SpiffeId, key};
use model::TrustBundle;
use rustls::pki_types::{CertificateDer, UnixTime};
use serde::{Deserialize, Serialize};

use crate::kinds::WorkloadKey;

use super::error::{Error, Refused};
use super::hierarchy::{Hierarchy, Names, Origin};
use super::holders::Holders;
use super::ledger::{Entry, Ledger};
use super::lists::Lists;
use super::rate::Rate;
use super::rotation::{Facts, Phase};
use super::status::{IssuerStatus, Status};
use super::store::{Store, from_unix, read, replace, unix};
use super::token::{Found, Token, Tokens};
use super::{BUNDLE, Directory, Keeps, Proof, ROOTS_FILE, Roots, Settings, Signed, control_id};

const STATE_FILE: &str = "authority.json";
const LEDGER_FILE: &str = "issued.log";
const AUTHORITIES_DIR: &str = "authorities";
/// Of the state file's form.
const VERSION: u32 = 1;
/// The control plane renews its own certificate at exactly half its life.
const HALF: u64 = 100;

pub(super) struct Inner {
    store: Store,
    settings: Settings,
    trust_domain: String,
    phase: Phase,
    since: u64,
    /// Since when nobody depends on a root but the first, as far as this process knows.
    renewed_since: Option<SystemTime>,
    hierarchy: Hierarchy,
    ledger: Ledger,
    lists: Lists,
    tokens: Tokens,
    rate: Rate,
    bundle: TrustBundle,
    /// The state file, as it was written last; empty before that.
    saved: String,
    own: Option<Arc<Credentials>>,
}

/// The state file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct State {
    version: u32,
    phase: Phase,
    since: u64,
    authorities: Names,
    lists: Lists,
    tokens: Tokens,
}

/// Who asks, as far as it is proved.
struct Proven {
    workload: WorkloadKey,
    id: SpiffeId,
    token: Option<Found>,
}

impl Inner {
    pub(super) fn open(
        dir: &Path,
        trust_domain: &str,
        settings: Settings,
        now: SystemTime,
    ) -> Result<Self, Error> {
        let store = Store::open(dir)?;
        let origin = Origin {
            trust_domain,
            external: settings.ca.as_deref(),
        };
        let (authorities, state) = (store.path(AUTHORITIES_DIR), read_state(&store)?);
        let hierarchy = match &state {
            Some(state) => Hierarchy::load(authorities, &state.authorities, origin)?,
            None => Hierarchy::create(authorities, origin, settings.issuer_ttl, now)?,
        };
        let ledger = Ledger::open(store.path(LEDGER_FILE), now)?;
        let (phase, since, lists, tokens) = match state {
            Some(state) => (state.phase, state.since, state.lists, state.tokens),
            None => (
                Phase::Stable,
                unix(now),
                Lists::default(),
                Tokens::default(),
            ),
        };
        let mut inner = Self {
            store,
            settings,
            trust_domain: trust_domain.to_owned(),
            phase,
            since,
            renewed_since: None,
            hierarchy,
            ledger,
            lists,
            tokens,
            rate: Rate::default(),
            bundle: empty_bundle(),
            saved: String::new(),
            own: None,
        };
        inner.renew_issuer(now)?;
        inner.publish(now)?;
        // Only now: the state names what is needed.
        inner.hierarchy.clean()?;
        Ok(inner)
    }

    pub(super) const fn holders(&self) -> &Arc<Holders> {
        self.ledger.holders()
    }

    pub(super) fn bundle(&self) -> &TrustBundle {
        &self.bundle
    }

    pub(super) fn own_credentials(&mut self, now: SystemTime) -> Result<Arc<Credentials>, Error> {
        if let Some(own) = &self.own
            && own.is_from_newest_authority()
            && !own.renewal_due(now, HALF).is_zero()
        {
            return Ok(Arc::clone(own));
        }
        let (key, id) = (key::generate()?, self.control_id()?);
        let issuer = &self.hierarchy.issuer().authority;
        let chain = issuer.sign_csr(&key.csr(&id)?, &id, self.settings.leaf_ttl, now)?;
        let parts = Parts {
            chain: &chain.pem,
            key: &key,
            trust_bundle: &self.bundle.authorities,
            revocations: &self.bundle.revocations,
        };
        let own = Arc::new(Credentials::from_parts(&parts, &self.trust_domain, now)?);
        self.own = Some(Arc::clone(&own));
        Ok(own)
    }

    fn control_id(&self) -> Result<SpiffeId, Error> {
        Ok(control_id(&self.trust_domain).map_err(ca::Error::from)?)
    }

    pub(super) fn issue_token(
        &mut self,
        workload: &WorkloadKey,
        id: &SpiffeId,
        now: SystemTime,
    ) -> Result<Token, Refused> {
        self.check_reserved(workload, id)?;
        self.tokens.sweep(now);
        let token = self.tokens.issue(workload, id, now)?;
        self.save()?;
        Ok(token)
    }

    fn check_reserved(&self, workload: &WorkloadKey, id: &SpiffeId) -> Result<(), Refused> {
        match *id == self.control_id()? {
            true => Err(Refused::Reserved(workload.clone())),
            false => Ok(()),
        }
    }

    pub(super) fn sign(
        &mut self,
        csr: &[u8],
        proof: Option<Proof<'_>>,
        directory: &Directory,
        now: SystemTime,
    ) -> Result<Signed, Refused> {
        let proven = match proof.ok_or(Refused::NoProof)? {
            Proof::Token(token) => self.prove_by_token(token, now)?,
            Proof::Leaf(chain) => self.prove_by_leaf(chain, now)?,
        };
        let Proven { workload, id, .. } = &proven;
        if directory(workload).as_ref() != Some(id) {
            return Err(Refused::NotInTheMesh(workload.clone()));
        }
        self.check_reserved(workload, id)?;
        if let Err(wait) = self.rate.take(workload, now) {
            let workload = workload.clone();
            return Err(Refused::TooOften { workload, wait });
        }
        if let Some(token) = &proven.token {
            let key = ca::requested_key(csr).map_err(Refused::Request)?;
            self.tokens.use_up(token, &key)?;
            self.save()?;
        }
        self.issue(csr, proven, now)
    }

    fn prove_by_token(&self, token: &str, now: SystemTime) -> Result<Proven, Refused> {
        let found = self.tokens.find(token, now)?;
        Ok(Proven {
            workload: found.workload.clone(),
            id: found.id.clone(),
            token: Some(found),
        })
    }

    /// The chain was verified in the handshake; that may be long ago.
    fn prove_by_leaf(
        &mut self,
        chain: &[CertificateDer<'_>],
        now: SystemTime,
    ) -> Result<Proven, Refused> {
        let refuse = |reason: &str| Refused::Leaf(reason.to_owned());
        let own = self.own_credentials(now)?;
        let since_epoch = now
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let moment = UnixTime::since_unix_epoch(since_epoch);
        let id = tls::recheck_at(chain, &own, Side::Downstream, moment)
            .map_err(|error| refuse(tls::classify(&error).label()))?;
        let serial = chain.first().and_then(Serial::of);
        let entry = serial.and_then(|serial| self.ledger.find(&serial));
        let entry = entry.ok_or_else(|| refuse("it is not in the records"))?;
        if entry.revoked.is_some() || entry.id != id {
            return Err(refuse("revoked"));
        }
        Ok(Proven {
            workload: entry.workload.clone(),
            id,
            token: None,
        })
    }

    fn issue(&mut self, csr: &[u8], proven: Proven, now: SystemTime) -> Result<Signed, Refused> {
        let Proven { workload, id, .. } = proven;
        let issuer = self.hierarchy.issuer();
        let chain = issuer
            .authority
            .sign_csr(csr, &id, self.settings.leaf_ttl, now);
        let chain = chain.map_err(|error| match error {
            error @ ca::Error::Request(_) => Refused::Request(error),
            error => Refused::Fault(error.into()),
        })?;
        let not_after = SystemTime::from(chain.not_after);
        let entry = Entry {
            workload: workload.clone(),
            id: id.clone(),
            issuer: issuer.serial,
            not_after: unix(not_after),
            revoked: None,
        };
        self.ledger.record(chain.serial, entry)?;
        Ok(Signed {
            workload,
            id,
            chain_pem: chain.pem,
            not_after,
        })
    }

    pub(super) fn enrolled(&self) -> Vec<WorkloadKey> {
        let entries = self.ledger.last();
        entries.map(|entry| entry.workload.clone()).collect()
    }

    pub(super) fn remove(
        &mut self,
        workload: &WorkloadKey,
        now: SystemTime,
    ) -> Result<usize, Error> {
        let revoked = self
            .ledger
            .revoke(|entry| entry.workload == *workload, now)?;
        self.tokens.remove(|_, of| of == workload);
        self.publish(now)?;
        Ok(revoked.len())
    }

    pub(super) fn reconcile(
        &mut self,
        keeps: Keeps<'_>,
        now: SystemTime,
    ) -> Result<Vec<WorkloadKey>, Error> {
        let is_void = |id: &str, workload: &WorkloadKey| !keeps(workload, id);
        let void = |entry: &Entry| is_void(entry.id.as_str(), &entry.workload);
        let mut revoked = self.ledger.revoke(void, now)?;
        let had_tokens = self.tokens.remove(is_void);
        if had_tokens || !revoked.is_empty() {
            self.publish(now)?;
        }
        revoked.sort();
        revoked.dedup();
        Ok(revoked)
    }

    pub(super) fn begin_rotation(&mut self, now: SystemTime) -> Result<Phase, Error> {
        if self.phase != Phase::Stable {
            return Err(Error::Rotating(self.phase));
        }
        let origin = Origin {
            trust_domain: &self.trust_domain,
            external: self.settings.ca.as_deref(),
        };
        self.hierarchy.add_root(origin, now)?;
        self.enter(Phase::Distributing, now)
    }

    pub(super) fn rotate_leaves(&mut self, now: SystemTime) -> Result<(), Error> {
        self.hierarchy.add_issuer(self.settings.issuer_ttl, now)?;
        self.publish(now)
    }

    pub(super) fn advance(&mut self, now: SystemTime, told: bool) -> Result<Phase, Error> {
        self.sweep(now)?;
        self.renew_issuer(now)?;
        let since = |then: SystemTime| now.duration_since(then).unwrap_or_default();
        let renewed = self.has_everybody_renewed();
        self.renewed_since = renewed.then(|| self.renewed_since.unwrap_or(now));
        let facts = Facts {
            everybody_has_the_bundle: told,
            everybody_has_renewed: renewed,
            renewed_for: self.renewed_since.map(since).unwrap_or_default(),
            phase_for: since(from_unix(self.since)),
        };
        match self.phase.next(facts) {
            phase if phase == self.phase => self.publish(now)?,
            Phase::Issuing => return self.issue_from_new_root(now),
            Phase::Retiring => return self.retire_old_root(now),
            phase => return self.enter(phase, now),
        }
        Ok(self.phase)
    }

    fn issue_from_new_root(&mut self, now: SystemTime) -> Result<Phase, Error> {
        self.hierarchy.prefer_newest_root();
        let issuing = self.hierarchy.add_issuer(self.settings.issuer_ttl, now);
        if let Err(error) = issuing {
            // Nobody issues under it, so it must not come first.
            self.hierarchy.roots.rotate_left(1);
            return Err(error);
        }
        self.enter(Phase::Issuing, now)
    }

    fn retire_old_root(&mut self, now: SystemTime) -> Result<Phase, Error> {
        self.hierarchy.drop_old_roots();
        self.enter(Phase::Retiring, now)
    }

    fn enter(&mut self, phase: Phase, now: SystemTime) -> Result<Phase, Error> {
        (self.phase, self.since) = (phase, unix(now));
        self.publish(now)?;
        self.hierarchy.clean()?;
        Ok(phase)
    }

    /// Whether nobody depends on a root but the first.
    fn has_everybody_renewed(&self) -> bool {
        let newest = self.hierarchy.roots.first().map(|root| root.serial);
        let mut entries = self.ledger.last();
        entries.all(|entry| self.hierarchy.root_of(&entry.issuer) == newest)
    }

    fn sweep(&mut self, now: SystemTime) -> Result<(), Error> {
        self.tokens.sweep(now);
        self.rate.sweep(now);
        self.ledger.sweep(now)?;
        let ledger = &self.ledger;
        self.hierarchy
            .drop_issuers(|serial| ledger.count_of(serial) > 0);
        Ok(())
    }

    fn renew_issuer(&mut self, now: SystemTime) -> Result<(), Error> {
        let validity = self.hierarchy.issuer().authority.validity();
        let due = identity::renewal::due(*validity.start(), *validity.end(), now, HALF);
        match due.is_zero() && self.hierarchy.can_renew_issuer() {
            true => self.hierarchy.add_issuer(self.settings.issuer_ttl, now),
            false => Ok(()),
        }
    }

    /// Makes the bundle that follows from the state, and saves both.
    fn publish(&mut self, now: SystemTime) -> Result<(), Error> {
        self.lists.refresh(&self.hierarchy, &self.ledger, now)?;
        self.save()?;
        let bundle = TrustBundle {
            name: BUNDLE.to_owned(),
            authorities: self.hierarchy.bundle(self.preferred()),
            revocations: self.lists.pem.clone(),
        };
        if bundle != self.bundle {
            let roots = self.store.path(ROOTS_FILE);
            replace(&roots, &self.hierarchy.roots(), 0o644)?;
            self.bundle = bundle;
            self.renew_own_bundle(now);
        }
        Ok(())
    }

    /// The root that connections are to rest on: the new one once nobody shows a certificate from
    /// the old one any more.
    fn preferred(&self) -> Serial {
        let roots = &self.hierarchy.roots;
        let preferred = match self.phase {
            Phase::Issuing => roots.last(),
            _ => roots.first(),
        };
        preferred.expect("there is at least one root").serial
    }

    pub(super) fn roots(&self) -> Roots {
        let roots = &self.hierarchy.roots;
        let oldest = match self.phase {
            Phase::Distributing => roots.first(),
            _ => roots.last(),
        };
        let oldest = oldest.expect("there is at least one root").serial;
        let (preferred, count) = (self.preferred(), roots.len());
        Roots {
            preferred,
            oldest,
            count,
        }
    }

    /// A bundle that does not fit makes new credentials at their next use.
    fn renew_own_bundle(&mut self, now: SystemTime) {
        let TrustBundle {
            authorities,
            revocations,
            ..
        } = &self.bundle;
        self.own = self.own.take().and_then(|own| {
            let told = own.with_bundle(authorities, revocations, now);
            told.ok().map(Arc::new)
        });
    }

    /// Writes the state file, unless it says the same already: this is called every second.
    fn save(&mut self) -> Result<(), Error> {
        let path = self.store.path(STATE_FILE);
        let state = State {
            version: VERSION,
            phase: self.phase,
            since: self.since,
            authorities: self.hierarchy.names(),
            lists: self.lists.clone(),
            tokens: self.tokens.clone(),
        };
        let text = serde_json::to_string_pretty(&state).map_err(|e| Error::State {
            path: path.clone(),
            reason: e.to_string(),
        })?;
        if text != self.saved {
            replace(&path, &text, 0o600)?;
            self.saved = text;
        }
        Ok(())
    }

    pub(super) fn status(&self, generation: u64, now: SystemTime) -> Status {
        let first = self.hierarchy.issuer().serial;
        let issuers = self.hierarchy.issuers.iter().map(|issuer| IssuerStatus {
            serial: issuer.serial,
            root: issuer.root,
            not_after: unix(SystemTime::from(*issuer.authority.validity().end())),
            certificates: self.ledger.count_of(&issuer.serial),
        });
        let mut tokens = self.tokens.clone();
        tokens.sweep(now);
        Status {
            trust_domain: self.trust_domain.clone(),
            phase: self.phase,
            since: self.since,
            generation,
            roots: self
                .hierarchy
                .roots
                .iter()
                .map(|root| root.serial)
                .collect(),
            issuers: issuers.collect(),
            enrolled: self.ledger.last().count(),
            to_renew: self
                .ledger
                .last()
                .filter(|entry| entry.issuer != first)
                .count(),
            revoked: self.lists.count(),
            tokens: tokens.count(),
        }
    }
}

fn read_state(store: &Store) -> Result<Option<State>, Error> {
    let path = store.path(STATE_FILE);
    let Some(text) = read(&path)? else {
        return Ok(None);
    };
    let bad = |reason: String| Error::State {
        path: path.clone(),
        reason,
    };
    let state: State = serde_json::from_str(&text).map_err(|e| bad(e.to_string()))?;
    match state.version {
        VERSION => Ok(Some(state)),
        other => Err(bad(format!("its version {other} is not {VERSION}"))),
    }
}

fn empty_bundle() -> TrustBundle {
    TrustBundle {
        name: BUNDLE.to_owned(),
        authorities: String::new(),
        revocations: String::new(),
    }
}

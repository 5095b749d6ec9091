//! The control plane's authority: a root, the intermediate that issues, tokens that prove a
//! workload once, and what was revoked. Used by `serve` and by tests through the control plane.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use identity::ca::{Authority, Chain, LEAF_TTL, Revoked, Serial};
use identity::credentials::{Credentials, Parts};
use identity::{SpiffeId, key, tls};
use rustls::ServerConfig;
use xds::grpc::{Code, Status};
use xds::proto::identity::SignResponse;

use crate::ca::TRUST_DOMAIN;

const INTERMEDIATE_TTL: Duration = Duration::from_secs(30 * 24 * 60 * 60);
const CRL_FRESH: Duration = Duration::from_secs(24 * 60 * 60);

/// How certificates are signed.
#[derive(Debug, Clone)]
pub struct Signing {
    /// From now on; they are valid since five minutes before in any case.
    pub ttl: Duration,
    /// By how much the control plane's clock is ahead.
    pub ahead: Duration,
    /// Nobody gets one.
    pub is_refused: bool,
}

pub(super) struct Mint {
    pub(super) signing: Signing,
    root: Authority,
    issuer: Authority,
    own: SpiffeId,
    /// Token → service account.
    tokens: BTreeMap<String, String>,
    token_count: usize,
    issued: Vec<(SpiffeId, Serial)>,
    revoked: Vec<Revoked>,
    /// Lists are numbered.
    list_count: u64,
}

impl Mint {
    pub(super) fn new(service_account: &str) -> Self {
        let now = SystemTime::now();
        let root = Authority::create(TRUST_DOMAIN, now).expect("an authority can be made");
        let issuer = root.intermediate(INTERMEDIATE_TTL, now);
        let own = SpiffeId::of_service_account(TRUST_DOMAIN, "leno-system", service_account);
        Self {
            signing: Signing {
                ttl: LEAF_TTL,
                ahead: Duration::ZERO,
                is_refused: false,
            },
            issuer: issuer.expect("a root vouches for an intermediate"),
            root,
            own: own.expect("tests use plain names"),
            tokens: BTreeMap::new(),
            token_count: 0,
            issued: Vec::new(),
            revoked: Vec::new(),
            list_count: 0,
        }
    }

    pub(super) fn root(&self) -> &str {
        self.root.certificate_pem()
    }

    /// Authorities, newest first, and revocations.
    pub(super) fn bundle(&self) -> (String, String) {
        let authorities = self.issuer.certificate_pem().to_owned() + self.root();
        let number = self.list_count;
        let list = || {
            self.issuer
                .revocations(&self.revoked, number, SystemTime::now(), CRL_FRESH)
                .expect("a list can be signed")
        };
        let revocations = (!self.revoked.is_empty()).then(list);
        (authorities, revocations.unwrap_or_default())
    }

    pub(super) fn rotate(&mut self) {
        let issuer = self.root.intermediate(INTERMEDIATE_TTL, SystemTime::now());
        self.issuer = issuer.expect("a root vouches for an intermediate");
        self.revoked.clear();
    }

    pub(super) fn revoke(&mut self, workload: &str) {
        let (id, at) = (id_of(workload), SystemTime::now());
        let of_it = self.issued.iter().filter(|(issued, _)| *issued == id);
        let of_it = of_it.map(|(_, serial)| Revoked {
            serial: *serial,
            at,
        });
        self.revoked.extend(of_it);
        self.list_count += 1;
    }

    pub(super) fn pardon(&mut self) {
        self.revoked.clear();
    }

    pub(super) fn token(&mut self, workload: &str) -> String {
        self.token_count += 1;
        let token = format!("one-time-{}-{}", self.token_count, std::process::id());
        self.tokens.insert(token.clone(), workload.to_owned());
        token
    }

    pub(super) fn credentials(&mut self, workload: &str) -> Credentials {
        self.issue(&id_of(workload))
    }

    /// What the control plane proves itself by, and whom it takes for one of the mesh.
    pub(super) fn server_config(&mut self) -> Arc<ServerConfig> {
        let own = self.issue(&self.own.clone());
        let config = tls::server_config_optional(&own, &[b"h2"]);
        config.expect("our own credentials are good")
    }

    fn issue(&mut self, id: &SpiffeId) -> Credentials {
        let key = key::generate().expect("a key can be made");
        let csr = key.csr(id).expect("a request can be made");
        let chain = self.issuer.sign_csr(&csr, id, LEAF_TTL, SystemTime::now());
        let chain = chain.expect("a leaf can be issued");
        self.issued.push((id.clone(), chain.serial));
        let (authorities, revocations) = self.bundle();
        let parts = Parts {
            chain: &chain.pem,
            key: &key,
            trust_bundle: &authorities,
            revocations: &revocations,
        };
        let credentials = Credentials::from_parts(&parts, TRUST_DOMAIN, SystemTime::now());
        credentials.expect("what was just issued is good")
    }

    /// Signs for whom the token or the certificate proves.
    pub(super) fn sign(
        &mut self,
        csr: &[u8],
        token: Option<&str>,
        peer: Option<&SpiffeId>,
    ) -> Result<SignResponse, Status> {
        if self.signing.is_refused {
            return Err(Status::new(Code::Unavailable, "nothing is signed today"));
        }
        let id = self.prove(token, peer)?;
        let now = SystemTime::now() + self.signing.ahead;
        let chain = self.issuer.sign_csr(csr, &id, self.signing.ttl, now);
        let chain = chain.map_err(|error| Status::new(Code::InvalidArgument, error.to_string()))?;
        self.issued.push((id, chain.serial));
        Ok(self.answer(chain))
    }

    fn prove(&mut self, token: Option<&str>, peer: Option<&SpiffeId>) -> Result<SpiffeId, Status> {
        match (token, peer) {
            (Some(token), _) => {
                let workload = self.tokens.remove(token);
                workload.as_deref().map(id_of).ok_or_else(|| {
                    Status::new(Code::Unauthenticated, "that token is unknown or was used")
                })
            }
            (None, Some(peer)) => Ok(peer.clone()),
            (None, None) => Err(Status::new(Code::Unauthenticated, "nothing proves you")),
        }
    }

    fn answer(&self, chain: Chain) -> SignResponse {
        let (trust_bundle, revocations) = self.bundle();
        SignResponse {
            not_after: chain.not_after.unix_timestamp(),
            chain: chain.pem,
            trust_bundle,
            revocations,
        }
    }
}

fn id_of(workload: &str) -> SpiffeId {
    let id = SpiffeId::of_service_account(TRUST_DOMAIN, "default", workload);
    id.expect("tests use plain names")
}

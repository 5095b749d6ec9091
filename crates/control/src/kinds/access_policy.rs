//! AccessPolicy: who may call workloads that run under a service account. Called by `kinds`.
//! Must never widen: what it does not name is not let in.

use yaml::{Fault, Fields, Node};

use super::metadata::{self, Metadata};
use super::{AccountKey, Written};

/// Who may call workloads that run under a service account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessPolicy {
    /// Whose workloads it protects.
    pub account: AccountKey,
    /// Where that was written.
    pub place: Written,
    /// Who may call them, with where that was written; nobody if it is empty.
    pub callers: Vec<(AccountKey, Written)>,
}

pub(super) fn read(spec: &Node, metadata: &Metadata) -> Result<AccessPolicy, Fault> {
    const KEYS: &[&str] = &["serviceAccount", "callers"];
    let fields = Fields::open(spec, "an AccessPolicy's spec", KEYS)?;
    let account = fields.required("serviceAccount")?;
    let callers = fields.required("callers")?.list()?;
    let caller = |node| caller(node, &metadata.namespace);
    Ok(AccessPolicy {
        account: AccountKey::new(&*metadata.namespace, metadata::subdomain(account)?),
        place: Written(account.place),
        callers: callers.iter().map(caller).collect::<Result<_, _>>()?,
    })
}

/// `namespace`: of callers that do not name one.
fn caller(node: &Node, namespace: &str) -> Result<(AccountKey, Written), Fault> {
    let fields = Fields::open(node, "a caller", &["serviceAccount", "namespace"])?;
    let name = metadata::subdomain(fields.required("serviceAccount")?)?;
    let namespace = match fields.optional("namespace") {
        Some(node) => metadata::label(node)?,
        None => namespace.to_owned(),
    };
    Ok((AccountKey::new(namespace, name), Written(node.place)))
}

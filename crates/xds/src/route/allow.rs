//! Who may call, as `envoy.config.rbac.v3.RBAC`: SPIFFE ids, exactly. Nothing else is understood,
//! since a rule that is half understood lets somebody in.

use std::collections::BTreeMap;

use crate::check;
use crate::error::Error;
use crate::place::Place;
use crate::proto::core::StringMatcher;
use crate::proto::rbac::{Authenticated, Permission, Policy, Principal, Rbac};

const ALLOW: i32 = 0;
/// The name of our policy.
const CALLERS: &str = "callers";

/// Rules that let in these, and without any nobody.
pub(crate) fn encode(ids: &[String]) -> Rbac {
    let principal = |id: &String| Principal {
        authenticated: Some(Authenticated {
            principal_name: Some(StringMatcher {
                exact: Some(id.clone()),
            }),
        }),
    };
    let mut policies = BTreeMap::new();
    if !ids.is_empty() {
        let policy = Policy {
            permissions: vec![Permission { any: Some(true) }],
            principals: ids.iter().map(principal).collect(),
        };
        policies.insert(CALLERS.to_owned(), policy);
    }
    Rbac {
        action: ALLOW,
        policies,
    }
}

/// Whom the rules let in.
pub(crate) fn decode(rules: &Rbac, at: &Place<'_>) -> Result<Vec<String>, Error> {
    if rules.action != ALLOW {
        let at = at.field("action");
        return Err(Error::invalid(&at, "rules say who may call; send ALLOW"));
    }
    let at = at.field("policies");
    let mut ids: Vec<String> = Vec::new();
    for (name, policy) in &rules.policies {
        let at = at.field(name);
        if policy.permissions.as_slice() != [Permission { any: Some(true) }] {
            let at = at.field("permissions");
            return Err(Error::invalid(
                &at,
                "rules are about callers only; send any",
            ));
        }
        for (index, principal) in policy.principals.iter().enumerate() {
            let at = at.item("principals", index);
            ids.push(decode_id(principal, &at)?);
        }
    }
    check::spiffe_ids(&ids, &at)?;
    Ok(ids)
}

fn decode_id(principal: &Principal, at: &Place<'_>) -> Result<String, Error> {
    let name = principal.authenticated.as_ref();
    let name = name.and_then(|it| it.principal_name.as_ref());
    let exact = name.and_then(|name| name.exact.clone());
    exact.ok_or_else(|| Error::invalid(at, "not a caller; send authenticated, with an exact id"))
}

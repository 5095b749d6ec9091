//! Whether a peer may use a route. Pure, on verified identities only: nothing a client can write
//! into a header is asked. Called by `request` once per request.

use crate::error::{Error, Flag, Result};
use crate::snapshot::Route;
use identity::SpiffeId;

/// Permissive routes let everyone in; others only the identities they name.
pub(crate) fn check(route: &Route, peer: Option<&SpiffeId>) -> Result<()> {
    let Some(allow) = &route.allow else {
        return Ok(());
    };
    match peer {
        Some(id) if allow.contains(id) => Ok(()),
        _ => Err(Error::new(Flag::Denied)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_route(allow: Option<&[&str]>, peer: Option<&str>) -> bool {
        let parse = |id: &&str| SpiffeId::parse(id).unwrap();
        let allow = allow.map(|ids| ids.iter().map(parse).collect());
        let route = Route {
            prefix: Box::from(*b"/"),
            exact: false,
            backends: Box::new([(0, 1)]),
            redirect: None,
            allow,
            rewrite: None,
            filters: Vec::new(),
            timeout: None,
        };
        check(&route, peer.as_ref().map(parse).as_ref()).is_ok()
    }

    #[test]
    fn only_named_identities_pass_a_closed_route() {
        let (a, b) = (
            "spiffe://cluster.local/ns/x/sa/a",
            "spiffe://cluster.local/ns/x/sa/b",
        );
        assert!(check_route(None, None));
        assert!(check_route(None, Some(a)));
        assert!(check_route(Some(&[a]), Some(a)));
        assert!(!check_route(Some(&[a]), Some(b)));
        assert!(!check_route(Some(&[a]), None));
        assert!(!check_route(Some(&[]), Some(a)));
    }
}

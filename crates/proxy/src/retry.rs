//! Whether a request may be sent again. Pure; called by `request` after an attempt failed.

use crate::error::Flag;
use crate::forward::Failed;
use crate::pool::Want;
use wire::http1::{Method, RequestHead};

/// Endpoints that one request may find unreachable before it gives up.
const ELSEWHERE_MAX: u32 = 5;

/// What may be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    Never,
    /// Nothing was sent: another endpoint may serve it.
    Elsewhere,
    /// The connection had been idle and turned out closed: over a new one.
    OnFreshConnection,
}

/// `reused`: the connection had carried a request before. `tried`: endpoints and connections tried
/// in vain.
pub(crate) fn may(failed: &Failed, reused: bool, head: &RequestHead, tried: u32) -> Again {
    let again = failed.intact && tried < ELSEWHERE_MAX;
    if failed.error.is_unsent() && again {
        return Again::Elsewhere;
    }
    // The upstream says that it has not looked at it (RFC 9113 §8.7).
    if failed.error.flag == Flag::UpstreamRefused && again {
        return Again::OnFreshConnection;
    }
    // A server that closes an idle connection has not seen the request; but that it has not can
    // only be taken for granted where seeing it twice would do no harm (RFC 9110 §9.2.2).
    let closed = failed.error.flag == Flag::UpstreamClosed && again;
    if !closed || !is_idempotent(head.method) {
        return Again::Never;
    }
    match reused {
        // Once: a request that ends its application must not end them all.
        _ if failed.error.is_behind() && tried == 0 => Again::Elsewhere,
        true if !failed.error.is_behind() => Again::OnFreshConnection,
        _ => Again::Never,
    }
}

/// Which connection the request's first attempt may use.
pub(crate) fn want(head: &RequestHead) -> Want {
    if is_idempotent(head.method) {
        Want::Any
    } else {
        Want::Open
    }
}

/// Whether it does no harm when a request with that method is seen twice (RFC 9110 §9.2.2).
pub(crate) fn is_idempotent(method: Method) -> bool {
    match method {
        Method::Get | Method::Head | Method::Put | Method::Delete => true,
        Method::Options | Method::Trace => true,
        Method::Post | Method::Patch | Method::Connect | Method::Other => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    fn check(flag: Flag, intact: bool, reused: bool, method: Method, again: Again) {
        let failed = Failed {
            error: Error::new(flag),
            intact,
        };
        let head = RequestHead {
            method,
            ..RequestHead::default()
        };
        assert_eq!(
            may(&failed, reused, &head, 0),
            again,
            "{flag:?} {intact} {reused}"
        );
    }

    #[test]
    fn what_was_not_sent_may_go_elsewhere_whatever_it_is() {
        check(
            Flag::ConnectFailed,
            true,
            false,
            Method::Post,
            Again::Elsewhere,
        );
        check(
            Flag::HandshakeFailed,
            true,
            false,
            Method::Post,
            Again::Elsewhere,
        );
        // Of its body a sidecar has had some, before it said that nobody is behind it.
        check(Flag::ConnectFailed, false, true, Method::Put, Again::Never);
        let failed = Failed {
            error: Error::new(Flag::ConnectFailed),
            intact: true,
        };
        assert_eq!(
            may(&failed, false, &RequestHead::default(), ELSEWHERE_MAX),
            Again::Never
        );
    }

    #[test]
    fn a_closed_idle_connection_is_replaced_for_idempotent_requests_only() {
        check(
            Flag::UpstreamClosed,
            true,
            true,
            Method::Get,
            Again::OnFreshConnection,
        );
        check(Flag::UpstreamClosed, true, true, Method::Post, Again::Never);
        check(Flag::UpstreamClosed, true, false, Method::Get, Again::Never);
        check(Flag::UpstreamClosed, false, true, Method::Get, Again::Never);
        check(Flag::UpstreamTimeout, true, true, Method::Get, Again::Never);
    }

    #[test]
    fn what_ended_an_application_may_go_elsewhere_once_if_idempotent() {
        let may_again = |method, tried| {
            let behind = std::io::ErrorKind::ConnectionAborted.into();
            let failed = Failed {
                error: Error::upstream(Flag::UpstreamClosed, behind),
                intact: true,
            };
            let head = RequestHead {
                method,
                ..RequestHead::default()
            };
            may(&failed, true, &head, tried)
        };
        assert_eq!(may_again(Method::Get, 0), Again::Elsewhere);
        assert_eq!(may_again(Method::Get, 1), Again::Never);
        assert_eq!(may_again(Method::Post, 0), Again::Never);
    }
}

//! How one root replaces another without a moment in which somebody trusts nobody: an enum of
//! documented states, and when each gives way to the next. Pure; the authority does what follows.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How far the replacement of the root is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// One root. Everything comes from it.
    #[default]
    Stable,
    /// Two roots are trusted; new certificates still come from the old one. Waits until every
    /// sidecar trusts both.
    Distributing,
    /// Two roots are trusted; new certificates come from the new one, and sidecars renew theirs.
    /// Waits until no sidecar depends on the old one.
    Issuing,
    /// Two roots are trusted, every certificate is from the new one, and connections that rest on
    /// others are made anew. Waits until every sidecar has heard so, and for a while.
    Reconnecting,
    /// The new root alone is trusted. Waits until every sidecar has dropped the old one.
    Retiring,
}

/// What the next step depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    /// Whether every sidecar has the trust bundle as it is now.
    pub(super) everybody_has_the_bundle: bool,
    /// Whether the last certificate of each sidecar comes from the new root, as far as it has one
    /// that is still valid.
    pub(super) everybody_has_renewed: bool,
    /// For how long that has been so.
    pub(super) renewed_for: Duration,
    /// For how long the phase has lasted.
    pub(super) phase_for: Duration,
}

/// So long after it was signed a certificate is shown, and the one before it no more.
const SHOWN_WITHIN: Duration = Duration::from_secs(3);
/// After so long connections that rest on certificates from the old root are gone: those that are
/// used after their next answer, and those that are not after the 5 seconds for which a sidecar
/// waits for that.
const RECONNECTED_WITHIN: Duration = Duration::from_secs(10);

impl Phase {
    /// The phase that follows as soon as the facts allow it; only an operator ends `Stable`.
    pub(super) fn next(self, facts: Facts) -> Self {
        let Facts {
            everybody_has_the_bundle: told,
            everybody_has_renewed: renewed,
            renewed_for,
            phase_for,
        } = facts;
        let shown = renewed && renewed_for >= SHOWN_WITHIN;
        let reconnected = phase_for >= RECONNECTED_WITHIN;
        match self {
            Self::Distributing if told => Self::Issuing,
            Self::Issuing if told && shown => Self::Reconnecting,
            Self::Reconnecting if told && reconnected => Self::Retiring,
            Self::Retiring if told => Self::Stable,
            phase => phase,
        }
    }
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Stable => "stable",
            Self::Distributing => "distributing",
            Self::Issuing => "issuing",
            Self::Reconnecting => "reconnecting",
            Self::Retiring => "retiring",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Phase::{Distributing, Issuing, Reconnecting, Retiring, Stable};

    const LONG: Duration = Duration::from_secs(60);

    fn check(phase: Phase, told: bool, renewed: bool, next: Phase) {
        check_after(phase, (told, renewed), (LONG, LONG), next);
    }

    fn check_after(
        phase: Phase,
        (told, renewed): (bool, bool),
        (renewed_for, phase_for): (Duration, Duration),
        next: Phase,
    ) {
        let facts = Facts {
            everybody_has_the_bundle: told,
            everybody_has_renewed: renewed,
            renewed_for,
            phase_for,
        };
        assert_eq!(phase.next(facts), next, "{phase} {facts:?}");
    }

    #[test]
    fn each_phase_waits_for_what_the_next_depends_on() {
        for renewed in [false, true] {
            for told in [false, true] {
                check(Stable, told, renewed, Stable);
            }
            check(Distributing, false, renewed, Distributing);
            check(Distributing, true, renewed, Issuing);
            check(Issuing, false, renewed, Issuing);
            check(Reconnecting, false, renewed, Reconnecting);
            check(Retiring, false, renewed, Retiring);
            check(Retiring, true, renewed, Stable);
        }
        check(Issuing, true, false, Issuing);
        check(Issuing, true, true, Reconnecting);
        check(Reconnecting, true, true, Retiring);
    }

    #[test]
    fn certificates_and_connections_are_given_the_time_that_they_take() {
        let all = (true, true);
        check_after(Issuing, all, (Duration::ZERO, LONG), Issuing);
        check_after(Issuing, all, (SHOWN_WITHIN, Duration::ZERO), Reconnecting);
        check_after(Reconnecting, all, (LONG, Duration::ZERO), Reconnecting);
        check_after(Reconnecting, all, (LONG, RECONNECTED_WITHIN), Retiring);
    }
}

//! How one root replaces another without a moment in which somebody trusts nobody: an enum of
//! documented states, and when each gives way to the next. Pure; the authority does what follows.

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
}

impl Phase {
    /// The phase that follows as soon as the facts allow it; only an operator ends `Stable`.
    pub(super) fn next(self, facts: Facts) -> Self {
        let Facts {
            everybody_has_the_bundle: told,
            everybody_has_renewed: renewed,
        } = facts;
        match self {
            Self::Distributing if told => Self::Issuing,
            Self::Issuing if told && renewed => Self::Retiring,
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
            Self::Retiring => "retiring",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Phase::{Distributing, Issuing, Retiring, Stable};

    fn check(phase: Phase, told: bool, renewed: bool, next: Phase) {
        let facts = Facts {
            everybody_has_the_bundle: told,
            everybody_has_renewed: renewed,
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
            check(Retiring, false, renewed, Retiring);
            check(Retiring, true, renewed, Stable);
        }
        check(Issuing, true, false, Issuing);
        check(Issuing, true, true, Retiring);
    }
}

//! The process's limit of open descriptors. Called before a run or a server opens many.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lifts the soft limit to the hard one: a thousand connections should not fail on a default.
pub(crate) fn raise_descriptors() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some() && current != maximum {
        // Refused, the old limit holds, and opening too many will say so.
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: maximum,
                maximum,
            },
        );
    }
}

//! What is wrong with the resources, in which file, where, and what to do. Made by the source, and
//! by the index as warnings. Must never be dropped: whoever gets one shows it.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::Origin;

/// More than anybody reads at once.
const SHOWN_MAX: usize = 20;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {message}; {hint}")]
pub struct Fault {
    /// Where.
    pub origin: Origin,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

impl Fault {
    /// A fault at `origin`; `hint` says what to do about it.
    pub fn new(origin: Origin, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            origin,
            message: message.into(),
            hint: hint.into(),
        }
    }

    /// A fault of the reader in `file`.
    #[must_use]
    pub fn within(file: &Arc<Path>, fault: yaml::Fault) -> Self {
        let place = yaml::Place {
            line: fault.line,
            column: fault.column,
        };
        let origin = Origin {
            file: Arc::clone(file),
            place: Some(place),
        };
        Self::new(origin, fault.message, fault.hint)
    }
}

/// All that is wrong with the resources; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults(pub Vec<Fault>);

impl std::error::Error for Faults {}

impl fmt::Display for Faults {
    /// One on a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().take(SHOWN_MAX).enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            write!(f, "{end}{fault}")?;
        }
        match self.0.len().saturating_sub(SHOWN_MAX) {
            0 => Ok(()),
            more => write!(f, "\nand {more} more; mend these first"),
        }
    }
}

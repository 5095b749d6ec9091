//! Why a resource cannot be made or cannot be taken, and where in it. A control plane reads these
//! in NACKs, so each names the field by its path and says what to do.

use crate::place::Place;

/// Why a resource was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// More bytes than any resource needs.
    #[error("{0} bytes are more than a resource may have; split it")]
    TooLarge(usize),
    /// So many messages in each other, or in all, that they are not worth their memory.
    #[error("`{0}` holds too many messages; split the resource")]
    TooMany(String),
    /// Not what protocol buffers look like.
    #[error("`{0}` is not a well-formed message; send it again")]
    Malformed(String),
    /// A field that must be understood, and is not.
    #[error("`{0}` is not supported, and is too important to be ignored; remove it")]
    Unsupported(String),
    /// A message of a type that must be understood, and is not.
    #[error("`{path}` holds the unsupported type `{type_url}`; remove it")]
    Type {
        /// The field of type `Any`.
        path: String,
        /// What is in it.
        type_url: String,
    },
    /// A field that may be there once, or of a choice the second: one would be dropped in silence.
    #[error("`{0}` is given twice, or beside what excludes it; send one")]
    Twice(String),
    /// A supported field with a value that is not.
    #[error("`{path}`: {reason}")]
    Invalid {
        /// The field.
        path: String,
        /// What is wrong with it, and what to do.
        reason: String,
    },
}

impl Error {
    pub(crate) fn unsupported(at: &Place<'_>) -> Self {
        Self::Unsupported(at.to_string())
    }

    pub(crate) fn invalid(at: &Place<'_>, reason: impl Into<String>) -> Self {
        Self::Invalid {
            path: at.to_string(),
            reason: reason.into(),
        }
    }
}

/// A value that was read, and what was left out of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded<T> {
    /// What the resource says.
    pub value: T,
    /// Fields that were there and do not matter, each path without indices, with how often.
    pub ignored: Vec<Ignored>,
}

impl<T> Decoded<T> {
    /// The same of something made from the value.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Decoded<U> {
        Decoded {
            value: make(self.value),
            ignored: self.ignored,
        }
    }
}

/// A field that was ignored, knowingly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// Without indices: `listener.filter_chains.metadata`.
    pub path: String,
    /// How many of them there were.
    pub count: usize,
}

//! What is wrong with a configuration file, where, and what to do. Made by every reader beside it.
//! Must never quote more of the file than the word at fault: lines may hold secrets one day.

use crate::node::Place;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}; {hint}")]
pub struct Fault {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

impl Fault {
    /// A fault at `place`; `hint` says what to do about it.
    pub fn new(place: Place, message: impl Into<String>, hint: impl Into<String>) -> Self {
        let Place { line, column } = place;
        Self {
            line,
            column,
            message: message.into(),
            hint: hint.into(),
        }
    }
}

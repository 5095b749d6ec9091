//! Where in a resource one is: a chain of names on the stack, written out only when something is
//! to be said about it. Used by whoever walks, checks or makes messages.

use std::fmt;

/// A field, and the fields around it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    parent: Option<&'a Self>,
    name: &'a str,
    index: Option<usize>,
}

impl<'a> Place<'a> {
    /// The outermost message, by a word of ours.
    pub(crate) const fn root(name: &'a str) -> Self {
        Self {
            parent: None,
            name,
            index: None,
        }
    }

    /// A field of the message here.
    pub(crate) const fn field(&'a self, name: &'a str) -> Self {
        Self {
            parent: Some(self),
            name,
            index: None,
        }
    }

    /// An element of a repeated field of the message here.
    pub(crate) const fn item(&'a self, name: &'a str, index: usize) -> Self {
        Self {
            parent: Some(self),
            name,
            index: Some(index),
        }
    }

    /// Without indices, for counting.
    pub(crate) fn shape(&self) -> String {
        match self.parent {
            None => self.name.to_owned(),
            Some(parent) => format!("{}.{}", parent.shape(), self.name),
        }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            write!(out, "{parent}.")?;
        }
        out.write_str(self.name)?;
        match self.index {
            Some(index) => write!(out, "[{index}]"),
            None => Ok(()),
        }
    }
}

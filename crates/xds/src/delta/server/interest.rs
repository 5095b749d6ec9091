//! What a client wants of one kind: all, or names, of which there may be resources or not.

use super::{ABSENT_BYTES_MAX, Error, NAME_BYTES_MAX};
use crate::delta::ids::{Id, IdSet};
use std::collections::BTreeSet;

#[derive(Debug, Default)]
pub(crate) struct Interest {
    pub(crate) wants_all: bool,
    /// Wanted by name, and there.
    pub(crate) wanted: IdSet,
    /// Wanted by name, and not there.
    absent: BTreeSet<String>,
    /// Length of all names in `absent`.
    absent_bytes: usize,
}

impl Interest {
    pub(crate) fn wants(&self, id: Id) -> bool {
        self.wants_all || self.wanted.contains(id)
    }

    /// How many names are wanted; `None` for all there are.
    pub(crate) fn count(&self) -> Option<usize> {
        (!self.wants_all).then(|| self.wanted.len() + self.absent.len())
    }

    /// A resource of that name is there now. Whether it is wanted.
    pub(crate) fn on_added(&mut self, id: Id, name: &str) -> bool {
        if self.forget_absent(name) {
            self.wanted.insert(id);
        }
        self.wants(id)
    }

    /// A resource is there no more. Whether it was wanted.
    pub(crate) fn on_gone(&mut self, id: Id, name: &str) -> bool {
        let was_wanted = self.wanted.remove(id);
        if was_wanted {
            self.note_absent(name);
        }
        self.wants_all || was_wanted
    }

    /// Whether it is not the same as before.
    pub(crate) fn differs(&self, before: &Self) -> bool {
        self.wants_all != before.wants_all
            || self.absent != before.absent
            || self.wanted.len() != before.wanted.len()
            || self.wanted.clone().without(&before.wanted).is_some()
    }

    pub(crate) fn is_absent(&self, name: &str) -> bool {
        self.absent.contains(name)
    }

    pub(crate) fn note_absent(&mut self, name: &str) {
        if self.absent.insert(name.to_owned()) {
            self.absent_bytes += name.len();
        }
    }

    /// Whether it was one.
    pub(crate) fn forget_absent(&mut self, name: &str) -> bool {
        let was_absent = self.absent.remove(name);
        if was_absent {
            self.absent_bytes -= name.len();
        }
        was_absent
    }

    pub(crate) const fn check(&self) -> Result<(), Error> {
        match self.absent_bytes {
            0..=ABSENT_BYTES_MAX => Ok(()),
            _ => Err(Error::TooManyNames),
        }
    }
}

pub(crate) const fn check_name(name: &str) -> Result<(), Error> {
    match name.len() {
        0..=NAME_BYTES_MAX => Ok(()),
        _ => Err(Error::NameTooLong),
    }
}

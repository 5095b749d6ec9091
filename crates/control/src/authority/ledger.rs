//! Which certificates were issued to whom, until they expire: a file that grows by a line per
//! certificate or revocation, and is written anew at start. What is not in it is not renewed, and
//! cannot be revoked, so a line is on the disk before its certificate is handed out.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use identity::SpiffeId;
use identity::ca::{Revoked, Serial};
use serde::{Deserialize, Serialize};

use crate::kinds::WorkloadKey;

use super::error::Error;
use super::holders::Holders;
use super::store::{failed, from_unix, private_file, read, replace, unix};

/// A clock may be behind by this much; only then has nobody a use for an expired certificate.
const GRACE: Duration = Duration::from_secs(5 * 60);
/// Lines that may be of no use any more before the file is written anew.
const IDLE_LINES_MAX: usize = 10_000;

/// One certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) workload: WorkloadKey,
    pub(super) id: SpiffeId,
    /// The intermediate that signed it.
    pub(super) issuer: Serial,
    /// Seconds since 1970.
    pub(super) not_after: u64,
    /// Since when, seconds since 1970.
    pub(super) revoked: Option<u64>,
}

/// The certificates that have not expired.
#[derive(Debug)]
pub(super) struct Ledger {
    path: PathBuf,
    file: File,
    /// Lines in the file; more than `entries` where some have expired.
    lines: usize,
    /// Whether the last line may not be whole, so that nothing may follow it.
    is_torn: bool,
    entries: BTreeMap<Serial, Entry>,
    /// The last certificate of each workload.
    last: BTreeMap<WorkloadKey, Serial>,
    /// Of `entries`, those that are not revoked.
    holders: Arc<Holders>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
enum Line {
    Issued {
        serial: Serial,
        namespace: String,
        name: String,
        id: String,
        issuer: Serial,
        not_after: u64,
    },
    Revoked {
        serial: Serial,
        at: u64,
    },
}

impl Ledger {
    pub(super) fn open(path: PathBuf, now: SystemTime) -> Result<Self, Error> {
        let text = read(&path)?.unwrap_or_default();
        let file = private_file()
            .append(true)
            .open(&path)
            .map_err(|reason| failed(&path, reason))?;
        let mut ledger = Self {
            path,
            file,
            lines: 0,
            is_torn: false,
            entries: BTreeMap::new(),
            last: BTreeMap::new(),
            holders: Arc::default(),
        };
        // A line without an end was being written when the power went: nobody was told of it.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for line in whole.lines() {
            ledger.read_line(line)?;
        }
        ledger.forget_expired(now);
        ledger.rewrite()?;
        Ok(ledger)
    }

    fn read_line(&mut self, text: &str) -> Result<(), Error> {
        let bad = |reason: String| Error::State {
            path: self.path.clone(),
            reason,
        };
        match serde_json::from_str(text).map_err(|e| bad(e.to_string()))? {
            Line::Issued {
                serial,
                namespace,
                name,
                id,
                issuer,
                not_after,
            } => {
                let id = SpiffeId::parse(&id).map_err(|e| bad(e.to_string()))?;
                let workload = WorkloadKey::new(namespace, name);
                let entry = Entry {
                    workload,
                    id,
                    issuer,
                    not_after,
                    revoked: None,
                };
                self.insert(serial, entry);
            }
            Line::Revoked { serial, at } => {
                self.take_back(serial, at);
            }
        }
        Ok(())
    }

    /// Remembers a certificate that is about to be handed out.
    pub(super) fn record(&mut self, serial: Serial, entry: Entry) -> Result<(), Error> {
        self.append(&[issued(serial, &entry)])?;
        self.insert(serial, entry);
        Ok(())
    }

    fn insert(&mut self, serial: Serial, entry: Entry) {
        let workload = entry.workload.clone();
        self.last.insert(workload.clone(), serial);
        self.holders.change(|holders| {
            holders.insert(serial, workload);
        });
        self.entries.insert(serial, entry);
    }

    /// Revokes what `is_void` chooses; says whose that was, once per certificate.
    pub(super) fn revoke(
        &mut self,
        is_void: impl Fn(&Entry) -> bool,
        now: SystemTime,
    ) -> Result<Vec<WorkloadKey>, Error> {
        let at = unix(now);
        let entries = self.entries.iter();
        let void: Vec<_> = entries
            .filter(|(_, entry)| entry.revoked.is_none() && is_void(entry))
            .map(|(serial, _)| *serial)
            .collect();
        let line = |serial: &Serial| Line::Revoked {
            serial: *serial,
            at,
        };
        self.append(&void.iter().map(line).collect::<Vec<_>>())?;
        let void = void.into_iter();
        Ok(void.filter_map(|it| self.take_back(it, at)).collect())
    }

    /// Says whose it was.
    fn take_back(&mut self, serial: Serial, at: u64) -> Option<WorkloadKey> {
        let entry = self.entries.get_mut(&serial)?;
        entry.revoked = Some(at);
        let mut holder = None;
        self.holders
            .change(|holders| holder = holders.remove(&serial));
        holder
    }

    /// Forgets what has expired.
    pub(super) fn sweep(&mut self, now: SystemTime) -> Result<(), Error> {
        self.forget_expired(now);
        match self.lines > 2 * self.entries.len() + IDLE_LINES_MAX {
            true => self.rewrite(),
            false => Ok(()),
        }
    }

    fn forget_expired(&mut self, now: SystemTime) {
        let now = unix(now.checked_sub(GRACE).unwrap_or(now));
        self.entries.retain(|_, entry| entry.not_after > now);
        let entries = &self.entries;
        self.last.retain(|_, serial| entries.contains_key(serial));
        self.holders
            .change(|holders| holders.retain(|serial, _| entries.contains_key(serial)));
    }

    pub(super) fn find(&self, serial: &Serial) -> Option<&Entry> {
        self.entries.get(serial)
    }

    /// Who has which certificate, now and later.
    pub(super) const fn holders(&self) -> &Arc<Holders> {
        &self.holders
    }

    /// The last certificate of each workload that still has one.
    pub(super) fn last(&self) -> impl Iterator<Item = &Entry> {
        let live = self
            .last
            .values()
            .filter_map(|serial| self.entries.get(serial));
        live.filter(|entry| entry.revoked.is_none())
    }

    /// How many certificates of an intermediate have not expired.
    pub(super) fn count_of(&self, issuer: &Serial) -> usize {
        let entries = self.entries.values();
        entries.filter(|entry| entry.issuer == *issuer).count()
    }

    /// What an intermediate has issued and taken back.
    pub(super) fn revoked_by(&self, issuer: &Serial) -> Vec<Revoked> {
        let entries = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.issuer == *issuer);
        let revoked = entries.filter_map(|(serial, entry)| {
            let at = from_unix(entry.revoked?);
            Some(Revoked {
                serial: *serial,
                at,
            })
        });
        revoked.collect()
    }

    fn append(&mut self, lines: &[Line]) -> Result<(), Error> {
        if self.is_torn {
            self.rewrite()?;
        }
        if lines.is_empty() {
            return Ok(());
        }
        let text = self.text(lines)?;
        let written = self.file.write_all(text.as_bytes());
        let written = written.and_then(|()| self.file.sync_data());
        self.is_torn = written.is_err();
        self.lines += lines.len();
        written.map_err(|reason| failed(&self.path, reason))
    }

    /// Writes only what is still of use; the last certificate of a workload after its others.
    fn rewrite(&mut self) -> Result<(), Error> {
        let is_last =
            |serial: &Serial, entry: &Entry| self.last.get(&entry.workload) == Some(serial);
        let (last, others): (Vec<_>, Vec<_>) = self
            .entries
            .iter()
            .partition(|(serial, entry)| is_last(serial, entry));
        let mut lines = Vec::new();
        for (serial, entry) in others.into_iter().chain(last) {
            lines.push(issued(*serial, entry));
            lines.extend(entry.revoked.map(|at| Line::Revoked {
                serial: *serial,
                at,
            }));
        }
        let text = self.text(&lines)?;
        replace(&self.path, &text, 0o600)?;
        let file = private_file().append(true).open(&self.path);
        self.file = file.map_err(|reason| failed(&self.path, reason))?;
        self.lines = lines.len();
        self.is_torn = false;
        Ok(())
    }

    fn text(&self, lines: &[Line]) -> Result<String, Error> {
        let mut text = String::new();
        for line in lines {
            let json = serde_json::to_string(line).map_err(|e| Error::State {
                path: self.path.clone(),
                reason: e.to_string(),
            })?;
            text.push_str(&json);
            text.push('\n');
        }
        Ok(text)
    }
}

fn issued(serial: Serial, entry: &Entry) -> Line {
    Line::Issued {
        serial,
        namespace: entry.workload.namespace.clone(),
        name: entry.workload.name.clone(),
        id: entry.id.to_string(),
        issuer: entry.issuer,
        not_after: entry.not_after,
    }
}

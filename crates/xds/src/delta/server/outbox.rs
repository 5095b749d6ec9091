//! What is to be sent of one kind, what was sent and waits for its answer, and what was refused.

use super::{Entry, View};
use crate::delta::ids::{Id, IdSet};
use crate::kind::Kind;
use crate::proto::google::Status;

/// A response ends with the resource that makes it longer than this: so many bytes at once are
/// little for a socket, and far from the most that a client takes.
pub(crate) const RESPONSE_BYTES: usize = 512 << 10;
/// Most bytes of a refusal that are kept for people to see.
const DETAIL_BYTES_MAX: usize = 512;

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// To be sent as they are then.
    pub(crate) queued: IdSet,
    /// Sent even if nothing is queued: the client waits for a first word.
    pub(crate) owes_answer: bool,
    waiting: Option<Waiting>,
    /// Sets of which something was refused, to be sent again one by one: a response is refused as a
    /// whole, whatever is wrong in it, and the rest of it must not be lost with that.
    suspects: Vec<IdSet>,
    /// The client does not use what it was sent last of these.
    pub(crate) refused: IdSet,
    pub(crate) detail: String,
}

/// A response that has not been answered.
#[derive(Debug)]
struct Waiting {
    nonce: u64,
    sent: IdSet,
}

/// How a client has answered a response.
pub(crate) enum Answer {
    Accepted,
    /// With what was sent.
    Refused(IdSet),
}

impl Outbox {
    pub(crate) fn has_new(&self) -> bool {
        self.owes_answer || !self.queued.is_empty() || !self.suspects.is_empty()
    }

    pub(crate) const fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Whether all was sent, answered and accepted.
    pub(crate) fn is_settled(&self) -> bool {
        !self.has_new() && !self.is_waiting() && self.refused.is_empty()
    }

    /// How many resources are to be sent.
    pub(crate) fn len(&self) -> usize {
        let suspected = self.suspects.iter().map(IdSet::len);
        self.queued.len() + suspected.sum::<usize>()
    }

    /// The names of what is queued.
    pub(crate) fn names<'a>(
        &'a self,
        kind: Kind,
        view: &'a impl View,
    ) -> impl Iterator<Item = &'a str> {
        let queued = self.queued.iter();
        queued.filter_map(move |id| Some(view.entry(kind, id)?.name.as_str()))
    }

    /// A response with `sent` in it goes out.
    pub(crate) fn wait(&mut self, nonce: u64, sent: IdSet) {
        debug_assert!(!self.is_waiting());
        self.owes_answer = false;
        self.waiting = Some(Waiting { nonce, sent });
    }

    /// `None` if that is no answer to the response that waits for one.
    pub(crate) fn on_answer(&mut self, nonce: &str, error: Option<&Status>) -> Option<Answer> {
        let nonce: u64 = nonce.parse().ok()?;
        let waiting = self.waiting.take_if(|waiting| waiting.nonce == nonce)?;
        if let Some(error) = error {
            let end = error.message.floor_char_boundary(DETAIL_BYTES_MAX);
            self.detail = error.message[..end].to_owned();
            return Some(Answer::Refused(waiting.sent));
        }
        self.refused.subtract(&waiting.sent);
        if self.refused.is_empty() && self.suspects.is_empty() {
            self.detail = String::new();
        }
        Some(Answer::Accepted)
    }

    /// One of `refused` was the reason: they are sent again in halves, until it is found.
    pub(crate) fn suspect(&mut self, refused: &[Id]) {
        match refused.split_at(refused.len() / 2) {
            (&[], last) => self.refused.extend(&last.iter().copied().collect()),
            (first, second) => {
                self.suspects.push(second.iter().copied().collect());
                self.suspects.push(first.iter().copied().collect());
            }
        }
    }

    /// A resource is not to be sent any more.
    pub(crate) fn forget(&mut self, id: Id) {
        self.queued.remove(id);
        self.refused.remove(id);
    }

    /// Only these are wanted from now on.
    pub(crate) fn retain(&mut self, wanted: &IdSet) {
        self.queued.intersect(wanted);
        self.refused.intersect(wanted);
    }

    /// What goes into the next response, of these if they are all that is wanted.
    pub(crate) fn take<'a>(
        &mut self,
        kind: Kind,
        view: &'a impl View,
        wanted: Option<&IdSet>,
    ) -> (IdSet, Vec<&'a Entry>) {
        let (mut sent, mut entries, mut bytes) = (IdSet::default(), Vec::new(), 0);
        let suspects = self.take_suspects(wanted);
        for id in suspects.as_ref().unwrap_or(&self.queued).iter() {
            if bytes > RESPONSE_BYTES {
                break;
            }
            sent.insert(id);
            if let Some(entry) = view.entry(kind, id) {
                bytes += entry.encoded.len();
                entries.push(entry);
            }
        }
        self.queued.subtract(&sent);
        if self.queued.is_empty() {
            self.queued.clear();
        }
        // Those that have grown since.
        self.suspects
            .extend(suspects.and_then(|rest| rest.without(&sent)));
        (sent, entries)
    }

    /// The next set of suspects, without those that are to be sent in a newer state.
    fn take_suspects(&mut self, wanted: Option<&IdSet>) -> Option<IdSet> {
        while let Some(mut suspects) = self.suspects.pop() {
            if let Some(wanted) = wanted {
                suspects.intersect(wanted);
            }
            if let Some(suspects) = suspects.without(&self.queued) {
                return Some(suspects);
            }
        }
        None
    }
}

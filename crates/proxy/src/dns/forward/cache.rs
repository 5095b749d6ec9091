//! What other name servers said, for as long as it holds and a while longer. Looked into for every
//! query that is not about the mesh. Pure; bounded by entries and by bytes.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use wire::dns::{Kept, Left, Lifetime, Question};

/// Most questions that are remembered, and most bytes that they take: a machine's applications ask
/// some hundreds, and a sidecar is promised to stay small.
pub(super) const ENTRIES_MAX: usize = 2048;
pub(super) const BYTES_MAX: usize = 512 * 1024;
/// Longer answers are given once: few are, and they would drive out many others.
const ANSWER_BYTES_MAX: usize = 8 * 1024;
/// What an entry takes beyond its question and its answer, about.
const ENTRY_BYTES: usize = size_of::<Entry>() + 64;

/// Most seconds that something, and that nothing, is remembered for, whatever its server says:
/// what is behind a name at the edge moves, and a name that was not there is soon made.
const FOUND_MAX: u32 = 3600;
const NOTHING_MAX: u32 = 300;
/// How long an answer that is over is still used while nobody gives a newer one (RFC 8767, section
/// 5 has days; a mesh would rather see an error than yesterday).
const STALE_MAX: Duration = Duration::from_secs(3600);
/// What clients may remember of such an answer (RFC 8767, section 4).
const STALE_TTL: u32 = 30;
/// How long nobody is asked again after all have failed, at the least (RFC 9520, section 3.2).
const REST: Duration = Duration::from_secs(1);

/// An answer, and how old it is.
#[derive(Clone, Debug)]
pub(in crate::dns) struct Said {
    pub(in crate::dns) kept: Arc<Kept>,
    pub(in crate::dns) left: Left,
}

impl Said {
    fn new(kept: &Arc<Kept>, age: Duration) -> Self {
        let most = match kept.lifetime() {
            Lifetime::Found(_) => FOUND_MAX,
            Lifetime::Nothing(_) | Lifetime::Unknown => NOTHING_MAX,
        };
        let age = u32::try_from(age.as_secs()).unwrap_or(u32::MAX);
        let (kept, left) = (Arc::clone(kept), Left::Fresh { most, age });
        Self { kept, left }
    }

    fn stale(kept: &Arc<Kept>) -> Self {
        let (kept, left) = (Arc::clone(kept), Left::Stale(STALE_TTL));
        Self { kept, left }
    }
}

/// What is remembered of a question.
#[derive(Clone, Debug)]
pub(super) enum Memory {
    Fresh(Said),
    /// Nobody could be asked a moment ago; at best there is an answer that is over.
    Resting(Option<Said>),
    /// To be asked; if nobody answers, there is this.
    Stale(Said),
    Nothing,
}

struct Entry {
    kept: Option<Arc<Kept>>,
    came: Instant,
    /// Until when it holds.
    until: Instant,
    /// Until when nobody is asked again.
    resting: Instant,
    bytes: usize,
    /// Since it was last thought of being dropped.
    is_used: bool,
}

/// See the head of this file.
#[derive(Default)]
pub(super) struct Cache {
    entries: HashMap<Arc<Question>, Entry>,
    /// In the order in which they may go. Invariant: the keys of `entries`, each once.
    order: VecDeque<Arc<Question>>,
    bytes: usize,
}

impl Cache {
    /// What is known of `question`.
    pub(super) fn look(&mut self, question: &Question, now: Instant) -> Memory {
        let Some(entry) = self.entries.get_mut(question) else {
            return Memory::Nothing;
        };
        entry.is_used = true;
        let kept = entry
            .kept
            .as_ref()
            .filter(|_| now < entry.until + STALE_MAX);
        match kept {
            Some(kept) if now < entry.until => Memory::Fresh(Said::new(kept, now - entry.came)),
            kept if now < entry.resting => Memory::Resting(kept.map(Said::stale)),
            Some(kept) => Memory::Stale(Said::stale(kept)),
            None => Memory::Nothing,
        }
    }

    /// Remembers an answer that came now, if that is worth it, and gives it.
    pub(super) fn keep(&mut self, question: &Question, kept: Kept, now: Instant) -> Said {
        let kept = Arc::new(kept);
        let seconds = match kept.lifetime() {
            Lifetime::Found(seconds) => seconds.min(FOUND_MAX),
            Lifetime::Nothing(seconds) => seconds.min(NOTHING_MAX),
            Lifetime::Unknown => 0,
        };
        // What holds for no moment is not what a server wants to be said later on either.
        if seconds == 0 || kept.bytes() > ANSWER_BYTES_MAX {
            self.forget(question);
        } else {
            let until = now + Duration::from_secs(seconds.into());
            self.put(question, Some(Arc::clone(&kept)), [now, until, now]);
        }
        Said::new(&kept, Duration::ZERO)
    }

    /// Remembers that nobody answered; what was answered before stays.
    pub(super) fn rest(&mut self, question: &Question, now: Instant) {
        match self.entries.get_mut(question) {
            Some(entry) => entry.resting = now + REST,
            None => self.put(question, None, [now, now, now + REST]),
        }
    }

    fn put(&mut self, question: &Question, kept: Option<Arc<Kept>>, times: [Instant; 3]) {
        let answer = kept.as_ref().map_or(0, |kept| kept.bytes());
        let bytes = ENTRY_BYTES + question.bytes() + answer;
        let [came, until, resting] = times;
        let entry = Entry {
            kept,
            came,
            until,
            resting,
            bytes,
            is_used: false,
        };
        self.bytes += bytes;
        if let Some(old) = self.entries.get_mut(question) {
            self.bytes -= std::mem::replace(old, entry).bytes;
        } else {
            let question = Arc::new(question.clone());
            self.entries.insert(Arc::clone(&question), entry);
            self.order.push_back(question);
        }
        while self.entries.len() > ENTRIES_MAX || self.bytes > BYTES_MAX {
            self.drop_one();
        }
    }

    /// Drops the oldest that was not used since it was last spared.
    fn drop_one(&mut self) {
        while let Some(question) = self.order.pop_front() {
            let entry = self.entries.get_mut(&question);
            if entry.is_some_and(|entry| std::mem::take(&mut entry.is_used)) {
                self.order.push_back(question);
                continue;
            }
            if let Some(entry) = self.entries.remove(&question) {
                self.bytes -= entry.bytes;
                return;
            }
        }
    }

    fn forget(&mut self, question: &Question) {
        if let Some(entry) = self.entries.remove(question) {
            self.bytes -= entry.bytes;
            self.order.retain(|other| **other != *question);
        }
    }

    /// Questions, and bytes.
    #[cfg(test)]
    pub(super) fn size(&self) -> (usize, usize) {
        (self.entries.len(), self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use wire::dns::{Answer, Query};

    use super::*;

    /// A question for addresses.
    fn question(name: &str) -> (Vec<u8>, Question) {
        let message = crate::dns::tests::query(name, wire::dns::Kind::A, &[]);
        let question = Question::of(&Query::parse(&message).unwrap());
        (message, question)
    }

    /// An answer to `query`: one address, and `more` bytes of something else.
    fn answer(mut query: Vec<u8>, ttl: u32, more: usize) -> Kept {
        query[2] = 0x80;
        query[7] = 2;
        for (kind, data) in [(1, vec![0; 4]), (16, vec![0; more])] {
            query.extend_from_slice(&[0xc0, 12, 0, kind, 0, 1]);
            query.extend_from_slice(&ttl.to_be_bytes());
            query.extend_from_slice(&(data.len() as u16).to_be_bytes());
            query.extend_from_slice(&data);
        }
        Kept::read(&Answer::parse(&query).unwrap()).unwrap()
    }

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// What is remembered of an answer of this time to live, after a while.
    #[track_caller]
    fn check(ttl: u32, after: u64, expected: Option<Left>) {
        let (mut cache, began) = (Cache::default(), Instant::now());
        let (message, question) = question("a.test");
        cache.keep(&question, answer(message, ttl, 0), began);
        let found = match cache.look(&question, began + seconds(after)) {
            Memory::Fresh(said) | Memory::Stale(said) => Some(said.left),
            Memory::Resting(_) => panic!("nobody failed"),
            Memory::Nothing => None,
        };
        assert_eq!(found, expected, "{ttl} {after}");
    }

    #[test]
    fn what_is_remembered_holds_and_is_stale_and_goes() {
        let fresh = |age| Some(Left::Fresh { most: 3600, age });
        check(60, 0, fresh(0));
        check(60, 59, fresh(59));
        check(60, 60, Some(Left::Stale(30)));
        check(60, 3659, Some(Left::Stale(30)));
        check(60, 3660, None);
        check(100_000, 3599, fresh(3599));
        check(100_000, 3600, Some(Left::Stale(30)));
        check(0, 0, None);
    }

    #[test]
    fn whoever_failed_is_left_alone_for_a_second() {
        let (mut cache, began) = (Cache::default(), Instant::now());
        let (message, question) = question("a.test");
        cache.rest(&question, began);
        let is_resting = |memory| matches!(memory, Memory::Resting(None));
        assert!(is_resting(cache.look(&question, began)));
        let later = began + REST;
        assert!(matches!(cache.look(&question, later), Memory::Nothing));
        cache.keep(&question, answer(message, 1, 0), later);
        let later = later + REST;
        cache.rest(&question, later);
        let memory = cache.look(&question, later);
        assert!(matches!(memory, Memory::Resting(Some(_))), "{memory:?}");
        let memory = cache.look(&question, later + REST);
        assert!(matches!(memory, Memory::Stale(_)), "{memory:?}");
    }

    #[test]
    fn memory_has_bounds_and_spares_what_is_used() {
        for more in [0, 2000] {
            let (mut cache, now) = (Cache::default(), Instant::now());
            let (message, used) = question("used.test");
            cache.keep(&used, answer(message, 60, 0), now);
            for number in 0..2 * ENTRIES_MAX {
                let (message, question) = question(&format!("a{number}.test"));
                cache.keep(&question, answer(message, 60, more), now);
                assert!(matches!(cache.look(&used, now), Memory::Fresh(_)));
                let (entries, bytes) = cache.size();
                assert!(entries <= ENTRIES_MAX && bytes <= BYTES_MAX);
                assert_eq!(entries, cache.order.len());
            }
            let (entries, bytes) = cache.size();
            assert!(entries == ENTRIES_MAX || bytes > BYTES_MAX - 4096);
            let sum: usize = cache.entries.values().map(|entry| entry.bytes).sum();
            assert_eq!(bytes, sum);
        }
    }

    #[test]
    fn a_newer_answer_takes_the_place_of_the_older() {
        let (mut cache, now) = (Cache::default(), Instant::now());
        let (message, question) = question("a.test");
        for more in [0, 100, 0] {
            cache.keep(&question, answer(message.clone(), 60, more), now);
            assert_eq!((cache.size().0, cache.order.len()), (1, 1));
        }
        let bytes = cache.size().1;
        cache.keep(
            &question,
            answer(message.clone(), 60, ANSWER_BYTES_MAX),
            now,
        );
        assert_eq!((cache.size(), cache.order.len()), ((0, 0), 0));
        cache.keep(&question, answer(message, 60, 0), now);
        assert_eq!(cache.size(), (1, bytes));
    }
}

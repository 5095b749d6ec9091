//! Gives memory back to the kernel after a storm of connections, or of news: what handshakes and
//! messages leave behind is free but scattered. Called by the quiet thread and, for their own, by
//! workers; the one file here that may call into libc.
#![allow(unsafe_code)]

/// Connections, or listeners, that must have come or gone since the last time to make it worth the
/// while.
const CHANGE_MIN: u32 = 100;

/// Decides when to give memory back.
#[derive(Default)]
pub(crate) struct Trimmer {
    last: Counts,
    at_trim: Counts,
    /// A number has been far from what it was at the last trim; that it is back, as after a storm
    /// from nothing to nothing, makes no difference.
    moved: bool,
}

/// Of connections and of listeners.
type Counts = [u32; 2];

impl Trimmer {
    /// To be called now and then with the numbers of open connections and of listeners: once one
    /// has changed much and both have come to rest, memory goes back. True when it has: each worker
    /// is then to call [`trim_end`].
    pub(crate) fn look(&mut self, now: Counts) -> bool {
        let is_far = |[one, other]: [Counts; 2], by: u32| {
            let mut pairs = one.into_iter().zip(other);
            pairs.any(|(one, other)| one.abs_diff(other) >= by)
        };
        let resting = !is_far([now, self.last], CHANGE_MIN / 10);
        self.last = now;
        self.moved |= is_far([now, self.at_trim], CHANGE_MIN);
        let due = resting && self.moved;
        if due {
            self.at_trim = now;
            self.moved = false;
            trim();
        }
        due
    }
}

/// Gives back the end of the calling thread's own heap, which `malloc_trim` joins together but
/// leaves alone: glibc looks at it when a chunk of 64 KiB or more is freed.
pub(crate) fn trim_end() {
    const CHUNK_BYTES: usize = 80 * 1024;
    drop(std::hint::black_box(Vec::<u8>::with_capacity(CHUNK_BYTES)));
}

#[cfg(target_env = "gnu")]
fn trim() {
    // Safety: `malloc_trim` has no preconditions and may be called from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(not(target_env = "gnu"))]
fn trim() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_goes_back_when_a_storm_has_come_to_rest() {
        let mut trimmer = Trimmer::default();
        for (connections, trimmed_at) in [(500, 0), (900, 0), (905, 905), (905, 905), (0, 905)] {
            trimmer.look([connections, 3]);
            assert_eq!(trimmer.at_trim[0], trimmed_at, "at {connections}");
        }
        trimmer.look([0, 3]);
        assert_eq!(trimmer.at_trim, [0, 3]);
    }

    #[test]
    fn memory_goes_back_after_much_news() {
        let mut trimmer = Trimmer::default();
        for (listeners, trimmed) in [(3, false), (600, false), (1000, false), (1000, true)] {
            assert_eq!(trimmer.look([0, listeners]), trimmed, "at {listeners}");
        }
        assert!(!trimmer.look([0, 1000]));
    }

    #[test]
    fn storm_that_never_rested_counts() {
        let mut trimmer = Trimmer::default();
        for (connections, moved) in [(500, true), (9_000, true), (0, true), (0, false)] {
            trimmer.look([connections, 0]);
            assert_eq!(trimmer.moved, moved, "at {connections}");
        }
    }
}

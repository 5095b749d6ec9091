//! The streams of a connection: places that are used again, found by id. Called by the connection.
//! Never forgets a stream that the caller holds.

use std::collections::VecDeque;

use super::event::Key;
use super::stream::{Ending, State, Stream};
use super::window::{Inbound, Outbound};

/// Ended streams that are remembered. Frames that were under way when a stream ended belong to
/// one of the last ones; a round trip sees rarely more than this many end.
const REMEMBERED: usize = 64;

/// What is known of a stream that has no place any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Past {
    /// It ended this way.
    Ended(Ending),
    /// It ended too long ago to say how.
    Forgotten,
    /// It never was: its id was skipped.
    Never,
}

/// The table.
#[derive(Debug)]
pub(super) struct Streams {
    places: Vec<Stream>,
    /// Places that nobody holds.
    free: Vec<u32>,
    /// Ids in ascending order, with their places. Ids only grow, so new ones go to the back.
    ids: VecDeque<(u32, u32)>,
    /// Streams that are not closed.
    live: usize,
    /// The last ones that ended, in a ring.
    past: [(u32, Ending); REMEMBERED],
    past_at: usize,
    /// The highest id that fell out of the ring.
    forgotten: u32,
}

impl Streams {
    pub(super) fn new() -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
            ids: VecDeque::new(),
            live: 0,
            past: [(0, Ending::Complete); REMEMBERED],
            past_at: 0,
            forgotten: 0,
        }
    }

    /// Streams that are not closed.
    #[inline]
    pub(super) fn live(&self) -> usize {
        self.live
    }

    /// Places that somebody holds, be their streams closed or not.
    #[inline]
    pub(super) fn held(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Gives a stream a place. Invariant: its id is zero, or above all before.
    pub(super) fn insert(&mut self, stream: Stream) -> Key {
        self.live += usize::from(!stream.state.is_closed());
        let place = match self.free.pop() {
            Some(place) => {
                self.places[place as usize] = stream;
                place
            }
            None => {
                self.places.push(stream);
                self.places.len() as u32 - 1
            }
        };
        if stream.id != 0 {
            self.ids.push_back((stream.id, place));
        }
        Key(place)
    }

    /// An idle stream gets its id, above all before, and becomes open.
    pub(super) fn begin(&mut self, key: Key, id: u32) {
        let stream = &mut self.places[key.index()];
        (stream.id, stream.state) = (id, State::Open);
        self.ids.push_back((id, key.0));
    }

    /// The stream at `key`; its keys are ours, so it is there.
    #[inline]
    pub(super) fn of(&self, key: Key) -> &Stream {
        &self.places[key.index()]
    }

    /// Likewise. The state is changed by `step` alone.
    #[inline]
    pub(super) fn of_mut(&mut self, key: Key) -> &mut Stream {
        &mut self.places[key.index()]
    }

    /// The place of the stream with this id, if it has one.
    #[inline]
    pub(super) fn find(&self, id: u32) -> Option<Key> {
        let at = self.at(id)?;
        Some(Key(self.ids[at].1))
    }

    fn at(&self, id: u32) -> Option<usize> {
        self.ids.binary_search_by_key(&id, |(id, _)| *id).ok()
    }

    /// Changes the state of a stream.
    #[inline]
    pub(super) fn step(&mut self, key: Key, step: impl FnOnce(State) -> State) {
        let stream = &mut self.places[key.index()];
        let before = stream.state;
        stream.state = step(before);
        if let (false, State::Closed(ending)) = (before.is_closed(), stream.state) {
            let id = stream.id;
            self.live -= 1;
            self.remember(id, ending);
        }
    }

    /// Takes note of a stream that ended, or that never got a place.
    pub(super) fn remember(&mut self, id: u32, ending: Ending) {
        if id == 0 {
            return;
        }
        let place = &mut self.past[self.past_at];
        self.forgotten = self.forgotten.max(place.0);
        *place = (id, ending);
        self.past_at = (self.past_at + 1) % REMEMBERED;
    }

    /// What became of a stream that has no place.
    pub(super) fn past(&self, id: u32) -> Past {
        match self.past.iter().find(|past| past.0 == id) {
            Some((_, ending)) => Past::Ended(*ending),
            None if id <= self.forgotten => Past::Forgotten,
            None => Past::Never,
        }
    }

    /// Frees the place. Invariant: the stream is closed.
    pub(super) fn release(&mut self, key: Key) {
        let id = self.of(key).id;
        let at = if id == 0 { None } else { self.at(id) };
        if let Some(at) = at {
            self.ids.remove(at);
        }
        let (outbound, inbound) = (Outbound::default(), Inbound::default());
        let nobody = State::Closed(Ending::Complete);
        *self.of_mut(key) = Stream::new(0, nobody, outbound, inbound);
        debug_assert!(!self.free.contains(&key.0), "released twice");
        self.free.push(key.0);
    }

    /// The streams that are not closed.
    pub(super) fn live_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        let places = self.places.iter_mut();
        places.filter(|stream| !stream.state.is_closed())
    }

    /// A stream that is not closed and has no id yet or one above `last`.
    pub(super) fn beyond(&self, last: u32) -> Option<Key> {
        let beyond =
            |stream: &Stream| !stream.state.is_closed() && (stream.id == 0 || stream.id > last);
        let place = self.places.iter().position(beyond)?;
        Some(Key(place as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(id: u32) -> Stream {
        Stream::new(id, State::Open, Outbound::new(1), Inbound::new(1, 1))
    }

    fn close(streams: &mut Streams, key: Key, ending: Ending) {
        streams.step(key, |state| state.reset(ending));
        streams.release(key);
    }

    #[test]
    fn places_are_used_again() {
        let mut streams = Streams::new();
        let (a, b) = (streams.insert(stream(1)), streams.insert(stream(3)));
        assert_eq!((streams.live(), streams.find(3)), (2, Some(b)));
        close(&mut streams, a, Ending::ResetByUs);
        assert_eq!(
            (streams.find(1), streams.live(), streams.held()),
            (None, 1, 1)
        );
        let c = streams.insert(stream(5));
        assert_eq!((c, streams.find(5)), (a, Some(a)));
    }

    #[test]
    fn the_last_endings_are_remembered() {
        let mut streams = Streams::new();
        for id in (1..=2 * REMEMBERED as u32 + 1).step_by(2) {
            let key = streams.insert(stream(id));
            close(&mut streams, key, Ending::ResetByPeer);
        }
        assert_eq!(streams.past(1), Past::Forgotten);
        assert_eq!(streams.past(3), Past::Ended(Ending::ResetByPeer));
        assert_eq!(streams.past(1001), Past::Never);
    }
}

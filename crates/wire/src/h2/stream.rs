//! One stream: its state (RFC 9113, section 5.1), its windows and what its messages promised. Held
//! by the table of streams; never knows another stream.

use super::window::{Inbound, Outbound};
use crate::http1::Method;

/// How a stream became closed, which decides what late frames on it mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Both sides sent END_STREAM: later frames are the peer's error.
    Complete,
    /// The peer reset it: likewise.
    ResetByPeer,
    /// We reset it: the peer may not have seen that yet, so later frames are ignored.
    ResetByUs,
}

/// The states of section 5.1, but for the reserved ones: we neither push nor take pushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The caller has its place; no head was sent, so it has no id yet.
    Idle,
    /// Both sides may send.
    Open,
    /// We have sent our last frame.
    HalfClosedLocal,
    /// The peer has sent its last frame.
    HalfClosedRemote,
    /// Nobody may send.
    Closed(Ending),
}

impl State {
    /// We sent END_STREAM.
    #[inline]
    pub(super) fn end_local(self) -> Self {
        match self {
            Self::Open => Self::HalfClosedLocal,
            Self::HalfClosedRemote => Self::Closed(Ending::Complete),
            other => other,
        }
    }

    /// The peer sent END_STREAM.
    #[inline]
    pub(super) fn end_remote(self) -> Self {
        match self {
            Self::Open => Self::HalfClosedRemote,
            Self::HalfClosedLocal => Self::Closed(Ending::Complete),
            other => other,
        }
    }

    /// A RST_STREAM was sent or came. What is closed stays as it is.
    pub(super) fn reset(self, ending: Ending) -> Self {
        match self {
            Self::Closed(_) => self,
            _ => Self::Closed(ending),
        }
    }

    /// Whether we may send a head, data or trailers; the request's head of an idle one is apart.
    #[inline]
    pub(super) fn may_send(self) -> bool {
        matches!(self, Self::Open | Self::HalfClosedRemote)
    }

    /// Whether the peer may.
    #[inline]
    pub(super) fn may_receive(self) -> bool {
        matches!(self, Self::Open | Self::HalfClosedLocal)
    }

    /// Whether it is over.
    #[inline]
    pub(super) fn is_closed(self) -> bool {
        matches!(self, Self::Closed(_))
    }
}

/// A stream and all that is known of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    /// Zero while it is idle.
    pub(super) id: u32,
    pub(super) state: State,
    pub(super) outbound: Outbound,
    pub(super) inbound: Inbound,
    /// Bytes of DATA that the content-length of the message we receive still promises.
    pub(super) promised: Option<u64>,
    /// Of the request; a response's end depends on it.
    pub(super) method: Method,
    /// The request is a CONNECT: DATA after an answer of 2xx is no body.
    pub(super) tunnel: bool,
    /// The final head of the peer's message came; what follows is DATA or trailers.
    pub(super) head_came: bool,
    /// We have sent the final head of the response.
    pub(super) answered: bool,
}

impl Stream {
    /// A stream without a head yet.
    pub(super) fn new(id: u32, state: State, outbound: Outbound, inbound: Inbound) -> Self {
        Self {
            id,
            state,
            outbound,
            inbound,
            promised: None,
            method: Method::Other,
            tunnel: false,
            head_came: false,
            answered: false,
        }
    }

    /// Takes note of `count` bytes of payload, the last ones if `end`: whether they keep what the
    /// content-length promised (section 8.1.1).
    #[inline]
    pub(super) fn keeps_promise(&mut self, count: usize, end: bool) -> bool {
        let Some(promised) = self.promised else {
            return true;
        };
        let left = promised.checked_sub(count as u64);
        self.promised = left;
        matches!((left, end), (Some(0), true) | (Some(_), false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [State; 5] = [
        State::Idle,
        State::Open,
        State::HalfClosedLocal,
        State::HalfClosedRemote,
        State::Closed(Ending::Complete),
    ];

    #[track_caller]
    fn check(step: fn(State) -> State, expected: [State; 5]) {
        assert_eq!(ALL.map(step), expected);
    }

    #[test]
    fn states_follow_the_diagram() {
        use State::{Closed, HalfClosedLocal, HalfClosedRemote, Idle};
        let complete = Closed(Ending::Complete);
        let local = [Idle, HalfClosedLocal, HalfClosedLocal, complete, complete];
        check(State::end_local, local);
        let remote = [Idle, HalfClosedRemote, complete, HalfClosedRemote, complete];
        check(State::end_remote, remote);
        let reset = Closed(Ending::ResetByUs);
        check(
            |state| state.reset(Ending::ResetByUs),
            [reset, reset, reset, reset, complete],
        );
    }

    #[test]
    fn a_promise_is_kept_exactly() {
        let kept = |promised, parts: &[(usize, bool)]| {
            let windows = (Outbound::default(), Inbound::default());
            let mut stream = Stream::new(1, State::Open, windows.0, windows.1);
            stream.promised = promised;
            parts
                .iter()
                .all(|(count, end)| stream.keeps_promise(*count, *end))
        };
        assert!(kept(None, &[(7, false), (0, true)]));
        assert!(kept(Some(5), &[(2, false), (3, true)]));
        assert!(kept(Some(5), &[(5, false), (0, true)]));
        assert!(kept(Some(0), &[(0, true)]));
        assert!(!kept(Some(5), &[(2, false), (2, true)]));
        assert!(!kept(Some(5), &[(6, false)]));
    }
}

//! Bytes both ways between two streams until both ways have ended: two pumps, and what one needs to
//! know of the other. Called by `tcp`. Must never look into what it carries.

use crate::body::{self, Flow, Side, Sink, Source, pump};
use crate::buffer::Inbox;
use crate::error::{Flag, Result};
use crate::stream::Stream;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use wire::http1::{Body, Framing};

/// One of the two streams, with what was read of it already.
pub(crate) struct End<'a> {
    pub(crate) stream: &'a Stream,
    pub(crate) inbox: &'a mut Inbox,
}

/// What has moved is told at most this often before the end, which may be days away.
const TELL_PERIOD_MS: u64 = 1000;

/// How long nothing may move; zero: for ever.
#[derive(Clone, Copy)]
pub(crate) struct Patience {
    pub(crate) idle: Duration,
    /// The same once one way has ended.
    pub(crate) half_closed: Duration,
    /// When all has to be over, in ms of the reactor's clock.
    pub(crate) until_ms: u64,
}

/// Bytes that were moved, there to be read however the relay ends.
pub(crate) struct Tally {
    up: Body,
    down: Body,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            up: Body::new(Framing::UntilClose),
            down: Body::new(Framing::UntilClose),
        }
    }
}

impl Tally {
    /// Bytes from downstream to upstream.
    pub(crate) fn up(&self) -> u64 {
        self.up.payload_bytes()
    }

    pub(crate) fn down(&self) -> u64 {
        self.down.payload_bytes()
    }
}

/// Which ways have ended: from downstream, from upstream.
type Ended = [bool; 2];

/// Moves bytes until each side has ended its direction, and passes those ends on one by one; calls
/// `tell` now and then with what has moved so far. Where a side fails, the other is reset when it
/// is dropped, so that it does not take a part for the whole.
///
/// # Errors
/// Of the side that broke, and `StreamIdle` when nothing moved, or it lasted, for too long.
pub(crate) async fn relay(
    mut down: End<'_>,
    mut up: End<'_>,
    patience: Patience,
    (tally, mut tell): (&mut Tally, impl FnMut(&Tally)),
) -> Result<()> {
    let mut ended = [false; 2];
    let reactor = Rc::clone(down.stream.tcp.reactor());
    let (mut progress, mut progress_ms) = ((ended, 0), reactor.now_ms());
    while ended != [true; 2] {
        tell(tally);
        let (reached, now_ms) = ((ended, tally.up() + tally.down()), reactor.now_ms());
        if reached != progress {
            (progress, progress_ms) = (reached, now_ms);
        }
        let idle = match ended {
            [false, false] => patience.idle,
            _ => patience.half_closed,
        };
        // Whoever was woken for something else, a change of the mesh perhaps, has still not moved.
        let idle = left(idle, now_ms - progress_ms);
        let until_ms = patience.until_ms;
        let patience = body::Patience { idle, until_ms };
        let moved = move_until_one_ends((&mut down, &mut up), patience, tally, &mut ended).await;
        if let Err(error) = moved {
            let expired = error.flag == Flag::StreamIdle && down.stream.tcp.reactor().is_expired();
            give_up(down.stream, ended[1], expired);
            give_up(up.stream, ended[0], expired);
            return Err(error);
        }
    }
    Ok(())
}

/// What is left of a limit (zero: none) of which so much is over.
fn left(limit: Duration, over_ms: u64) -> Duration {
    match limit {
        Duration::ZERO => Duration::ZERO,
        limit => limit
            .saturating_sub(Duration::from_millis(over_ms))
            .max(Duration::from_millis(1)),
    }
}

/// Both ways, as far as they have not ended, until one more has, or it is time to tell of it.
async fn move_until_one_ends(
    (down, up): (&mut End<'_>, &mut End<'_>),
    patience: body::Patience,
    tally: &mut Tally,
    ended: &mut Ended,
) -> Result<()> {
    let (down_stream, up_stream) = (down.stream, up.stream);
    let there = Flow {
        from: Source::Http1 {
            stream: down_stream,
            inbox: down.inbox,
            body: &mut tally.up,
        },
        into: Sink::Tunnel(up_stream),
        side: Side::Request,
        patience,
        trailers: Vec::new(),
        length: None,
    };
    let back = Flow {
        from: Source::Http1 {
            stream: up_stream,
            inbox: up.inbox,
            body: &mut tally.down,
        },
        into: Sink::Tunnel(down_stream),
        side: Side::Answer,
        patience,
        trailers: Vec::new(),
        length: None,
    };
    let (mut there, mut back) = (pin!(pump(there)), pin!(pump(back)));
    let reactor = down_stream.tcp.reactor();
    let due_ms = reactor.now_ms() + TELL_PERIOD_MS;
    poll_fn(|context| {
        let before = *ended;
        // The way back first: what an upstream says before it goes is not to be lost.
        if !ended[1]
            && let Poll::Ready(result) = back.as_mut().poll(context)
        {
            result?;
            ended[1] = true;
        }
        if !ended[0]
            && let Poll::Ready(result) = there.as_mut().poll(context)
        {
            result?;
            ended[0] = true;
        }
        // No clock runs for it: who moves nothing has nothing to tell.
        match before == *ended && reactor.now_ms() < due_ms {
            true => Poll::Pending,
            false => Poll::Ready(Ok(())),
        }
    })
    .await
}

/// Has a receiver that was not `told` the end notice that there is none. One that merely waited too
/// long has everything: that is an end like any other.
fn give_up(receiver: &Stream, told: bool, expired: bool) {
    match told {
        true => {}
        false if expired && receiver.has_sent() => receiver.finish(),
        false => receiver.tcp.abort_on_close(),
    }
}

#[cfg(test)]
mod tests;

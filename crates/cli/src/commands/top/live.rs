//! The table that goes on: one thread looks at the mesh, this one shows what it saw and reads keys,
//! so that a sidecar that does not answer holds up no key.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::anyhow;
use local::name::MeshName;

use super::screen::{self, Order, View};
use super::terminal::{Event, Terminal};
use super::{Eye, Frame};
use crate::output::{self, Screen};

/// After which the keys are left to look whether there is something new to show.
const GLANCE: Duration = Duration::from_millis(50);

pub(super) fn run(
    base: &Path,
    name: &MeshName,
    interval: Duration,
    order: Order,
) -> anyhow::Result<()> {
    let (frames, seen) = channel();
    let (stop, stopped) = channel();
    let mut eye = Eye::new(base, name);
    // Nobody waits for it: at the end it may be asking one that does not answer.
    thread::Builder::new()
        .name("look".into())
        .spawn(move || keep_looking(&mut eye, interval, &frames, &stopped))?;
    let mut view = View {
        mesh: name.to_string(),
        order,
        identities: false,
        frame: None,
    };
    let outcome = show(&mut view, &seen);
    drop(stop);
    outcome
}

fn keep_looking(
    eye: &mut Eye,
    interval: Duration,
    frames: &Sender<anyhow::Result<Frame>>,
    stopped: &Receiver<()>,
) {
    loop {
        let frame = eye.look();
        let is_over = frame.is_err();
        if frames.send(frame).is_err() || is_over {
            return;
        }
        if stopped.recv_timeout(interval) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

fn show(view: &mut View, seen: &Receiver<anyhow::Result<Frame>>) -> anyhow::Result<()> {
    let terminal = Terminal::take()?;
    let mut is_new = true;
    // The first look has nothing to compare with.
    let mut looks = 0;
    loop {
        if let Some(frame) = seen.try_iter().last() {
            looks += 1;
            view.frame = Some(frame.map_err(|error| anyhow!("{error:#}"))?).filter(|_| looks > 1);
            is_new = true;
        }
        if is_new {
            let (columns, rows) = output::size().unwrap_or((80, 24));
            let on = Screen {
                width: Some(columns),
                ..Screen::of_stdout()
            };
            terminal.show(&screen::lines(view, on, rows))?;
        }
        match terminal.wait(GLANCE)? {
            Event::End => return Ok(()),
            Event::Key('q' | 'Q' | '\u{3}') => return Ok(()),
            Event::Key(key) => is_new = view.press(key),
            Event::Resized => is_new = true,
            Event::Quiet => is_new = false,
        }
    }
}

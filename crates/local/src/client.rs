//! The other side of the supervisor's desk: one request, and what comes of it. Called by the
//! commands. Must never take silence for an answer.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;

use anyhow::{Context, bail};

use crate::folder::Folder;
use crate::supervisor::desk::{Event, Request};

/// A supervisor that listens.
pub(crate) struct Desk(UnixStream);

/// It ended while it was asked.
#[derive(Debug, thiserror::Error)]
#[error("the supervisor ended: see `leno ps`")]
pub(crate) struct Gone;

/// Who is not ready, though the time is over.
#[derive(Debug, thiserror::Error)]
#[error("not everything is ready, and the mesh stays up as it is:{0}")]
pub(crate) struct NotReady(String);

impl Desk {
    /// That of the mesh; none when nobody keeps it.
    ///
    /// # Errors
    /// When somebody is there and we may not ask.
    pub(crate) fn find(folder: &Folder) -> anyhow::Result<Option<Self>> {
        let path = folder.desk();
        match UnixStream::connect(&path) {
            Ok(stream) => Ok(Some(Self(stream))),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::NotFound | ErrorKind::ConnectionRefused
                ) =>
            {
                Ok(None)
            }
            Err(error) => {
                Err(error).with_context(|| format!("ask the supervisor at {}", path.display()))
            }
        }
    }

    /// Asks, tells `show` how it goes, and returns when it is done.
    ///
    /// # Errors
    /// Why it was not done, or who is not ready.
    pub(crate) fn ask(
        mut self,
        request: &Request,
        show: &mut dyn FnMut(&Event),
    ) -> anyhow::Result<()> {
        let text = serde_json::to_string(request)? + "\n";
        // Who does not read to the end says why.
        let _ = self.0.write_all(text.as_bytes());
        for line in BufReader::new(self.0).lines() {
            let Ok(line) = line else { break };
            let event =
                serde_json::from_str(&line).context("the supervisor says something else")?;
            show(&event);
            match event {
                Event::Said { .. } | Event::Instance { .. } => {}
                Event::Done => return Ok(()),
                Event::Failed { message } => bail!("{message}"),
                Event::Late { missing } => {
                    let lines = missing.iter();
                    let lines = lines.map(|(id, why)| format!("\n  {id}: {why}"));
                    return Err(NotReady(lines.collect()).into());
                }
            }
        }
        Err(Gone.into())
    }
}

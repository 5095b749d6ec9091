//! The side of the proxy that serves: answers successors, one at a time, and asks the quiet thread
//! for what they need. A successor that fails, or takes too long, changes nothing.

use super::message::{Line, VERSION};
use super::parcel::{Inbox, Outbox};
use super::{ANSWER_TIMEOUT, Handed, READY_TIMEOUT};
use crate::log;
use anyhow::{Context, bail};
use rustix::net::sockopt::socket_peercred;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// After a failed accept (no descriptors left): time for others to give some back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// For a refusal, which fits into any buffer.
const REFUSE_TIMEOUT: Duration = Duration::from_secs(1);

/// What a successor needs of the quiet thread.
pub(crate) enum Request {
    /// Copies of all sockets, once nothing is written any more that it reads; or why there are
    /// none.
    Give(oneshot::Sender<Result<Vec<Handed>, String>>),
    /// It can serve: pages and names are to come from it alone from now on.
    Rest(oneshot::Sender<()>),
    /// Nothing came of it: everything is as before.
    Resume,
    /// It serves.
    Leave,
}

/// Serves until dropped.
pub(crate) async fn serve(listener: UnixListener, requests: mpsc::Sender<Request>) {
    serve_within(READY_TIMEOUT, listener, requests).await;
}

async fn serve_within(limit: Duration, listener: UnixListener, requests: mpsc::Sender<Request>) {
    let place = Arc::new(Semaphore::new(1));
    let mut successors = JoinSet::new();
    loop {
        let connection = match listener.accept().await {
            Ok((connection, _)) => connection,
            Err(error) => {
                log::warn(format_args!("handover: cannot accept: {error}"));
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (place, requests) = (Arc::clone(&place).try_acquire_owned(), requests.clone());
        successors.spawn(async move {
            match place {
                Ok(_place) => attend(connection, requests, limit).await,
                Err(_) => refuse(&connection, "another one is taking over").await,
            }
        });
        while successors.try_join_next().is_some() {}
    }
}

/// One successor, from its question to its end or ours.
async fn attend(connection: UnixStream, requests: mpsc::Sender<Request>, limit: Duration) {
    let mut successor = match Successor::meet(connection).await {
        Ok(successor) => successor,
        Err(error) => return log::warn(format_args!("handover refused: {error:#}")),
    };
    let pid = successor.pid;
    let sockets = match ask(&requests).await {
        Ok(sockets) => sockets,
        Err(why) => {
            log::warn(format_args!("handover to process {pid}: {why}"));
            return refuse(&successor.connection, &why).await;
        }
    };
    log::info(format_args!("handing over to process {pid}"));
    let request = match successor.see_off(sockets, &requests, limit).await {
        Ok(()) => Request::Leave,
        Err(error) => {
            let why = format!("{error:#}");
            log::error(format_args!("process {pid} does not take over: {why}"));
            refuse(&successor.connection, &why).await;
            Request::Resume
        }
    };
    // Gone only when everything ends.
    let _ = requests.send(request).await;
}

async fn ask(requests: &mpsc::Sender<Request>) -> Result<Vec<Handed>, String> {
    let (answer, answered) = oneshot::channel();
    // Gone only when everything ends.
    let _ = requests.send(Request::Give(answer)).await;
    let ends = |_| Err("it ends itself".to_owned());
    answered.await.unwrap_or_else(ends)
}

async fn refuse(connection: &UnixStream, why: &str) {
    let line = Line::Refuse {
        why: why.to_owned(),
    };
    let refusal = say(connection, &line, &[]);
    // Who is not told sees the end.
    timeout(REFUSE_TIMEOUT, refusal).await.ok();
}

/// Somebody of this user who asks for the sockets.
struct Successor {
    connection: UnixStream,
    inbox: Inbox,
    pid: i32,
}

impl Successor {
    /// Hears who it is and what it wants.
    async fn meet(connection: UnixStream) -> anyhow::Result<Self> {
        let peer = socket_peercred(&connection)?;
        let (pid, uid) = (peer.pid.as_raw_nonzero(), peer.uid.as_raw());
        anyhow::ensure!(
            peer.uid == rustix::process::geteuid(),
            "process {pid} is of user {uid}; start it as this one"
        );
        let mut successor = Self {
            connection,
            inbox: Inbox::default(),
            pid: pid.get(),
        };
        let heard = timeout(ANSWER_TIMEOUT, successor.hear()).await;
        match heard.with_context(|| format!("process {pid} says nothing"))?? {
            Line::Take { version: VERSION } => Ok(successor),
            other => {
                let why = format!("version {VERSION} is spoken here, not {other:?}");
                refuse(&successor.connection, &why).await;
                bail!("process {pid}: {why}")
            }
        }
    }

    /// Gives it the sockets, waits until it can serve, and has it begin.
    async fn see_off(
        &mut self,
        sockets: Vec<Handed>,
        requests: &mpsc::Sender<Request>,
        limit: Duration,
    ) -> anyhow::Result<()> {
        let given = sockets
            .into_iter()
            .map(|handed| (handed.description, handed.fd));
        let (sockets, fds): (_, Vec<OwnedFd>) = given.unzip();
        let line = Line::Give { sockets };
        let said = timeout(ANSWER_TIMEOUT, say(&self.connection, &line, &fds)).await;
        said.context("it does not take the sockets")??;
        drop(fds);
        let heard = timeout(limit, self.hear()).await;
        match heard.with_context(|| format!("it was not ready within {} s", limit.as_secs()))?? {
            Line::Ready => {}
            other => bail!("it says {other:?}"),
        }
        let (rest, rests) = oneshot::channel();
        // Gone only when everything ends.
        let _ = requests.send(Request::Rest(rest)).await;
        rests.await.context("this process ends")?;
        say(&self.connection, &Line::Go, &[]).await
    }

    async fn hear(&mut self) -> anyhow::Result<Line> {
        loop {
            if let Some(line) = self.inbox.line()? {
                return Ok(line);
            }
            let fill = || self.inbox.fill(self.connection.as_fd());
            let filled = self.connection.async_io(Interest::READABLE, fill).await?;
            anyhow::ensure!(filled, "it ended before it was ready");
        }
    }
}

async fn say(connection: &UnixStream, line: &Line, fds: &[OwnedFd]) -> anyhow::Result<()> {
    let mut outbox = Outbox::new(line, fds)?;
    loop {
        let flush = || outbox.flush(connection.as_fd());
        if connection.async_io(Interest::WRITABLE, flush).await? {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::{Description, Role};
    use super::super::take;
    use super::*;
    use std::net::TcpListener;
    use std::path::PathBuf;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    struct World {
        dir: tempfile::TempDir,
        requests: mpsc::Receiver<Request>,
    }

    impl World {
        fn start(limit: Duration) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let listener = UnixListener::bind(dir.path().join("handover")).unwrap();
            let (sender, requests) = mpsc::channel(1);
            tokio::spawn(serve_within(limit, listener, sender));
            Self { dir, requests }
        }

        fn path(&self) -> PathBuf {
            self.dir.path().join("handover")
        }

        /// Answers the next question with `count` sockets.
        async fn give(&mut self, count: u16) {
            let Some(Request::Give(answer)) = self.requests.recv().await else {
                panic!("it is not asked")
            };
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let asked = listener.local_addr().unwrap();
            let handed = (0..count).map(|number| Handed {
                description: Description {
                    role: Role::Listener,
                    name: format!("listener-{number}"),
                    asked,
                },
                fd: listener.try_clone().unwrap().into(),
            });
            assert!(answer.send(Ok(handed.collect())).is_ok());
        }
    }

    /// More than one message can carry.
    #[tokio::test]
    async fn all_sockets_arrive_in_order() {
        const COUNT: u16 = 300;
        let mut world = World::start(READY_TIMEOUT);
        let path = world.path();
        let successor = tokio::task::spawn_blocking(move || {
            let (predecessor, handed) = take(&path).unwrap().unwrap();
            for (number, one) in handed.into_iter().enumerate() {
                assert_eq!(one.description.name, format!("listener-{number}"));
                let addr = TcpListener::from(one.fd).local_addr().unwrap();
                assert_eq!(addr, one.description.asked);
                assert!(number < COUNT.into());
            }
            predecessor.relieve().unwrap();
        });
        world.give(COUNT).await;
        let Some(Request::Rest(rest)) = world.requests.recv().await else {
            panic!("it is told to go on its own")
        };
        rest.send(()).unwrap();
        assert!(matches!(world.requests.recv().await, Some(Request::Leave)));
        successor.await.unwrap();
    }

    #[tokio::test]
    async fn successor_that_takes_too_long_is_told_so() {
        let mut world = World::start(Duration::from_millis(1));
        let path = world.path();
        let successor = tokio::spawn(async {
            let mut stream = UnixStream::connect(path).await.unwrap();
            let take = Line::Take { version: VERSION }.encode().unwrap();
            stream.write_all(&take).await.unwrap();
            let mut said = String::new();
            stream.read_to_string(&mut said).await.unwrap();
            said
        });
        world.give(1).await;
        assert!(matches!(world.requests.recv().await, Some(Request::Resume)));
        let said = successor.await.unwrap();
        assert!(said.contains("it was not ready within"), "{said}");
    }

    #[tokio::test]
    async fn why_nothing_is_given_is_said() {
        let mut world = World::start(READY_TIMEOUT);
        let path = world.path();
        let successor = tokio::task::spawn_blocking(move || take(&path).err().unwrap());
        let Some(Request::Give(answer)) = world.requests.recv().await else {
            panic!("it is not asked")
        };
        assert!(answer.send(Err("the disk is full".to_owned())).is_ok());
        let error = successor.await.unwrap().to_string();
        assert!(error.ends_with("refuses: the disk is full"), "{error}");
    }
}

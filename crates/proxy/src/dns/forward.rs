//! Names that are not of the mesh: what other name servers say of them. Called by the name server
//! for each such query, first for what is remembered. Asks once, however many wait for the same;
//! never asks more questions at a time than its limit, nor for longer than a client waits.

mod cache;
mod exchange;
mod servers;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::Dns;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use wire::dns::{Kept, Question};

pub(super) use cache::Said;

use super::answer::Transport;
use crate::log;
use crate::telemetry::metrics::{DnsCounters, Recalled, Upstream};
use cache::{Cache, Memory};
use servers::Servers;

/// After so long without an answer, the next server is asked too. Answers that come later count.
const SILENCE: Duration = Duration::from_secs(1);
/// After so long nobody is waited for. Clients wait for 5 seconds.
const LIMIT: Duration = Duration::from_secs(4);
/// The same where there is an answer, though an old one (RFC 8767, section 5).
const LIMIT_STALE: Duration = Duration::from_millis(1800);
/// Most questions that are asked at a time; each has a socket, and another for each silence.
const QUESTIONS_MAX: usize = 256;

/// See the head of this file.
pub(super) struct Forwarder {
    state: Mutex<State>,
    counters: Arc<DnsCounters>,
}

struct State {
    servers: Servers,
    cache: Cache,
    /// What is being asked.
    pending: HashMap<Question, watch::Receiver<Progress>>,
}

/// Of a question that is asked.
#[derive(Clone, Debug)]
enum Progress {
    Asked,
    Ended(Option<Said>),
}

/// How an answer is had.
pub(super) enum Answer {
    /// At once; `None` if there is none to be had now.
    Ready(Option<Said>),
    Pending(Pending),
}

/// Somebody asks.
pub(super) struct Pending(watch::Receiver<Progress>);

impl Pending {
    /// What comes of it; `None` if nobody answered.
    pub(super) async fn end(mut self) -> Option<Said> {
        let is_over = |progress: &Progress| matches!(progress, Progress::Ended(_));
        match &*self.0.wait_for(is_over).await.ok()? {
            Progress::Ended(said) => said.clone(),
            Progress::Asked => None,
        }
    }
}

impl Forwarder {
    /// `None` if nobody is to be asked.
    pub(super) fn new(dns: &Dns, counters: &Arc<DnsCounters>) -> Option<Arc<Self>> {
        Some(Self::of(Servers::new(dns)?, counters))
    }

    fn of(servers: Servers, counters: &Arc<DnsCounters>) -> Arc<Self> {
        let state = State {
            servers,
            cache: Cache::default(),
            pending: HashMap::new(),
        };
        Arc::new(Self {
            state: Mutex::new(state),
            counters: Arc::clone(counters),
        })
    }

    /// The answer to `question`, or, if the client may `wait`, who asks for it. To be called in a
    /// tokio runtime.
    pub(super) fn find(
        self: &Arc<Self>,
        question: Question,
        transport: Transport,
        wait: bool,
    ) -> Answer {
        let mut state = self.lock();
        let stale = match state.cache.look(&question, Instant::now()) {
            Memory::Fresh(said) => {
                self.counters.recalled(Recalled::Fresh);
                return Answer::Ready(Some(said));
            }
            Memory::Resting(said) => return self.make_do(said),
            Memory::Stale(said) => Some(said),
            Memory::Nothing => None,
        };
        if !wait {
            return self.make_do(stale);
        }
        if let Some(pending) = state.pending.get(&question) {
            self.counters.recalled(Recalled::Joined);
            return Answer::Pending(Pending(pending.clone()));
        }
        if state.pending.len() >= QUESTIONS_MAX {
            return self.make_do(stale);
        }
        self.counters.recalled(Recalled::Asked);
        let (sender, receiver) = watch::channel(Progress::Asked);
        state.pending.insert(question.clone(), receiver.clone());
        drop(state);
        let this = Arc::clone(self);
        tokio::spawn(async move {
            let said = this.resolve(&question, transport, stale).await;
            // Whoever waited may have gone.
            sender.send_replace(Progress::Ended(said));
        });
        Answer::Pending(Pending(receiver))
    }

    fn make_do(&self, said: Option<Said>) -> Answer {
        if said.is_some() {
            self.counters.recalled(Recalled::Stale);
        }
        Answer::Ready(said)
    }

    /// Asks, and remembers what comes of it.
    async fn resolve(
        &self,
        question: &Question,
        transport: Transport,
        stale: Option<Said>,
    ) -> Option<Said> {
        let limit = match stale {
            Some(_) => LIMIT_STALE,
            None => LIMIT,
        };
        let kept = timeout(limit, self.ask(question, transport)).await;
        let mut state = self.lock();
        state.pending.remove(question);
        let now = Instant::now();
        if let Ok(Some(kept)) = kept {
            return Some(state.cache.keep(question, kept, now));
        }
        state.cache.rest(question, now);
        if stale.is_some() {
            self.counters.recalled(Recalled::Stale);
        }
        stale
    }

    /// Asks one server after the other, until one answers or all have failed. Those that are silent
    /// come again after the others: what was sent to them may have been lost.
    async fn ask(&self, question: &Question, transport: Transport) -> Option<Kept> {
        let mut ring: VecDeque<_> = self.lock().servers.all(Instant::now()).into();
        let (mut asked, mut transport) = (JoinSet::new(), transport);
        loop {
            let server = ring.front().copied();
            match server {
                Some(server) => {
                    ring.rotate_left(1);
                    asked.spawn(attempt(server, question.clone(), transport));
                    // Where TCP goes nowhere, UDP may.
                    transport = Transport::Udp;
                }
                None if asked.is_empty() => return None,
                None => {}
            }
            tokio::select! {
                Some(Ok((server, began, result))) = asked.join_next() => {
                    if let Some(kept) = self.heard(server, began, result) {
                        return Some(kept);
                    }
                    ring.retain(|it| *it != server);
                }
                () = sleep(SILENCE) => self.heard_nothing(server),
            }
        }
    }

    fn heard(&self, server: SocketAddr, began: Instant, result: io::Result<Kept>) -> Option<Kept> {
        match result {
            Ok(kept) => {
                self.counters.upstream(Upstream::Answered(began.elapsed()));
                self.lock().servers.prefer(server);
                Some(kept)
            }
            Err(error) => {
                self.counters.upstream(Upstream::Failed);
                log::debug(format_args!("names: {server}: {error}"));
                None
            }
        }
    }

    fn heard_nothing(&self, server: Option<SocketAddr>) {
        if let Some(server) = server {
            self.counters.upstream(Upstream::Silent);
            self.lock().servers.avoid(server);
        }
    }

    /// What is remembered is never half written, so a panic elsewhere leaves it sound.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn attempt(
    server: SocketAddr,
    question: Question,
    transport: Transport,
) -> (SocketAddr, Instant, io::Result<Kept>) {
    let began = Instant::now();
    let result = exchange::ask(server, &question, transport).await;
    (server, began, result)
}

#[cfg(test)]
mod tests;

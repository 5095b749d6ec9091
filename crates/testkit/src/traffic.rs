//! Requests without end: clients that send one after the other while a test changes the world.
//! Used by the resilience tests. A client behaves: it keeps its connection, and leaves when told.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use crate::client::{Client, RawClient};
use crate::http::Message;
use crate::wait::until;

/// Clients at work; they end when it is finished or dropped.
pub struct Traffic {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<()>>,
}

/// What has come of the requests so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Whole answers, by status.
    pub statuses: BTreeMap<u16, usize>,
    /// Requests without a whole answer, and why.
    pub broken: Vec<String>,
}

struct Shared {
    tally: Mutex<Tally>,
    stopping: AtomicBool,
    /// Requests that may still be begun.
    budget: AtomicUsize,
}

impl Traffic {
    /// So many clients that send to this address until told otherwise.
    #[must_use]
    pub fn start(addr: SocketAddr, clients: usize) -> Self {
        Self::with(clients, usize::MAX, move || RawClient::connect(addr))
    }

    /// So many clients that connect with `dial` and together send at most `budget` requests.
    #[must_use]
    pub fn with<S: Read + Write>(
        clients: usize,
        budget: usize,
        dial: impl Fn() -> Client<S> + Clone + Send + 'static,
    ) -> Self {
        let shared = Arc::new(Shared {
            tally: Mutex::default(),
            stopping: AtomicBool::new(false),
            budget: AtomicUsize::new(budget),
        });
        let client = |_| {
            let (shared, dial) = (Arc::clone(&shared), dial.clone());
            thread::spawn(move || shared.send(dial))
        };
        let clients = (0..clients).map(client).collect();
        Self { shared, clients }
    }

    /// What has come so far.
    ///
    /// # Panics
    /// If a client panicked.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.shared.tally().clone()
    }

    /// Waits until so many further requests are over.
    ///
    /// # Panics
    /// If they never are.
    #[track_caller]
    pub fn goes_on(&self, requests: usize) {
        let aim = self.tally().requests() + requests;
        until("requests go on", || self.tally().requests() >= aim);
    }

    /// Waits until so many further requests have had this answer.
    ///
    /// # Panics
    /// If they never have.
    #[track_caller]
    pub fn sees(&self, status: u16, requests: usize) {
        let aim = self.tally().count(status) + requests;
        until("requests have this answer", || {
            self.tally().count(status) >= aim
        });
    }

    /// Ends it; every request that was begun has come to its end.
    ///
    /// # Panics
    /// If a client panicked.
    #[track_caller]
    #[must_use]
    pub fn finish(self) -> Tally {
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.join()
    }

    /// Waits until the budget is used up.
    ///
    /// # Panics
    /// If a client panicked.
    #[track_caller]
    #[must_use]
    pub fn join(mut self) -> Tally {
        for client in self.clients.drain(..) {
            client.join().expect("no client panics");
        }
        self.tally()
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        for client in self.clients.drain(..) {
            // A test that fails already has something better to say.
            let _ = client.join();
        }
    }
}

impl Tally {
    /// Requests that are over.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.statuses.values().sum::<usize>() + self.broken.len()
    }

    /// Answers with this status.
    #[must_use]
    pub fn count(&self, status: u16) -> usize {
        self.statuses.get(&status).copied().unwrap_or_default()
    }

    /// Fails the test unless every request had one of these answers.
    ///
    /// # Panics
    /// If one had not.
    #[track_caller]
    pub fn is_only(&self, statuses: &[u16]) {
        let others = |status: &&u16| !statuses.contains(status);
        let strange: Vec<_> = self.statuses.keys().filter(others).collect();
        assert!(
            strange.is_empty() && self.broken.is_empty(),
            "answers {:?}; {} broken, as {:?}",
            self.statuses,
            self.broken.len(),
            self.broken.first()
        );
    }
}

impl Shared {
    fn tally(&self) -> std::sync::MutexGuard<'_, Tally> {
        self.tally.lock().expect("no client panics")
    }

    /// A client's life: every fourth request has a body.
    fn send<S: Read + Write>(&self, dial: impl Fn() -> Client<S>) {
        let mut connection = None;
        let mut number = 0_usize;
        while self.may_begin() {
            let client = connection.get_or_insert_with(&dial);
            number += 1;
            let answer = if number.is_multiple_of(4) {
                let body = format!("body {number}");
                post(client, &body)
            } else {
                client.try_get("/").map_err(|error| error.to_string())
            };
            if answer.as_ref().map_or(true, leaves) {
                connection = None;
            }
            match answer {
                Ok(answer) => *self.tally().statuses.entry(answer.status()).or_default() += 1,
                Err(error) => self.tally().broken.push(error),
            }
        }
    }

    fn may_begin(&self) -> bool {
        let take = |left: usize| left.checked_sub(1);
        !self.stopping.load(Ordering::SeqCst)
            && self
                .budget
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, take)
                .is_ok()
    }
}

/// A body that comes back changed is worse than none.
fn post<S: Read + Write>(client: &mut Client<S>, body: &str) -> Result<Message, String> {
    let length = body.len();
    let request =
        format!("POST / HTTP/1.1\r\nhost: test\r\ncontent-length: {length}\r\n\r\n{body}");
    let answer = client
        .try_send(request)
        .and_then(|()| client.try_response("POST"));
    let answer = answer.map_err(|error| error.to_string())?;
    match answer.status() {
        200 if answer.text() != body => Err(format!("sent {body:?}, got {answer:?}")),
        _ => Ok(answer),
    }
}

fn leaves(answer: &Message) -> bool {
    answer
        .header("connection")
        .is_some_and(|value| value.eq_ignore_ascii_case("close"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EchoServer, ScriptedUpstream, Step};

    #[test]
    fn sends_as_many_as_it_may() {
        let server = EchoServer::start();
        let addr = server.addr();
        let tally = Traffic::with(4, 100, move || RawClient::connect(addr)).join();
        tally.is_only(&[200]);
        assert_eq!((tally.requests(), server.request_count()), (100, 100));
        // A fast client may have used the budget up before the last has connected.
        assert!((1..=4).contains(&server.connection_count()));
    }

    #[test]
    fn goes_on_until_it_is_finished() {
        let server = EchoServer::start();
        let traffic = Traffic::start(server.addr(), 2);
        traffic.goes_on(20);
        traffic.sees(200, 20);
        assert!(traffic.finish().requests() >= 40);
    }

    #[test]
    #[should_panic(expected = "1 broken")]
    fn lost_request_is_told() {
        let server = ScriptedUpstream::always(vec![Step::ReadRequest]);
        let addr = server.addr();
        Traffic::with(1, 1, move || RawClient::connect(addr))
            .join()
            .is_only(&[200]);
    }
}

//! The pool between random requests and endpoints that fail, say goodbye, come and go with reloads:
//! it never lends what is dead or expired, nobody waits for ever, and in the end nothing is counted
//! that is not there.

mod endpoint;

use super::*;
use crate::error::Flag;
use crate::exchange::Exchange;
use crate::snapshot::Snapshot;
use crate::telemetry::metrics::Registry;
use crate::worker::simulation::{Dice, apply, end, run, snapshot, worker};
use endpoint::{Mood, Site};
use std::fmt::Write;
use std::future::poll_fn;
use std::io::IoSlice;
use wire::http1::{Limits, Parsed};

const SEEDS: u64 = 200;
/// A run takes some thousand turns.
const TURNS_MAX: u32 = 400_000;
const ENDPOINTS: usize = 3;
const CLIENTS_MAX: usize = 12;
const REQUESTS: usize = 8;
const RELOADS: usize = 6;
const HEAD: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";

/// Everything of one run.
struct World {
    worker: Rc<Worker>,
    registry: Arc<Registry>,
    dice: Rc<Dice>,
    sites: Vec<Rc<Site>>,
    /// Every endpoint that a reload brought, to be looked at in the end.
    states: RefCell<Vec<Weak<EndpointState>>>,
    clients: Cell<usize>,
}

fn config(sites: &[Rc<Site>], which: &[usize], dice: &Dice) -> String {
    let mut text = String::from(
        "workload: {name: simulation}\nadmin: 'off'\nmetrics: 'off'\nlisteners:\n\
         - {name: main, direction: outbound, address: '127.0.0.1:0', routes: [{cluster: next}]}\n",
    );
    let (kept, streams) = (dice.pick(&[0, 1, 1024]), dice.pick(&[1, 3, 16]));
    // Nothing of this world takes time.
    let limits = format!("poolConnections: {kept}, streamsPerConnection: {streams}");
    writeln!(text, "limits: {{{limits}, connectTimeout: 60s}}").unwrap();
    text.push_str("clusters:\n- name: next\n  endpoints: [");
    for place in which {
        write!(text, "{{address: '{}'}}, ", sites[*place].address).unwrap();
    }
    text + "]\n"
}

impl World {
    fn new(dice: &Rc<Dice>) -> Rc<Self> {
        let sites: Vec<_> = (0..ENDPOINTS).map(|_| Site::new(dice)).collect();
        let first = snapshot(&config(&sites, &[0, 1, 2], dice), None);
        let registry = Registry::new(&first.config.workload, 1);
        let world = Self {
            worker: worker(&first, &registry),
            registry,
            dice: Rc::clone(dice),
            sites,
            states: RefCell::default(),
            clients: Cell::new(0),
        };
        world.note_states();
        Rc::new(world)
    }

    fn note_states(&self) {
        let view = self.worker.view();
        let states = view.clusters[0].endpoints.iter().map(Rc::downgrade);
        self.states.borrow_mut().extend(states);
    }

    fn reload(&self, which: &[usize]) {
        let previous = self.worker.view();
        let text = config(&self.sites, which, &self.dice);
        let next: Arc<Snapshot> = snapshot(&text, Some(&previous.snapshot));
        apply(&self.worker, &next);
        self.note_states();
    }

    fn open(&self) -> String {
        let page = self.registry.render();
        let name = "leno_upstream_connections_active ";
        let line = page.lines().find_map(|line| line.strip_prefix(name));
        line.expect("a gauge of every page").to_owned()
    }

    /// One request after the other, each on whatever endpoint there is.
    async fn client(self: Rc<Self>) {
        for _ in 0..REQUESTS {
            self.dice.pause(&self.worker.reactor).await;
            let view = self.worker.view();
            let endpoints = &view.clusters[0].endpoints;
            if endpoints.is_empty() {
                continue;
            }
            let state = Rc::clone(&endpoints[self.dice.below(endpoints.len())]);
            drop(view);
            let site = self
                .sites
                .iter()
                .find(|site| site.address == state.endpoint.address);
            let site = site.expect("one of ours");
            let want = self.dice.pick(&[Want::Any, Want::Open, Want::Fresh]);
            if self.dice.one_in(6) {
                // No edge can have told anybody.
                site.hang_up();
            }
            match checkout(&self.worker, &state, site.inner, want).await {
                Ok(Upstream::Http1(lent)) => self.exclusive(lent, want).await,
                Ok(Upstream::Http2(lent)) => self.shared(lent).await,
                Err(error) => assert!(matches!(error.flag, Flag::ConnectFailed), "{error}"),
            }
        }
        self.clients.set(self.clients.get() - 1);
    }

    async fn exclusive(&self, mut lent: Exclusive, want: Want) {
        let now_ms = self.worker.reactor.now_ms();
        assert!(
            lent.expires_ms > now_ms,
            "lent though its certificate has ended"
        );
        assert!(
            !(lent.reused && want == Want::Fresh),
            "used, though a new one was wanted"
        );
        let is_dead = lent.stream.tcp.has_failed() || !lent.stream.tcp.is_quiet();
        assert!(
            !(is_dead && want == Want::Open && lent.reused),
            "lent though it is dead"
        );
        let asked = lent.stream.write(&[IoSlice::new(b"?")]);
        // A buffer that is not filled: the socket then knows that nothing is left.
        let mut answer = [0; 8];
        let answered = asked.is_ok()
            && poll_fn(|_| lent.stream.tcp.poll_read(&mut answer))
                .await
                .is_ok_and(|count| count == 1);
        if self.dice.one_in(6) {
            lent.expires_ms = now_ms;
        }
        lent.checkin(&self.worker, answered && !self.dice.one_in(6));
    }

    async fn shared(&self, lent: Lent) {
        assert!(!lent.stream.is_lost(), "lent though it is dead");
        let mut exchange = Exchange::default();
        let limits = Limits {
            head_bytes: 1000,
            headers: 10,
        };
        assert_eq!(exchange.request.parse(HEAD, &limits), Ok(Parsed::Complete));
        lent.stream
            .send_request(&exchange, HEAD, true)
            .expect("a small head");
        if self.dice.one_in(5) {
            // The downstream went away.
            return;
        }
        let mut text = Vec::new();
        // Lost or answered: either is an end.
        let _ = poll_fn(|_| lent.stream.poll_head(&mut exchange, &mut text)).await;
        self.dice.pause(&self.worker.reactor).await;
    }

    /// Certificates end while connections are idle.
    fn expire(&self) {
        let view = self.worker.view();
        for state in &view.clusters[0].endpoints {
            for idle in state.idle.borrow_mut().iter_mut() {
                idle.expires_ms = self.dice.pick(&[0, idle.expires_ms]);
            }
        }
    }

    /// Endpoints come and go, and change their moods.
    async fn trouble(self: Rc<Self>) {
        for _ in 0..RELOADS {
            for _ in 0..self.dice.below(60) {
                self.worker.reactor.yield_now().await;
            }
            for site in &self.sites {
                site.mood.set(self.dice.pick(&Mood::ALL));
            }
            self.expire();
            let which = self
                .dice
                .pick(&[&[0, 1, 2][..], &[0], &[1, 2], &[2, 0], &[]]);
            self.reload(which);
        }
    }
}

fn check(seed: u64) {
    let dice = Dice::new(seed);
    let world = World::new(&dice);
    let reactor = Rc::clone(&world.worker.reactor);
    for site in &world.sites {
        reactor.spawn(Rc::clone(site).serve(Rc::clone(&world.worker)));
    }
    world.clients.set(1 + dice.below(CLIENTS_MAX));
    for _ in 0..world.clients.get() {
        reactor.spawn(Rc::clone(&world).client());
    }
    reactor.spawn(Rc::clone(&world).trouble());
    let ending = Rc::clone(&world);
    let ended = run(&reactor, TURNS_MAX, async move {
        while ending.clients.get() > 0 {
            ending.worker.reactor.yield_now().await;
        }
        for state in ending.states.borrow().iter().filter_map(Weak::upgrade) {
            assert_eq!(state.load(), 0, "seed {seed}: in use by nobody");
        }
        // No endpoint is left, so no connection is.
        ending.reload(&[]);
        while ending.open() != "0" {
            ending.worker.reactor.yield_now().await;
        }
        end(&ending.worker).await;
    });
    let (waiting, open) = (world.clients.get(), world.open());
    let tasks = reactor.tasks();
    assert!(
        ended,
        "seed {seed}: {waiting} clients wait for ever; left: {open} connections, {tasks} tasks"
    );
}

#[test]
fn lends_what_lives_wakes_who_waits_and_counts_right() {
    for seed in 0..SEEDS {
        check(seed);
    }
}

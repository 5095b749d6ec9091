//! The configuration after the start: read again or told anew, checked whole, handed to every
//! worker; or kept as it was. Live connections are never touched. Called by `app` on SIGHUP, on
//! changes of files and when the control plane has said something.

use crate::admin::State;
use crate::control::Told;
use crate::dns::{Book, Names};
use crate::handover::Handed;
use crate::handover::message::Role;
use crate::log;
use crate::options::Options;
use crate::snapshot::{Identity, Snapshot};
use crate::socket::{Opened, Sockets};
use crate::telemetry::metrics::Registry;
use crate::worker::{Message, Seat, Socket};
use identity::tls::Tickets;
use model::Config;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

/// What a file looked like: its time of change, size and inode (a replaced symbolic link counts).
type Look = Option<(SystemTime, u64, u64)>;

/// What runs now.
pub(crate) struct Live {
    options: Options,
    snapshot: Arc<Snapshot>,
    tickets: Arc<Tickets>,
    book: Arc<Book>,
    seats: Arc<Vec<Seat>>,
    /// Listeners that are open.
    open: HashMap<String, Open>,
    /// What others opened for them.
    sockets: Sockets,
    /// Sockets that nothing is accepted from yet; `None` once it is.
    waiting: Option<Vec<Socket>>,
    /// Whether nothing more is accepted, nor opened.
    is_leaving: bool,
    /// What the control plane said last, if there is one.
    told: Option<Told>,
    /// What was told last could not be put to use, as when an address is still another's.
    is_behind: bool,
    looks: Vec<(PathBuf, Look)>,
    state: Arc<State>,
}

/// A listener that has sockets.
struct Open {
    asked: Vec<SocketAddr>,
    /// Where the first socket is bound.
    bound: SocketAddr,
    /// The sockets once more, with what each was asked for; none if nobody succeeds this process.
    copies: Vec<(SocketAddr, OwnedFd)>,
}

impl Live {
    pub(crate) fn new(
        options: Options,
        snapshot: Arc<Snapshot>,
        (tickets, book): (Arc<Tickets>, Arc<Book>),
        seats: Arc<Vec<Seat>>,
        sockets: Sockets,
    ) -> Self {
        let looks = look_at(&options, &snapshot.config);
        let state = State::new(Arc::clone(&snapshot));
        Self {
            options,
            snapshot,
            tickets,
            book,
            seats,
            open: HashMap::new(),
            sockets,
            waiting: Some(Vec::new()),
            is_leaving: false,
            told: None,
            is_behind: false,
            looks,
            state,
        }
    }

    pub(crate) fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    pub(crate) fn seats(&self) -> &Arc<Vec<Seat>> {
        &self.seats
    }

    /// Downstream connections that are open.
    pub(crate) fn connections(&self) -> u32 {
        self.seats
            .iter()
            .map(|seat| seat.connections.load(Ordering::Relaxed))
            .sum()
    }

    /// The names that are answered.
    pub(crate) fn book(&self) -> &Arc<Book> {
        &self.book
    }

    pub(crate) fn state(&self) -> &Arc<State> {
        &self.state
    }

    /// What others opened, for what is no listener.
    pub(crate) fn sockets(&mut self) -> &mut Sockets {
        &mut self.sockets
    }

    /// Opens the listeners that the configuration has at the start.
    ///
    /// # Errors
    /// When an address cannot be bound.
    pub(crate) fn open(&mut self) -> anyhow::Result<()> {
        let snapshot = Arc::clone(&self.snapshot);
        let opened = self
            .sockets
            .open_all((0..).zip(&snapshot.config.listeners))?;
        self.listen(opened);
        Ok(())
    }

    /// Hands sockets to the accepting worker, once it may accept.
    fn listen(&mut self, opened: Vec<Opened>) {
        for Opened {
            place,
            sockets,
            bound,
            copies,
        } in opened
        {
            let listener = &self.snapshot.config.listeners[place];
            let asked = listener.addresses().collect();
            let open = Open {
                asked,
                bound,
                copies,
            };
            self.open.insert(listener.name.clone(), open);
            match &mut self.waiting {
                Some(waiting) => waiting.extend(sockets),
                None => self.accept_from(sockets),
            }
        }
    }

    fn accept_from(&self, sockets: Vec<Socket>) {
        for socket in sockets {
            self.seats[0].sender.send(Message::Listen(socket));
        }
    }

    /// Accepts from now on.
    pub(crate) fn accept(&mut self) {
        let waiting = self.waiting.take().unwrap_or_default();
        self.accept_from(waiting);
    }

    /// Copies of all sockets of listeners.
    pub(crate) fn offer(&self) -> io::Result<Vec<Handed>> {
        let mut all = self.sockets.offer()?;
        for (name, open) in &self.open {
            for (asked, fd) in &open.copies {
                all.push(Handed::copy(fd, Role::Listener, (name, *asked))?);
            }
        }
        Ok(all)
    }

    /// Leaves every socket to the worker, or to a successor: a copy would keep it open.
    pub(crate) fn let_go(&mut self) {
        self.is_leaving = true;
        self.sockets.clear();
        self.open.values_mut().for_each(|open| open.copies.clear());
    }

    /// The names of open listeners with their real addresses.
    pub(crate) fn bound(&self) -> impl Iterator<Item = (&String, SocketAddr)> {
        self.open.iter().map(|(name, open)| (name, open.bound))
    }

    /// How many listeners there are, with and without a socket.
    pub(crate) fn listeners(&self) -> u32 {
        u32::try_from(self.snapshot.config.listeners.len()).unwrap_or(u32::MAX)
    }

    /// Whether what the control plane said last is in use.
    pub(crate) fn is_told(&self) -> bool {
        self.told.is_some() && !self.is_behind
    }

    /// Whether a file of the configuration looks different than when it was read, or what could not
    /// be put to use may be now.
    pub(crate) fn has_changed(&self) -> bool {
        let mut looks = self.looks.iter();
        self.is_behind || looks.any(|(path, look)| self::look(path) != *look)
    }

    /// Reads everything again and puts it to use.
    pub(crate) fn reload(&mut self) -> anyhow::Result<()> {
        // Taken first: a change while we read is a change to come.
        self.looks = look_at(&self.options, &self.snapshot.config);
        let mut config = self.options.load()?;
        if let Some(told) = &self.told {
            told.complete(&mut config);
        }
        let config = Arc::new(config);
        // It may name other files; the first look at itself stays, for the same reason.
        let itself = usize::from(self.options.config.is_some());
        self.looks.truncate(itself);
        let named = look_at(&self.options, &config);
        self.looks.extend(named.into_iter().skip(itself));
        warn_of_restart(&self.snapshot.config, &config);
        let files = || Identity::load(&config, &self.tickets);
        let identity = match &self.told {
            None => files()?,
            Some(told) => told.identity(&self.tickets, files)?,
        };
        self.put_to_use(&config, identity)
    }

    /// Puts to use what the control plane says now.
    pub(crate) fn adopt(&mut self, told: Told) -> anyhow::Result<()> {
        let files = || Ok(self.snapshot.identity.clone());
        let identity = told.identity(&self.tickets, files)?;
        let mut config = Config::clone(&self.snapshot.config);
        told.complete(&mut config);
        (self.told, self.is_behind) = (Some(told), true);
        self.put_to_use(&Arc::new(config), identity)
    }

    fn put_to_use(
        &mut self,
        config: &Arc<Config>,
        identity: Option<Identity>,
    ) -> anyhow::Result<()> {
        let snapshot = Snapshot::build(Arc::clone(config), identity, Some(&self.snapshot))?;
        let is_open = |listener: &model::Listener| {
            let open = self.open.get(&listener.name);
            open.is_some_and(|open| listener.addresses().eq(open.asked.iter().copied()))
        };
        let wanted = (0..).zip(&config.listeners);
        let wanted = wanted.filter(|(_, listener)| !self.is_leaving && !is_open(listener));
        let sockets = self.sockets.open_all(wanted)?;
        // Nothing can fail from here on.
        self.is_behind = false;
        self.close_listeners(config);
        self.publish(&Arc::new(snapshot));
        self.listen(sockets);
        Ok(())
    }

    fn publish(&mut self, snapshot: &Arc<Snapshot>) {
        let old = std::mem::replace(&mut self.snapshot, Arc::clone(snapshot));
        self.state.publish(Arc::clone(snapshot));
        let config = &snapshot.config;
        if config.dns.is_some() && !Names::are_same(&old.config, config) {
            self.book.publish(Names::build(config));
        }
        for seat in self.seats.iter() {
            seat.sender.send(Message::Snapshot(Arc::clone(snapshot)));
        }
    }

    /// Closes what the configuration no longer has, or has at another address.
    fn close_listeners(&mut self, config: &Config) {
        let stays = |name: &String, asked: &[SocketAddr]| {
            let mut listeners = config.listeners.iter().filter(|listener| listener.bind);
            let listener = listeners.find(|listener| listener.name == *name);
            listener.is_some_and(|listener| listener.addresses().eq(asked.iter().copied()))
        };
        let gone = self.open.extract_if(|name, open| !stays(name, &open.asked));
        for (name, _) in gone {
            self.seats[0]
                .sender
                .send(Message::Unlisten(Arc::from(name.as_str())));
        }
    }

    /// Tells the admin pages what only the assembly knows.
    pub(crate) fn describe(&mut self, registry: &Arc<Registry>) {
        let seats = Arc::clone(&self.seats);
        let applied = move || {
            let generations = seats
                .iter()
                .map(|seat| seat.generation.load(Ordering::Acquire));
            generations.min().unwrap_or(0)
        };
        self.state.describe(Arc::clone(registry), Box::new(applied));
    }
}

/// Some settings are taken when the process starts.
fn warn_of_restart(old: &Config, new: &Config) {
    let changed = [
        ("workers", old.workers != new.workers),
        ("admin", old.admin != new.admin),
        ("metrics", old.metrics != new.metrics),
        ("accessLog", old.access_log != new.access_log),
        ("workload", old.workload != new.workload),
        ("control", old.control != new.control),
        ("dns", old.dns != new.dns),
        ("handover", old.handover != new.handover),
    ];
    for (name, _) in changed.iter().filter(|(_, changed)| *changed) {
        log::warn(format_args!(
            "`{name}` takes effect when the proxy is restarted"
        ));
    }
}

fn look_at(options: &Options, config: &Config) -> Vec<(PathBuf, Look)> {
    let mut paths = Vec::from_iter(options.config.clone());
    if let Some(files) = &config.identity {
        paths.extend([&files.certificate, &files.key, &files.trust_bundle].map(Clone::clone));
    }
    paths
        .into_iter()
        .map(|path| (path.clone(), look(&path)))
        .collect()
}

fn look(path: &Path) -> Look {
    use std::os::unix::fs::MetadataExt;
    let data = path.metadata().ok()?;
    Some((data.modified().ok()?, data.len(), data.ino()))
}

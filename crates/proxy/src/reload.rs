//! The configuration after the start: read again or told anew, checked whole, handed to every
//! worker; or kept as it was. Live connections are never touched. Called by `app` on SIGHUP, on
//! changes of files and when the control plane has said something.

use crate::admin::State;
use crate::control::Told;
use crate::dns::{Book, Names};
use crate::log;
use crate::options::Options;
use crate::snapshot::{Identity, Snapshot};
use crate::socket::{self, Opened};
use crate::telemetry::metrics::Registry;
use crate::worker::{Message, Seat};
use identity::tls::Tickets;
use model::Config;
use std::collections::HashMap;
use std::net::SocketAddr;
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
    /// Listeners that are open, with the addresses they were asked for, and the first they got.
    open: HashMap<String, (Vec<SocketAddr>, SocketAddr)>,
    /// What the control plane said last, if there is one.
    told: Option<Told>,
    /// What was told last could not be put to use, as when an address is still another's.
    is_behind: bool,
    looks: Vec<(PathBuf, Look)>,
    state: Arc<State>,
}

impl Live {
    pub(crate) fn new(
        options: Options,
        snapshot: Arc<Snapshot>,
        (tickets, book): (Arc<Tickets>, Arc<Book>),
        seats: Arc<Vec<Seat>>,
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

    /// Hands sockets to the accepting worker.
    pub(crate) fn listen(&mut self, opened: Vec<Opened>) {
        for Opened {
            place,
            sockets,
            bound,
        } in opened
        {
            let listener = &self.snapshot.config.listeners[place];
            let asked = listener.addresses().collect();
            self.open.insert(listener.name.clone(), (asked, bound));
            for socket in sockets {
                self.seats[0].sender.send(Message::Listen(socket));
            }
        }
    }

    /// The names of open listeners with their real addresses.
    pub(crate) fn bound(&self) -> impl Iterator<Item = (&String, SocketAddr)> {
        self.open.iter().map(|(name, (_, bound))| (name, *bound))
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
        let identity = match &self.told {
            None => Identity::load(&config, &self.tickets)?,
            Some(told) => Some(Identity::of(told.credentials.clone(), &self.tickets)?),
        };
        self.put_to_use(&config, identity)
    }

    /// Puts to use what the control plane says now.
    pub(crate) fn adopt(&mut self, told: Told) -> anyhow::Result<()> {
        let identity = Identity::of(told.credentials.clone(), &self.tickets)?;
        let mut config = Config::clone(&self.snapshot.config);
        told.complete(&mut config);
        (self.told, self.is_behind) = (Some(told), true);
        self.put_to_use(&Arc::new(config), Some(identity))
    }

    fn put_to_use(
        &mut self,
        config: &Arc<Config>,
        identity: Option<Identity>,
    ) -> anyhow::Result<()> {
        let snapshot = Snapshot::build(Arc::clone(config), identity, Some(&self.snapshot))?;
        let is_open = |listener: &model::Listener| {
            let open = self.open.get(&listener.name);
            open.is_some_and(|(asked, _)| listener.addresses().eq(asked.iter().copied()))
        };
        let wanted = (0..).zip(&config.listeners);
        let sockets = socket::open_all(wanted.filter(|(_, listener)| !is_open(listener)))?;
        // Nothing can fail from here on.
        self.is_behind = false;
        self.publish(&Arc::new(snapshot));
        self.close_listeners(config);
        self.listen(sockets);
        Ok(())
    }

    fn publish(&mut self, snapshot: &Arc<Snapshot>) {
        self.snapshot = Arc::clone(snapshot);
        self.state.publish(Arc::clone(snapshot));
        if snapshot.config.dns.is_some() {
            self.book.publish(Names::build(&snapshot.config));
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
        let gone = self.open.extract_if(|name, (asked, _)| !stays(name, asked));
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

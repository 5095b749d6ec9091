//! What the quiet thread serves beside the workers: admin pages, metrics, names. Opened by `app`,
//! served when it says so, and left to a successor.

use crate::admin::{self, State};
use crate::dns::{self, Book};
use crate::handover::Handed;
use crate::handover::message::Role;
use crate::socket::Sockets;
use anyhow::Context;
use model::Config;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use tokio::sync::watch;

/// Their sockets, and whether they are in use.
pub(crate) struct Surfaces {
    pages: Vec<Page>,
    names: Vec<dns::Pair>,
    /// Whether nothing is accepted.
    resting: watch::Sender<bool>,
}

/// Where pages are.
struct Page {
    role: Role,
    asked: SocketAddr,
    bound: SocketAddr,
    listener: TcpListener,
}

impl Surfaces {
    /// Opens what `config` asks for, unless `sockets` has it.
    pub(crate) fn open(config: &Config, sockets: &mut Sockets) -> anyhow::Result<Self> {
        let asked = [(Role::Admin, config.admin), (Role::Metrics, config.metrics)];
        let asked = asked
            .into_iter()
            .filter_map(|(role, addr)| Some((role, addr?)));
        let pages = asked.map(|(role, addr)| Page::open(role, addr, sockets));
        let pages = pages.collect::<anyhow::Result<_>>()?;
        let names = config.dns.as_ref();
        let names = names.map(|names| dns::open(names, |role, addr| sockets.take(role, addr)));
        Ok(Self {
            pages,
            names: names.transpose()?.unwrap_or_default(),
            resting: watch::Sender::new(true),
        })
    }

    /// Serves from now on, in tasks of the runtime that it is called in.
    pub(crate) fn serve(&self, state: &Arc<State>, book: &Arc<Book>) -> anyhow::Result<()> {
        self.resting.send_replace(false);
        for page in &self.pages {
            let which = match page.role {
                Role::Admin => admin::Surface::Admin,
                _ => admin::Surface::Metrics,
            };
            let listener = tokio::net::TcpListener::from_std(page.listener.try_clone()?)?;
            let state = Arc::clone(state);
            tokio::spawn(admin::serve(listener, state, which, self.until_rest()));
        }
        for pair in &self.names {
            dns::run(pair.try_clone()?, book, || self.until_rest())?;
        }
        Ok(())
    }

    fn until_rest(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut resting = self.resting.subscribe();
        async move {
            // Closed only when everything ends.
            let _ = resting.wait_for(|resting| *resting).await;
        }
    }

    /// Accepts nothing more, once the tasks that accept have had their turn; what is open goes on.
    pub(crate) fn rest(&self) {
        self.resting.send_replace(true);
    }

    /// Leaves the sockets to a successor: a copy would keep them open.
    pub(crate) fn leave(&mut self) {
        self.rest();
        self.pages.clear();
        self.names.clear();
    }

    pub(crate) fn rests(&self) -> bool {
        *self.resting.borrow()
    }

    /// Copies for a successor.
    pub(crate) fn offer(&self) -> io::Result<Vec<Handed>> {
        let page = |page: &Page| Handed::copy(&page.listener, page.role, ("", page.asked));
        let udp = |pair: &dns::Pair| Handed::copy(&pair.udp, Role::DnsUdp, ("", pair.asked));
        let tcp = |pair: &dns::Pair| Handed::copy(&pair.tcp, Role::DnsTcp, ("", pair.asked));
        let names = self.names.iter();
        let names = names.clone().map(udp).chain(names.map(tcp));
        self.pages.iter().map(page).chain(names).collect()
    }

    /// Where admin pages are.
    pub(crate) fn admin(&self) -> Option<SocketAddr> {
        self.bound(Role::Admin)
    }

    /// Where metrics are.
    pub(crate) fn metrics(&self) -> Option<SocketAddr> {
        self.bound(Role::Metrics)
    }

    /// Where names are answered.
    pub(crate) fn names(&self) -> Vec<SocketAddr> {
        self.names.iter().map(|pair| pair.addr).collect()
    }

    fn bound(&self, role: Role) -> Option<SocketAddr> {
        let page = self.pages.iter().find(|page| page.role == role);
        page.map(|page| page.bound)
    }
}

impl Page {
    fn open(role: Role, asked: SocketAddr, sockets: &mut Sockets) -> anyhow::Result<Self> {
        let listener = match sockets.take(role, asked) {
            Some(fd) => TcpListener::from(fd),
            None => TcpListener::bind(asked).with_context(|| {
                format!("{asked} cannot be bound; choose another address or `off`")
            })?,
        };
        listener.set_nonblocking(true)?;
        Ok(Self {
            role,
            asked,
            bound: listener.local_addr()?,
            listener,
        })
    }
}

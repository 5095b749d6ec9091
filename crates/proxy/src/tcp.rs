//! The life of a connection that is passed on unread: everything that happens to it is on this
//! page, in order. Called by `connection` once it is clear that nobody is to read it.

pub(crate) mod detect;
pub(crate) mod proxy_header;
pub(crate) mod relay;

use crate::authorize;
use crate::balance::{self, TRIED_MAX, Tried};
use crate::connection::Client;
use crate::error::{Error, Flag, Result};
use crate::http1::Link;
use crate::pool::{self, Dialled, EndpointState, Inner};
use crate::record::Record;
use crate::snapshot::{Endpoint, Listener, Reading, Route};
use crate::stream::Stream;
use crate::trust::Standing;
use crate::worker::View;
use identity::tls::Side;
use model::ProxyProtocol;
use relay::{End, Patience, Tally, relay};
use rustix::net::sockopt;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// A peer that answers nothing for so long is asked by the kernel whether it lives, again and
/// again; without an answer it is gone. Sooner than firewalls forget silent connections.
const PROBE_AFTER: Duration = Duration::from_secs(60);
const PROBE_EVERY: Duration = Duration::from_secs(20);
const PROBES: u32 = 3;

/// What is known of a connection when it is decided that it is passed on.
#[derive(Default)]
pub(crate) struct Opaque {
    /// What the application's own TLS asks for.
    pub(crate) server_name: Option<String>,
    /// A connection to its destination that was made to learn which side speaks first.
    pub(crate) up: Option<Box<Answering>>,
}

/// The upstream side: a connection, and the endpoint at its other end.
pub(crate) struct Answering {
    pub(crate) dialled: Dialled,
    pub(crate) state: Rc<EndpointState>,
    /// Of which cluster it is.
    pub(crate) cluster: Arc<str>,
    /// What its connections begin with.
    proxy_protocol: Option<ProxyProtocol>,
}

/// Passes a connection on until both sides have ended it, and records it exactly once.
pub(crate) async fn serve(client: &Client, mut link: Link, opaque: Opaque) {
    let record = Record::begin(client.worker.reactor.now());
    let tally = Tally::default();
    let mut account = Account { record, tally };
    let result = match admit(client, &link, opaque, &mut account.record).await {
        Ok((up, patience)) => carry(client, &mut link, up, patience, &mut account).await,
        Err(error) => {
            // Nobody is to take this for an answer without content.
            link.stream.tcp.abort_on_close();
            Err(error)
        }
    };
    account.record.flag = match result {
        Ok(()) => Flag::None,
        Err(error) => {
            crate::log::debug(format_args!("{}: {error}", client.peer));
            error.flag
        }
    };
}

/// The record of a connection, which learns how much was moved now and then, and when it ends,
/// whatever way.
struct Account {
    record: Record,
    tally: Tally,
}

impl Drop for Account {
    fn drop(&mut self) {
        self.record.count(self.tally.up(), self.tally.down());
    }
}

/// Finds out where a connection goes and whether it may, and connects it.
async fn admit(
    client: &Client,
    link: &Link,
    opaque: Opaque,
    record: &mut Record,
) -> Result<(Answering, Patience)> {
    let view = client.worker.view();
    let listener = view.snapshot.listener(client.place, &client.listener);
    // It may have been taken away meanwhile.
    let listener = listener.ok_or_else(|| Error::new(Flag::NoRoute))?;
    let name = opaque.server_name.as_deref();
    let route = find(listener, name);
    let cluster = route.map(|route| match &opaque.up {
        Some(up) => view.snapshot.cluster(&up.cluster),
        None => route.pick(|| client.worker.random()),
    });
    let cluster = cluster.flatten();
    record.assign_unread(client, &view.snapshot, (listener.direction, cluster), name);
    let route = route.ok_or_else(|| Error::new(Flag::NoRoute))?;
    check(client, listener, route, name.is_some())?;
    let up = match (opaque.up, cluster) {
        (Some(up), _) => *up,
        (None, Some(cluster)) => Box::pin(dial(client, &view, cluster, record)).await?,
        (None, None) => return Err(Error::new(Flag::NoRoute)),
    };
    record.sent_to(up.state.endpoint.address);
    if let Some(version) = up.proxy_protocol {
        let destination = proxy_header::destination(link, client.destination)?;
        proxy_header::write(version, (client.peer, destination), &up.dialled.stream)?;
    }
    let limits = &view.snapshot.config.limits;
    let patience = Patience {
        idle: limits.tcp_idle_timeout,
        half_closed: limits.half_close_timeout,
        until_ms: client.expires_ms.min(up.dialled.expires_ms),
    };
    Ok((up, patience))
}

/// Carries bytes both ways until that is over. Holds no view of the mesh: it may last for days.
async fn carry(
    client: &Client,
    link: &mut Link,
    up: Answering,
    patience: Patience,
    account: &mut Account,
) -> Result<()> {
    let Answering {
        mut dialled, state, ..
    } = up;
    let _busy = state.occupy();
    let shown = dialled.shown.take();
    let shown = shown.as_deref();
    have_probed(&link.stream);
    have_probed(&dialled.stream);
    let (down, up) = (&link.stream, &dialled.stream);
    let ends = (
        End {
            stream: down,
            inbox: &mut link.inbox,
        },
        End {
            stream: up,
            inbox: &mut dialled.inbox,
        },
    );
    let is_lost = || {
        let view = client.worker.view();
        let upstream = match (shown, &state.endpoint.mtls) {
            (Some(shown), Some(mtls)) => {
                shown.standing(&view, Side::Upstream(&mtls.clients.expected))
            }
            _ => Standing::Same,
        };
        client.standing(&view) == Standing::Lost || upstream == Standing::Lost
    };
    let record = &mut account.record;
    let told = (&mut account.tally, |tally: &Tally| {
        record.count(tally.up(), tally.down());
    });
    let mut relayed = pin!(relay(ends.0, ends.1, patience, told));
    let ended = poll_fn(|context| match relayed.as_mut().poll(context) {
        Poll::Pending if client.worker.is_ending() => Poll::Ready(None),
        // Who is trusted no more is served no more; the certificates' end would say it too late.
        Poll::Pending if is_lost() => {
            // Neither side is to take a part for the whole.
            down.tcp.abort_on_close();
            up.tcp.abort_on_close();
            Poll::Ready(Some(Err(Error::new(Flag::Denied))))
        }
        polled => polled.map(Some),
    });
    ended.await.unwrap_or_else(|| {
        // The drain is over: whoever is still there is told in an orderly way.
        down.finish();
        up.finish();
        Ok(())
    })
}

/// The route for what the application's TLS asks for; without, the catch-all.
fn find<'a>(listener: &'a Listener, server_name: Option<&str>) -> Option<&'a Arc<Route>> {
    let host = server_name.unwrap_or_default();
    listener.routes.find(host.as_bytes(), b"/")
}

/// Whether the peer may be passed on. Where requests are told apart by their hosts, what is not
/// read could be any of them: then it has to be allowed everywhere. (A handshake cannot be.)
fn check(client: &Client, listener: &Listener, route: &Route, is_tls: bool) -> Result<()> {
    let id = client.id.as_ref();
    match listener.reading {
        // The mesh names what is inside its TLS; that is no way around rules about requests.
        Reading::Http => Err(Error::new(Flag::DownstreamProtocol)),
        Reading::Either if !is_tls => {
            let mut all = listener.routes.all();
            all.try_for_each(|route| authorize::check(route, id))
        }
        Reading::Either | Reading::Opaque => authorize::check(route, id),
    }
}

/// Connects to an endpoint of the cluster, and to further ones as long as that fails.
///
/// # Errors
/// `NoEndpoint`, or what went wrong with the last one.
pub(crate) async fn dial(
    client: &Client,
    view: &View,
    cluster: usize,
    record: &Record,
) -> Result<Answering> {
    let worker = &client.worker;
    let settings = &view.snapshot.clusters[cluster];
    let answering = |dialled, state| Answering {
        dialled,
        state,
        cluster: Arc::clone(&settings.name),
        proxy_protocol: settings.proxy_protocol,
    };
    if settings.passthrough {
        let destination = client
            .destination
            .ok_or_else(|| Error::new(Flag::NoEndpoint))?;
        let state = EndpointState::new(&Endpoint::at(destination));
        let dialled = pool::connect(worker, &state, Inner::Tcp).await?;
        return Ok(answering(dialled, state));
    }
    let choice = (settings.balance, client.destination);
    let cluster = &view.clusters[cluster];
    let attempts_max = cluster.endpoints.len().min(TRIED_MAX);
    let mut tried = Tried::default();
    loop {
        let random = || worker.random();
        let turn = cluster.next_turn();
        let place = balance::pick(&cluster.endpoints, choice, tried, turn, random)
            .ok_or_else(|| Error::new(Flag::NoEndpoint))?;
        let state = Rc::clone(&cluster.endpoints[place]);
        match pool::connect(worker, &state, Inner::Tcp).await {
            Ok(dialled) => return Ok(answering(dialled, state)),
            Err(error) => {
                tried.add(place);
                if !error.is_unsent() || tried.count() as usize >= attempts_max {
                    return Err(error);
                }
            }
        }
        record.retry();
    }
}

/// Has the kernel find out about peers that are gone without a word.
fn have_probed(stream: &Stream) {
    let fd = stream.tcp.as_fd();
    // A socket that cannot take the options is found out by the idle timeout.
    let _ = sockopt::set_socket_keepalive(fd, true)
        .and_then(|()| sockopt::set_tcp_keepidle(fd, PROBE_AFTER))
        .and_then(|()| sockopt::set_tcp_keepintvl(fd, PROBE_EVERY))
        .and_then(|()| sockopt::set_tcp_keepcnt(fd, PROBES));
}

//! One stream under way: requests in, responses out, changes in between. Requests are read while a
//! response waits for a slow peer, so that neither side waits for the other for ever.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use xds::delta::server::{Error as StreamError, Event, Response};
use xds::flavour::Flavour;
use xds::grpc::server::Call;
use xds::grpc::{Code, Error, Receiver, Sender, Status};
use xds::server::{Machine, Request};

use super::proxies::Seat;
use super::{not_on_envoy, status_of};
use crate::kinds::WorkloadKey;
use crate::log;
use crate::metrics::Metrics;
use crate::push::{Catalogue, Own, Sight};
use crate::serve::Pace;
use crate::translate::Reach;

/// Requests that may come at once: names of a thousand services, one by one.
const REQUESTS_BURST: u32 = 1000;
/// Then one in this time. An answer to each of five responses, ten times a second, is a quarter.
const REQUEST_INTERVAL: Duration = Duration::from_millis(5);
/// For a peer to take what is left when the stream ends.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// A stream with everything that it knows.
pub(super) struct Session<M> {
    stream: M,
    workload: WorkloadKey,
    identity: String,
    flavour: Flavour,
    /// What it saw last.
    reach: Reach,
    catalogue: watch::Receiver<Arc<Catalogue>>,
    metrics: Arc<Metrics>,
    seat: Seat,
    /// When the oldest change became known that the sidecar has not accepted.
    behind_since: Option<Instant>,
}

impl<M: Machine> Session<M> {
    pub(super) fn new(
        watching: watch::Receiver<Arc<Catalogue>>,
        metrics: Arc<Metrics>,
        workload: WorkloadKey,
        own: &Own,
        sight: &Sight<'_>,
        seat: Seat,
    ) -> Box<Self> {
        Box::new(Self {
            stream: M::new(sight),
            flavour: sight.flavour(),
            workload,
            identity: own.identity.clone(),
            reach: own.reach.clone(),
            catalogue: watching,
            metrics,
            seat,
            behind_since: None,
        })
    }

    /// Until the stream ends, one way or another.
    pub(super) async fn run(
        mut self: Box<Self>,
        call: Call,
        first: M::Request,
        closing: watch::Receiver<bool>,
    ) -> Status {
        let (sender, receiver) = match call.open() {
            Ok(halves) => halves,
            Err(error) => return status_of(&error),
        };
        // Boxed, as a channel has room for many more than it takes.
        let (outbox, responses) = mpsc::channel(1);
        let mut writer = Box::pin(write(sender, responses));
        let mut status = None;
        if let Err(refusal) = self.on_request(&first) {
            status = Some(refusal);
        }
        let ended = async {
            match status {
                Some(status) => status,
                None => self.converse(receiver, outbox, closing).await,
            }
        };
        tokio::select! {
            status = ended => {
                // The outbox is gone, so the writer ends with what is in it.
                if let Ok(Ok(sender)) = timeout(END_TIMEOUT, writer).await {
                    // A peer that is gone needs no status.
                    let _ = sender.finish(&status);
                }
                status
            }
            written = &mut writer => match written {
                Ok(_) => Status::ok(),
                Err(error) => status_of(&error),
            },
        }
    }

    async fn converse(
        &mut self,
        mut receiver: Receiver,
        outbox: mpsc::Sender<Box<Response>>,
        mut closing: watch::Receiver<bool>,
    ) -> Status {
        let mut pace = Pace::new(REQUESTS_BURST, REQUEST_INTERVAL);
        loop {
            let has_response = self.stream.has_response();
            let step = tokio::select! {
                request = paced(&mut pace, &mut receiver) => match request {
                    Ok(Some(request)) => self.on_request(&request),
                    Ok(None) => Err(Status::ok()),
                    Err(error) => Err(status_of(&error)),
                },
                changed = self.catalogue.changed() => match changed {
                    Ok(()) => self.on_change(),
                    Err(_) => Err(going_away()),
                },
                permit = outbox.reserve(), if has_response => match permit {
                    Ok(permit) => self.respond().map(|response| match response {
                        Some(response) => permit.send(Box::new(response)),
                        None => drop(permit),
                    }),
                    Err(_) => Err(Status::new(Code::Unavailable, "")),
                },
                _ = closing.wait_for(|closing| *closing) => Err(going_away()),
            };
            if let Err(status) = step {
                return status;
            }
        }
    }

    fn on_request(&mut self, request: &M::Request) -> Result<(), Status> {
        let event = self.see(|stream, sight| stream.on_request(request, sight))?;
        match &event {
            Event::Noted => {}
            Event::Acked(kind) => self.metrics.kind(*kind).acks.increment(),
            Event::Refused(kind, detail) => {
                self.metrics.kind(*kind).nacks.increment();
                let (workload, kind) = (&self.workload, &kind.label());
                let fields: log::Fields<'_> =
                    &[("workload", workload), ("kind", kind), ("reason", detail)];
                log::warn("refused_by_sidecar", fields);
            }
            Event::UnknownType => {
                let fields: log::Fields<'_> =
                    &[("workload", &self.workload), ("type", &request.type_url())];
                log::debug("unknown_type", fields);
            }
        }
        if self.stream.is_idle()
            && let Some(since) = self.behind_since.take()
        {
            self.metrics.push.observe(since.elapsed());
        }
        Ok(())
    }

    fn on_change(&mut self) -> Result<(), Status> {
        self.see(|_, _| Ok(()))
    }

    fn respond(&mut self) -> Result<Option<Response>, Status> {
        let response = self.see(|stream, sight| Ok(stream.take_response(sight)))?;
        if let Some(response) = &response {
            let counters = self.metrics.kind(response.kind);
            counters.responses.increment();
            counters.resources.add(response.added);
        }
        Ok(response)
    }

    /// Has the stream look at what was published last, and then do something with it. An error if
    /// the workload is not what it was.
    fn see<T>(
        &mut self,
        what: impl FnOnce(&mut M, &Sight<'_>) -> Result<T, StreamError>,
    ) -> Result<T, Status> {
        let catalogue = Arc::clone(&self.catalogue.borrow_and_update());
        let own = catalogue.workload(&self.workload);
        let Some(own) = own.filter(|own| own.identity == self.identity) else {
            let message = "the workload has left the mesh, or runs under another account";
            return Err(Status::new(Code::PermissionDenied, message));
        };
        let is_news = catalogue.generation != self.stream.generation();
        let sight = own.sight_of(self.flavour, &catalogue, &self.reach);
        let sight = sight.ok_or_else(not_on_envoy)?;
        let result = self
            .stream
            .advance(&sight)
            .and_then(|()| what(&mut self.stream, &sight));
        if is_news {
            self.reach = own.reach.clone();
            if self.behind_since.is_none() && !self.stream.is_idle() {
                self.behind_since = Some(catalogue.changed_at);
            }
        }
        self.seat.note(&self.stream, catalogue.bundle);
        result.map_err(|error| match error {
            StreamError::Behind => Status::new(Code::Unavailable, error.to_string()),
            StreamError::NameTooLong => Status::new(Code::InvalidArgument, error.to_string()),
            StreamError::TooManyNames => Status::new(Code::ResourceExhausted, error.to_string()),
        })
    }
}

/// The next request, no earlier than the pace allows.
async fn paced<R: Request>(pace: &mut Pace, receiver: &mut Receiver) -> Result<Option<R>, Error> {
    let wait = pace.wait(Instant::now());
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
    let request = receiver.recv().await?;
    pace.take(Instant::now());
    Ok(request)
}

/// Sends what comes out of `responses`, until nothing more can.
async fn write(
    mut sender: Sender,
    mut responses: mpsc::Receiver<Box<Response>>,
) -> Result<Sender, Error> {
    while let Some(response) = responses.recv().await {
        sender.send_parts(&response.parts).await?;
    }
    Ok(sender)
}

fn going_away() -> Status {
    Status::new(Code::Unavailable, "this end is going away; connect again")
}

//! The bookinfo sample: five small services that call each other over HTTP/1.1 and stand in for
//! the ones that service meshes are shown and measured with. Called by `leno load serve bookinfo`.
//! All of one service runs on one thread and keeps its connections; everything is in memory, and
//! the only thing that it waits for is another service.

mod catalogue;
mod details;
mod gateway;
mod page;
mod productpage;
mod ratings;
mod reply;
mod reviews;
mod service;
mod session;
mod upstream;

use crate::Error;
use service::Service;
use std::{
    io,
    net::{SocketAddr, TcpListener as StdListener},
    rc::Rc,
    sync::mpsc::channel,
    thread::{Builder, JoinHandle},
};
use tokio::{
    net::TcpListener,
    runtime::{Builder as RuntimeBuilder, LocalOptions, LocalRuntime},
    sync::watch,
};

pub use reviews::Version;
pub use upstream::Upstream;

/// What a service of the sample is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The page of a book, put together from details and reviews.
    Productpage,
    /// What there is to know about a book.
    Details,
    /// What readers say, with the stars that they gave where its version shows these.
    Reviews,
    /// Who gave how many stars.
    Ratings,
    /// Passes `/bookinfo-NAME/…` on to the service of that name.
    Gateway,
}

impl Role {
    /// All of them, callers first.
    pub const ALL: [Self; 5] = [
        Self::Gateway,
        Self::Productpage,
        Self::Details,
        Self::Reviews,
        Self::Ratings,
    ];

    /// The word used on the command line, and as the service's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Productpage => "productpage",
            Self::Details => "details",
            Self::Reviews => "reviews",
            Self::Ratings => "ratings",
            Self::Gateway => "gateway",
        }
    }

    /// Those that it calls.
    pub fn callees(self) -> &'static [Self] {
        match self {
            Self::Productpage => &[Self::Details, Self::Reviews],
            Self::Reviews => &[Self::Ratings],
            Self::Gateway => &[Self::Ratings, Self::Reviews, Self::Details],
            Self::Details | Self::Ratings => &[],
        }
    }
}

/// How to serve.
#[derive(Clone, Debug)]
pub struct Options {
    /// What to be.
    pub role: Role,
    /// Where to listen; port 0 takes any free one.
    pub listen: SocketAddr,
    /// What it calls itself in its answers.
    pub name: String,
    /// Which reviews; nothing to other roles.
    pub version: Version,
    /// Where callees are, instead of `http://NAME:9080`.
    pub upstreams: Vec<Upstream>,
}

/// A running service. Dropping it lets it end, and does not wait for that.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    thread: JoinHandle<u64>,
}

/// Starts a service on a thread of its own.
///
/// # Errors
/// An address that cannot be listened on, an upstream that the role does not call, or no thread.
pub fn start(options: &Options) -> Result<Server, Error> {
    crate::limit::raise_descriptors();
    let upstreams = upstream::of_role(options.role, &options.upstreams)?;
    let listener = StdListener::bind(options.listen).map_err(listen(options))?;
    listener.set_nonblocking(true).map_err(listen(options))?;
    let address = listener.local_addr().map_err(listen(options))?;
    let (stop, stopped) = watch::channel(false);
    let options = options.clone();
    let (tell, told) = channel();
    let work = move || {
        let (runtime, listener) = match prepared(listener) {
            Ok(prepared) => prepared,
            Err(error) => {
                tell.send(Err(error)).expect("whoever started us waits");
                return 0;
            }
        };
        tell.send(Ok(())).expect("whoever started us waits");
        let service = Rc::new(Service::build(&options, upstreams));
        runtime.block_on(session::run(listener, Rc::clone(&service), stopped));
        service.answers()
    };
    let thread = Builder::new().name("bookinfo".to_owned()).spawn(work);
    let thread = thread.map_err(system("start a thread"))?;
    let begun = told.recv().expect("the thread tells before it ends");
    begun.map_err(system("start a runtime"))?;
    Ok(Server {
        address,
        stop,
        thread,
    })
}

/// What a service runs on. The runtime is of the thread that makes it.
fn prepared(listener: StdListener) -> io::Result<(LocalRuntime, TcpListener)> {
    let runtime = RuntimeBuilder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())?;
    let listener = runtime.block_on(async { TcpListener::from_std(listener) })?;
    Ok((runtime, listener))
}

fn listen(options: &Options) -> impl Fn(io::Error) -> Error + use<> {
    let address = options.listen;
    move |source| Error::Listen { address, source }
}

fn system(doing: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::System { doing, source }
}

impl Server {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more connections, and ends once the requests in flight are answered.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Waits until it has ended; the number of its answers.
    pub fn join(self) -> u64 {
        self.thread.join().expect("a serving thread panicked")
    }
}

#[cfg(test)]
mod tests;

//! Connections of a service of the sample: accepted, served over HTTP/1.1, and ended in order
//! when it is told to stop. Called by `bookinfo`; knows nothing of what is answered.

use super::service::Service;
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use std::{convert::Infallible, pin::pin, rc::Rc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};

/// How long requests in flight may go on: longer than a call of ours takes at most.
const DRAIN: Duration = Duration::from_secs(6);
/// Out of descriptors: some may be free again then.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stopped` says so and the requests in flight are answered.
pub(super) async fn run(
    listener: TcpListener,
    service: Rc<Service>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut sessions = JoinSet::new();
    let told = stopped.clone();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let session = serve(stream, Rc::clone(&service), told.clone());
                    sessions.spawn_local(session);
                }
                Err(_) => sleep(ACCEPT_PAUSE).await,
            },
            // Also when whoever could say so is gone.
            _ = stopped.wait_for(|stopped| *stopped) => break,
            Some(_) = sessions.join_next() => {}
        }
    }
    drop(listener);
    // What takes longer is cut off.
    let _ = timeout(DRAIN, sessions.join_all()).await;
}

async fn serve(stream: TcpStream, service: Rc<Service>, mut stopped: watch::Receiver<bool>) {
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let answer = service_fn(move |request| {
        let service = Rc::clone(&service);
        async move { Ok::<_, Infallible>(service.answer(request).await) }
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
    let mut connection = pin!(connection);
    // However it ends, its other end knows.
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = stopped.wait_for(|stopped| *stopped) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

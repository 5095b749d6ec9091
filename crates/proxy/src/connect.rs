//! CONNECT (RFC 9110 §9.3.6): a tunnel to whatever the route of its authority leads to, where the
//! listener allows it. Called by `request`; the bytes are not looked at.

use crate::body::Patience;
use crate::connection::{Downstream, Link};
use crate::error::{Error, Flag, Result};
use crate::exchange::Exchange;
use crate::forward::{self, Incoming, Peer};
use crate::record::Record;
use crate::tcp;
use crate::worker::View;
use std::io::IoSlice;

/// Connects to `cluster`, says so, and carries bytes until both sides have ended.
pub(crate) async fn serve(
    down: &mut Downstream<'_>,
    exchange: &Exchange,
    view: &View,
    cluster: usize,
    record: &mut Record,
) -> Result<()> {
    let up = tcp::dial(down.client, view, cluster, record).await?;
    record.sent_to(up.state.endpoint.address);
    (record.status, record.answered) = (200, true);
    match &down.link {
        Link::Http1(link) => {
            let head = b"HTTP/1.1 200 Connection established\r\n\r\n";
            link.stream
                .write(&[IoSlice::new(head)])
                .map_err(Error::downstream)?;
            link.stream.flush().await.map_err(Error::downstream)?;
        }
        Link::Http2(link) => link.stream.send_status(200, b"", None),
    }
    down.consume(exchange.request.len, 0);
    let patience = Patience {
        idle: view.snapshot.config.limits.tcp_idle_timeout,
        until_ms: up.dialled.expires_ms.min(down.client.expires_ms),
    };
    let _busy = up.state.occupy();
    let mut came = Incoming::Http1(up.dialled.inbox);
    let stream = &up.dialled.stream;
    let result = forward::tunnel(down, Peer::Http1(stream), &mut came, patience, record).await;
    match result {
        Ok(()) => record.flag = Flag::None,
        // The upstream must not take a part for the whole.
        Err(_) => stream.tcp.abort_on_close(),
    }
    result
}

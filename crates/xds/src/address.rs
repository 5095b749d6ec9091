//! Addresses: sockets' own as `envoy.config.core.v3.Address`. TCP only, and no names: whoever
//! resolves them is asked elsewhere.

use std::net::{IpAddr, SocketAddr};

use crate::error::Error;
use crate::place::Place;
use crate::proto::core::{Address, SocketAddress};

const TCP: i32 = 0;

/// An error if it is an address of one link only: the link's number means nothing elsewhere.
pub(crate) fn encode(address: SocketAddr, at: &Place<'_>) -> Result<Address, Error> {
    if matches!(address, SocketAddr::V6(v6) if v6.scope_id() != 0) {
        return Err(Error::invalid(
            at,
            "an address of one link; send a global one",
        ));
    }
    Ok(Address {
        socket_address: Some(SocketAddress {
            protocol: TCP,
            address: address.ip().to_string(),
            port_value: Some(address.port().into()),
        }),
    })
}

pub(crate) fn decode(address: Option<&Address>, at: &Place<'_>) -> Result<SocketAddr, Error> {
    let at = at.field("socket_address");
    let address = address
        .and_then(|address| address.socket_address.as_ref())
        .ok_or_else(|| Error::invalid(&at, "missing; send an address and a port"))?;
    if address.protocol != TCP {
        return Err(Error::unsupported(&at.field("protocol")));
    }
    let ip: IpAddr = address
        .address
        .parse()
        .map_err(|_| Error::invalid(&at.field("address"), "not an IP address; resolve it"))?;
    let port = address.port_value.unwrap_or_default();
    let port = u16::try_from(port)
        .map_err(|_| Error::invalid(&at.field("port_value"), "not a port; send 0 to 65535"))?;
    Ok(SocketAddr::new(ip, port))
}

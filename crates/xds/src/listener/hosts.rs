//! Names of a listener with addresses of their own: each a text of the name and its addresses, with
//! spaces between them. Called by `listener`.

use std::net::IpAddr;

use model::Host;

use crate::check;
use crate::error::Error;
use crate::metadata::Reader;
use crate::place::Place;

use super::ROOT;

/// Where they stand under our name.
pub(super) const KEY: &str = "hosts";

/// Where the word for the port stands under our name.
pub(super) const PORT_NAME: &str = "portName";

pub(super) fn encode(hosts: &[Host]) -> Vec<String> {
    let text = |host: &Host| {
        let addresses = host.addresses.iter().map(ToString::to_string);
        let words: Vec<_> = std::iter::once(host.name.clone())
            .chain(addresses)
            .collect();
        words.join(" ")
    };
    hosts.iter().map(text).collect()
}

pub(super) fn decode(metadata: &Reader<'_>) -> Result<Vec<Host>, Error> {
    let texts = metadata.list(KEY, &ROOT)?;
    let decode = |(index, text): (usize, &String)| decode_one(text, &ROOT.item(KEY, index));
    texts.iter().enumerate().map(decode).collect()
}

fn decode_one(text: &str, at: &Place<'_>) -> Result<Host, Error> {
    let mut words = text.split(' ');
    let name = words.next().unwrap_or_default().to_owned();
    let addresses = words.map(str::parse::<IpAddr>).collect::<Result<_, _>>();
    let reason = "not a name and its addresses; send them with one space between two";
    let addresses = addresses.map_err(|_| Error::invalid(at, reason))?;
    Ok(Host { name, addresses })
}

pub(super) fn check(hosts: &[Host]) -> Result<(), Error> {
    for (index, host) in hosts.iter().enumerate() {
        let at = ROOT.item(KEY, index);
        check::dns_name(&host.name, &at)?;
        if host.addresses.is_empty() {
            let reason = "a name without addresses; send some, or leave it out";
            return Err(Error::invalid(&at, reason));
        }
    }
    Ok(())
}

pub(super) fn check_port_name(name: Option<&str>) -> Result<(), Error> {
    let Some(name) = name else {
        return Ok(());
    };
    let at = ROOT.field(PORT_NAME);
    check::dns_name(name, &at)?;
    match name.contains('.') {
        true => Err(Error::invalid(
            &at,
            "a port's name has no dots; send one word",
        )),
        false => Ok(()),
    }
}

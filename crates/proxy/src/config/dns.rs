//! Where names are answered, and who is asked about those of others. Read once per file. Must never
//! let the name server ask itself.

use std::net::SocketAddr;

use model::{Dns, Forward};
use yaml::{Fault, Fields, Kind, Node};

use super::names::Addresses;

const KEYS: &[&str] = &["listen", "forward"];

/// Most addresses of each list: as many as a machine has networks, or name servers, and some more.
const ADDRESSES_MAX: usize = 16;

/// An address to listen on, or a mapping with more.
pub(super) fn read(node: &Node, taken: &mut Addresses) -> Result<Dns, Fault> {
    if let Kind::Scalar { .. } = node.kind {
        return Ok(Dns {
            listen: vec![taken.claim(node)?],
            forward: Forward::Nobody,
        });
    }
    let fields = Fields::open(node, "the name server", KEYS)?;
    let listen = several(fields.required("listen")?, |node| taken.claim(node))?;
    let forward = fields.map("forward", |node| forward(node, &listen))?;
    Ok(Dns {
        listen,
        forward: forward.unwrap_or_default(),
    })
}

fn forward(node: &Node, listen: &[SocketAddr]) -> Result<Forward, Fault> {
    if let Kind::Scalar { text, .. } = &node.kind
        && text == "system"
    {
        return Ok(Forward::System);
    }
    let mut seen = Vec::new();
    several(node, |node| {
        let server = node.address()?;
        if server.port() == 0 || server.ip().is_unspecified() {
            let hint = "write the address of a name server, as in 192.0.2.53:53";
            return Err(node.fault(format!("nobody can be asked at {server}"), hint));
        }
        if listen.iter().any(|own| is_reached_at(*own, server)) {
            let hint = "write the address of another name server, or remove it";
            return Err(node.fault(format!("{server} is this name server itself"), hint));
        }
        if seen.contains(&server) {
            return Err(node.fault(format!("{server} is listed twice"), "remove one of them"));
        }
        seen.push(server);
        Ok(server)
    })
    .map(Forward::Servers)
}

/// Whether a name server that listens on `own` gets what is sent to `server`.
fn is_reached_at(own: SocketAddr, server: SocketAddr) -> bool {
    let (ip, asked) = (own.ip().to_canonical(), server.ip().to_canonical());
    let same_ip = ip == asked || ip.is_unspecified() && asked.is_loopback();
    same_ip && own.port() == server.port()
}

/// One, or a list of at least one.
fn several<T>(
    node: &Node,
    mut read: impl FnMut(&Node) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    if let Kind::Scalar { .. } = node.kind {
        return Ok(vec![read(node)?]);
    }
    let list = node.list()?;
    if list.is_empty() || list.len() > ADDRESSES_MAX {
        let message = format!("{} addresses are listed", list.len());
        return Err(node.fault(
            message,
            format!("write 1 to {ADDRESSES_MAX}, each as ip:port"),
        ));
    }
    list.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn parse(dns: &str) -> Result<model::Config, Fault> {
        crate::config::parse(&format!("dns: {dns}\n"), Path::new(""))
    }

    #[track_caller]
    fn check(dns: &str, listen: &[&str], forward: &Forward) {
        let read = parse(dns).unwrap().dns.unwrap();
        let listen: Vec<SocketAddr> = listen.iter().map(|addr| addr.parse().unwrap()).collect();
        assert_eq!((read.listen, &read.forward), (listen, forward), "{dns}");
    }

    #[track_caller]
    fn check_refused(dns: &str, expected: &str) {
        let fault = parse(dns).expect_err(dns).to_string();
        assert_eq!(fault, format!("line 1, column {expected}"), "{dns}");
    }

    #[test]
    fn an_address_is_all_that_is_needed() {
        check("\"[::]:15053\"", &["[::]:15053"], &Forward::Nobody);
        check("{listen: 127.0.0.1:0}", &["127.0.0.1:0"], &Forward::Nobody);
    }

    #[test]
    fn others_are_asked_by_address_or_as_the_machine_does() {
        let two = ["10.77.0.1:15054", "[fd77::1]:15054"];
        let text = "{listen: [10.77.0.1:15054, \"[fd77::1]:15054\"], forward: system}";
        check(text, &two, &Forward::System);
        let servers = Forward::Servers(two.map(|addr| addr.parse().unwrap()).into());
        let text = "{listen: \"[::]:15053\", forward: [10.77.0.1:15054, \"[fd77::1]:15054\"]}";
        check(text, &["[::]:15053"], &servers);
        let servers = Forward::Servers(vec!["192.0.2.1:53".parse().unwrap()]);
        let text = "{listen: 0.0.0.0:53, forward: 192.0.2.1:53}";
        check(text, &["0.0.0.0:53"], &servers);
    }

    #[test]
    fn nobody_asks_itself() {
        let own = "is this name server itself; write the address of another name server, or remove \
                   it";
        for (listen, server) in [
            ("10.77.0.1:53", "10.77.0.1:53"),
            ("0.0.0.0:53", "127.0.0.1:53"),
            ("\"[::]:53\"", "127.0.0.1:53"),
            ("\"[::]:53\"", "\"[::1]:53\""),
        ] {
            let text = format!("{{listen: {listen}, forward: [{server}]}}");
            let column = "dns: ".len() + text.rfind(server).unwrap() + 1;
            let server = server.trim_matches('"');
            check_refused(&text, &format!("{column}: {server} {own}"));
        }
        let other_port = "{listen: 127.0.0.1:15053, forward: 127.0.0.1:53}";
        assert!(parse(other_port).is_ok());
    }

    #[test]
    fn what_cannot_be_asked_is_refused() {
        check_refused(
            "{listen: 127.0.0.1:1, forward: 0.0.0.0:53}",
            "37: nobody can be asked at 0.0.0.0:53; write the address of a name server, as in \
             192.0.2.53:53",
        );
        check_refused(
            "{listen: 127.0.0.1:1, forward: []}",
            "37: 0 addresses are listed; write 1 to 16, each as ip:port",
        );
        check_refused(
            "{listen: 127.0.0.1:1, forward: [192.0.2.1:53, 192.0.2.1:53]}",
            "52: 192.0.2.1:53 is listed twice; remove one of them",
        );
        check_refused(
            "{listen: [127.0.0.1:1, 127.0.0.1:1]}",
            "29: 127.0.0.1:1 is taken by 127.0.0.1:1; line 1 has it already; choose another port, \
             or 0",
        );
        check_refused(
            "{forward: system}",
            "6: the name server needs `listen`; add `listen: …` here",
        );
    }

    #[test]
    fn a_resolver_needs_nothing_else_and_opens_nothing_else() {
        let config = parse("{listen: 127.0.0.1:0, forward: system}").unwrap();
        assert_eq!(
            (config.admin, config.metrics, config.workers),
            (None, None, 1)
        );
        assert_eq!(config.workload.name, "resolver");
        let text = "workload: {name: web}\ndns: 127.0.0.1:0\nclusters: []\n";
        let fault = crate::config::parse(text, Path::new("")).unwrap_err();
        assert!(fault.to_string().contains("needs `listeners`"), "{fault}");
    }
}

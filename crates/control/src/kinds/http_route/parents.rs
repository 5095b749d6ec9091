//! What a route is for: the clients of Services, and those that come through Gateways. Called by
//! `http_route`.

use yaml::{Fault, Fields, Node, quote};

use super::{metadata, service, some};
use crate::kinds::{Key, Kind, ServiceKey, Written};

/// A Service whose clients follow a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentRef {
    /// In the route's own namespace.
    pub service: ServiceKey,
    /// Only on this port of it.
    pub port: Option<u16>,
    /// Where it was written.
    pub place: Written,
}

/// A Gateway whose clients follow a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayRef {
    /// Its name.
    pub gateway: Key,
    /// Only by this listener of it.
    pub section: Option<String>,
    /// Only by listeners of this port.
    pub port: Option<u16>,
    /// Where it was written.
    pub place: Written,
}

enum Parent {
    Service(ParentRef),
    Gateway(GatewayRef),
}

/// The group of Gateways.
const GROUP: &str = "gateway.networking.k8s.io";

/// Of a route in `namespace`.
pub(super) fn read(
    node: &Node,
    namespace: &str,
) -> Result<(Vec<ParentRef>, Vec<GatewayRef>), Fault> {
    let (mut services, mut gateways) = (Vec::new(), Vec::new());
    for parent in some(node, |node| one(node, namespace))? {
        match parent {
            Parent::Service(parent) => services.push(parent),
            Parent::Gateway(parent) => gateways.push(parent),
        }
    }
    Ok((services, gateways))
}

fn one(node: &Node, namespace: &str) -> Result<Parent, Fault> {
    const KEYS: &[&str] = &["group", "kind", "name", "namespace", "sectionName", "port"];
    let fields = Fields::open(node, "a parentRef", KEYS)?;
    let words = [("Gateway", Kind::Gateway), ("Service", Kind::Service)];
    let kind = fields.map("kind", |node| node.choice(&words))?;
    let port = fields.map("port", Node::port)?;
    let place = Written(node.place);
    if kind == Some(Kind::Service) {
        if let Some(node) = fields.optional("sectionName") {
            let hint = "choose a port of the Service by its number, with `port`";
            return Err(node.fault("`sectionName` of a Service", hint));
        }
        let service = service(&fields, namespace)?;
        return Ok(Parent::Service(ParentRef {
            service,
            port,
            place,
        }));
    }
    if let Some(node) = fields.optional("group")
        && node.text()? != GROUP
    {
        let message = format!("the group {} has no Gateways", quote(node.text()?));
        let hint = format!("write `group: {GROUP}`, or `kind: Service` with `group: \"\"`");
        return Err(node.fault(message, hint));
    }
    let own = || namespace.to_owned();
    Ok(Parent::Gateway(GatewayRef {
        gateway: Key {
            kind: Kind::Gateway,
            namespace: fields
                .map("namespace", metadata::label)?
                .unwrap_or_else(own),
            name: metadata::subdomain(fields.required("name")?)?,
        },
        section: fields.map("sectionName", metadata::subdomain)?,
        port,
        place,
    }))
}

//! What is odd about gateways: routes that nobody follows, certificates that nobody sees.
//! Called by `index::warnings`.

use std::collections::BTreeSet;

use model::HostMatch;

use super::Warnings;
use crate::index::gateways::Attached;
use crate::kinds::{AccountKey, CertificateRef, Gateway, HttpRoute, Key, Kind, Resource, Workload};
use crate::translate::common_hosts;

impl<F: FnOnce() -> BTreeSet<AccountKey>> Warnings<'_, F> {
    pub(super) fn check_gateway(&mut self, resource: &Resource, gateway: &Gateway) {
        if self.index.carriers(&resource.key).is_empty() {
            let message = format!("no Workload is the {}", resource.key);
            let name = &resource.key.name;
            let hint = format!("add one with `gateway: {name}` in its namespace");
            self.warn(resource, None, message, &hint);
        }
        for listener in &gateway.listeners {
            if let Some(certificate) = &listener.certificate {
                self.check_certificate(resource, certificate, &listener.host);
            }
        }
    }

    fn check_certificate(
        &mut self,
        resource: &Resource,
        certificate: &CertificateRef,
        host: &HostMatch,
    ) {
        let CertificateRef { secret, place } = certificate;
        let place = Some(*place);
        let hint = "until it is right, whoever asks for this hostname is turned away";
        let Some(found) = self.index.secret(secret) else {
            let message = format!("there is no {secret} with the certificate");
            return self.warn(resource, place, message, hint);
        };
        let asked = match host {
            HostMatch::Any => None,
            HostMatch::Exact(name) => Some(name.clone()),
            HostMatch::Suffix(suffix) => Some(format!("*{suffix}")),
        };
        match (&found.pair, asked) {
            (Err(reason), _) => self.warn(resource, place, format!("{secret}: {reason}"), hint),
            (Ok(pair), Some(asked)) if !pair.is_for(&asked) => {
                let names = pair.hosts.join(", ");
                let message = format!("the certificate in {secret} is not for {asked}");
                let hint = format!("it is for {names}; clients will not take it");
                self.warn(resource, place, message, &hint);
            }
            (Ok(_), _) => {}
        }
    }

    /// A Workload that says it is a gateway.
    pub(super) fn check_carrier(&mut self, resource: &Resource, workload: &Workload) {
        let Some(name) = &workload.gateway else {
            return;
        };
        let key = Key {
            kind: Kind::Gateway,
            namespace: resource.key.namespace.clone(),
            name: name.clone(),
        };
        if self.index.gateway(&key).is_none() {
            let message = format!("there is no {key} for this Workload to be");
            self.warn(
                resource,
                None,
                message,
                "add it; until then nobody comes in",
            );
        }
    }

    /// Whether somebody follows the route by each of the Gateways that it names.
    pub(super) fn check_attached(&mut self, resource: &Resource, route: &HttpRoute) {
        for by in &route.gateways {
            let key = &resource.key;
            let attached = Attached { key, route, by };
            if let Some((message, hint)) = self.why_not(&attached) {
                self.warn(resource, Some(by.place), message, hint);
            }
        }
    }

    fn why_not(&self, attached: &Attached<'_>) -> Option<(String, &'static str)> {
        let key = &attached.by.gateway;
        let Some(gateway) = self.index.gateway(key) else {
            let message = format!("there is no {key}");
            return Some((message, "add it; until then nobody follows the route there"));
        };
        let mut listeners: Vec<_> = gateway.listeners.iter().collect();
        listeners.retain(|it| attached.is_named(it));
        if listeners.is_empty() {
            let message = format!("the {key} has no such listener");
            return Some((message, "correct `sectionName` or `port`"));
        }
        listeners.retain(|it| attached.is_allowed(it, &key.namespace));
        if listeners.is_empty() {
            let message = format!("the {key} takes no routes of other namespaces");
            let hint = "set `allowedRoutes: {namespaces: {from: All}}` on its listener";
            return Some((message, hint));
        }
        listeners.retain(|it| !common_hosts(&it.host, &attached.route.hosts).is_empty());
        listeners.is_empty().then(|| {
            let message = format!("the {key} has none of the hostnames of this route");
            (message, "let the listener's `hostname` take them")
        })
    }
}

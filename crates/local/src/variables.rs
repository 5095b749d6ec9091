//! What an application's environment says of Services: where each is called, under the names that
//! Kubernetes has for it; and words of a file in which such names stand. Pure: called by the
//! supervisor before an application starts.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use serde::Deserialize;

use crate::mesh::Service;

/// Names with their values, in the order in which they were made.
pub(crate) type Variables = Vec<(String, String)>;

/// The variables of an application in `namespace`, for those ports of `services` that `find` has an
/// address for. Services of other namespaces have theirs behind their name, and yield to those of
/// its own.
pub(crate) fn of_services(
    namespace: &str,
    services: &[Service],
    find: impl Fn(&Service, u16) -> Option<SocketAddr>,
) -> Variables {
    let is_own = |service: &&Service| service.namespace == namespace;
    let (own, others): (Vec<_>, Vec<_>) = services.iter().partition(is_own);
    let named = own.into_iter().map(|one| (word(&one.name), one));
    let suffixed = others.into_iter();
    let suffixed = suffixed.map(|one| (word(&format!("{}.{}", one.name, one.namespace)), one));
    let mut all = Variables::new();
    for (name, service) in named.chain(suffixed) {
        for (variable, value) in of_service(&name, service, &find) {
            if !all.iter().any(|(known, _)| *known == variable) {
                all.push((variable, value));
            }
        }
    }
    all
}

fn of_service(
    name: &str,
    service: &Service,
    find: impl Fn(&Service, u16) -> Option<SocketAddr>,
) -> Variables {
    let ports = service.ports.iter();
    let found = ports.filter_map(|port| Some((port, find(service, port.number)?)));
    let found: Vec<_> = found.collect();
    let Some((_, first)) = found.first() else {
        return Variables::new();
    };
    let mut all = vec![
        (format!("{name}_SERVICE_HOST"), first.ip().to_string()),
        (format!("{name}_SERVICE_PORT"), first.port().to_string()),
    ];
    for (port, address) in &found {
        if let Some(label) = &port.name {
            let variable = format!("{name}_SERVICE_PORT_{}", word(label));
            all.push((variable, address.port().to_string()));
        }
    }
    all
}

/// As a name in an environment is written.
fn word(name: &str) -> String {
    let upper = name.to_ascii_uppercase();
    upper.replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}

/// The virtual addresses of Services, as the control plane keeps them: what a connection is made to
/// where it is intercepted.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Book {
    /// Those that it allocated, by `namespace/name`.
    #[serde(default)]
    services: BTreeMap<String, Vec<IpAddr>>,
}

impl Book {
    /// The one in a file, which the control plane writes.
    pub(crate) fn read(text: &str) -> anyhow::Result<Self> {
        Ok(serde_json::from_str(text)?)
    }

    /// One address of a Service: IPv4 before IPv6, which stands in URLs in brackets.
    pub(crate) fn of(&self, service: &Service) -> Option<IpAddr> {
        let key = format!("{}/{}", service.namespace, service.name);
        let allocated = self.services.get(&key).into_iter().flatten();
        let all: Vec<_> = service.given.iter().chain(allocated).collect();
        let mut v4 = all.iter().filter(|address| address.is_ipv4());
        v4.next().or_else(|| all.first()).map(|address| **address)
    }
}

/// `text` with the value of each `${NAME}` that `variables` have; others stay as they are.
pub(crate) fn fill(text: &str, variables: &[(String, String)]) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        filled.push_str(before);
        let name = after.split_once('}');
        let known = name.and_then(|(name, behind)| {
            let mut known = variables.iter().filter(|(known, _)| known == name);
            known.next().map(|(_, value)| (value, behind))
        });
        match known {
            Some((value, behind)) => {
                filled.push_str(value);
                rest = behind;
            }
            None => {
                filled.push_str("${");
                rest = after;
            }
        }
    }
    filled + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::ServicePort;

    fn service(namespace: &str, name: &str, ports: &[(Option<&str>, u16)]) -> Service {
        let port = |(name, number): &(Option<&str>, u16)| ServicePort {
            name: name.map(str::to_owned),
            number: *number,
        };
        Service {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            given: Vec::new(),
            ports: ports.iter().map(port).collect(),
        }
    }

    #[track_caller]
    fn check(services: &[Service], expected: &[&str]) {
        let find = |_: &Service, port: u16| {
            let address = SocketAddr::from(([127, 77, 0, 2], 40_000 + port));
            (port != 9).then_some(address)
        };
        let found = of_services("default", services, find);
        let shown = found.iter().map(|(name, value)| format!("{name}={value}"));
        assert_eq!(shown.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn services_have_the_names_that_kubernetes_gives_them() {
        check(
            &[service(
                "default",
                "my-db",
                &[(Some("sql"), 5), (Some("web-ui"), 6)],
            )],
            &[
                "MY_DB_SERVICE_HOST=127.77.0.2",
                "MY_DB_SERVICE_PORT=40005",
                "MY_DB_SERVICE_PORT_SQL=40005",
                "MY_DB_SERVICE_PORT_WEB_UI=40006",
            ],
        );
        // What has no address is not told of.
        check(&[service("default", "a", &[(None, 9)])], &[]);
    }

    #[test]
    fn services_of_other_namespaces_yield_to_our_own() {
        check(
            &[
                service("shop", "a", &[(None, 1)]),
                service("default", "a-shop", &[(None, 2)]),
                service("default", "a", &[(None, 3)]),
                service("shop", "b", &[(None, 4)]),
            ],
            &[
                "A_SHOP_SERVICE_HOST=127.77.0.2",
                "A_SHOP_SERVICE_PORT=40002",
                "A_SERVICE_HOST=127.77.0.2",
                "A_SERVICE_PORT=40003",
                "B_SHOP_SERVICE_HOST=127.77.0.2",
                "B_SHOP_SERVICE_PORT=40004",
            ],
        );
    }

    #[test]
    fn words_are_filled_with_what_is_known_and_nothing_else() {
        let variables = [("A", "1"), ("B_C", "${A}")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        for (text, expected) in [
            ("", ""),
            ("${A}", "1"),
            ("x${A}${A}y", "x11y"),
            // Not once more.
            ("${B_C}", "${A}"),
            ("${HOME} $A ${A ${A}", "${HOME} $A ${A 1"),
            ("${", "${"),
            ("${${A}}", "${1}"),
        ] {
            assert_eq!(fill(text, &variables), expected, "{text}");
        }
    }

    #[test]
    fn the_address_is_one_that_stands_in_a_url_as_it_is() {
        let text =
            r#"{"services": {"default/a": ["fd78::2", "10.78.0.2"], "shop/a": ["fd78::3"]}}"#;
        let book = Book::read(text).unwrap();
        let of = |service: &Service| book.of(service).map(|address| address.to_string());
        let found = |namespace| of(&service(namespace, "a", &[]));
        assert_eq!(found("default").as_deref(), Some("10.78.0.2"));
        assert_eq!(found("shop").as_deref(), Some("fd78::3"));
        assert_eq!(found("other"), None);
        let given = Service {
            given: vec!["10.1.1.1".parse().unwrap()],
            ..service("shop", "a", &[])
        };
        assert_eq!(of(&given).as_deref(), Some("10.1.1.1"));
    }
}

//! What clients outside of the mesh meet: the certificate that a listener shows them, by the server
//! name that they ask for. Built by `snapshot`, asked by handshakes. Must never show one that is
//! another host's because its own is missing.

use identity::serving::{self, Certificate};
use identity::tls::{ALPN_PUBLIC_H2, ALPN_PUBLIC_HTTP1};
use model::{HostMatch, Shown};
use rustls::ServerConfig;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Certificates by the names under which listeners know them.
pub(crate) type Certificates = BTreeMap<String, Arc<Certificate>>;

/// How a listener takes clients outside of the mesh.
pub(crate) enum Edge {
    Plaintext,
    Tls(Arc<Terminal>),
}

impl Edge {
    /// What clients wrote before the host.
    pub(crate) const fn scheme(&self) -> &'static str {
        match self {
            Self::Plaintext => "http",
            Self::Tls(_) => "https",
        }
    }

    /// `previous` is what the same listener was before: sessions live on as long as it shows the
    /// same.
    pub(crate) fn build(
        edge: &model::Edge,
        certificates: &Certificates,
        previous: Option<&Self>,
    ) -> Result<Self, rustls::Error> {
        let model::Edge::Tls(shown) = edge else {
            return Ok(Self::Plaintext);
        };
        let find = |one: &Shown| {
            let certificate = certificates.get(&one.certificate);
            (one.hosts.clone(), certificate.map(Arc::clone))
        };
        let shows: Vec<_> = shown.iter().map(find).collect();
        if let Some(Self::Tls(previous)) = previous
            && previous.is_same(&shows)
        {
            return Ok(Self::Tls(Arc::clone(previous)));
        }
        let resolver = Arc::new(Resolver::build(&shows));
        let config = serving::server_config(resolver, &[ALPN_PUBLIC_H2, ALPN_PUBLIC_HTTP1])?;
        let terminal = Terminal { config, shows };
        Ok(Self::Tls(Arc::new(terminal)))
    }
}

type Shows = Vec<(Vec<HostMatch>, Option<Arc<Certificate>>)>;

/// Where TLS of clients outside of the mesh ends.
pub(crate) struct Terminal {
    pub(crate) config: Arc<ServerConfig>,
    shows: Shows,
}

impl Terminal {
    fn is_same(&self, shows: &Shows) -> bool {
        let is_same =
            |one: &Option<Arc<Certificate>>, other: &Option<Arc<Certificate>>| match (one, other) {
                (Some(one), Some(other)) => Arc::ptr_eq(one, other),
                (None, None) => true,
                _ => false,
            };
        let mut pairs = self.shows.iter().zip(shows);
        self.shows.len() == shows.len()
            && pairs.all(|(one, other)| one.0 == other.0 && is_same(&one.1, &other.1))
    }
}

/// Chooses by server name. A host without a certificate has its place all the same.
#[derive(Debug, Default)]
struct Resolver {
    exact: HashMap<String, Option<Arc<CertifiedKey>>>,
    /// With the leading dot, longest first.
    suffixes: Vec<(String, Option<Arc<CertifiedKey>>)>,
    any: Option<Arc<CertifiedKey>>,
}

impl Resolver {
    fn build(shows: &Shows) -> Self {
        let mut resolver = Self::default();
        for (hosts, certificate) in shows {
            let key = certificate.as_ref().map(|it| Arc::clone(it.key()));
            for host in hosts {
                match host {
                    HostMatch::Any => resolver.any.clone_from(&key),
                    HostMatch::Exact(name) => {
                        resolver.exact.insert(name.clone(), key.clone());
                    }
                    HostMatch::Suffix(name) => resolver.suffixes.push((name.clone(), key.clone())),
                }
            }
        }
        let length = |(name, _): &(String, _)| std::cmp::Reverse(name.len());
        resolver.suffixes.sort_by_key(length);
        resolver
    }

    fn find(&self, name: Option<&str>) -> Option<&Arc<CertifiedKey>> {
        let Some(name) = name.map(str::to_ascii_lowercase) else {
            return self.any.as_ref();
        };
        if let Some(key) = self.exact.get(&name) {
            return key.as_ref();
        }
        let fits = |suffix: &str| name.len() > suffix.len() && name.ends_with(suffix);
        let mut suffixes = self.suffixes.iter();
        match suffixes.find(|(suffix, _)| fits(suffix)) {
            Some((_, key)) => key.as_ref(),
            None => self.any.as_ref(),
        }
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.find(hello.server_name()).map(Arc::clone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::browser::certificate;

    fn named(name: &str) -> Arc<Certificate> {
        let (chain, key) = certificate(&[name]);
        Arc::new(Certificate::from_pem(&chain, &key).unwrap())
    }

    fn shown(host: HostMatch, certificate: &str) -> Shown {
        Shown {
            hosts: vec![host],
            certificate: certificate.to_owned(),
        }
    }

    fn exact(name: &str) -> HostMatch {
        HostMatch::Exact(name.to_owned())
    }

    fn suffix(name: &str) -> HostMatch {
        HostMatch::Suffix(name.to_owned())
    }

    fn terminal(edge: &Edge) -> &Arc<Terminal> {
        let Edge::Tls(terminal) = edge else {
            panic!("no TLS")
        };
        terminal
    }

    #[test]
    fn the_most_specific_name_decides_even_if_its_certificate_is_missing() {
        let certificates: Certificates = ["a", "b", "deep", "any"]
            .map(|name| (name.to_owned(), named(name)))
            .into();
        let edge = model::Edge::Tls(vec![
            shown(HostMatch::Any, "any"),
            shown(suffix(".b.example"), "b"),
            shown(suffix(".deep.b.example"), "deep"),
            shown(exact("a.b.example"), "a"),
            shown(exact("none.b.example"), "missing"),
        ]);
        let edge = Edge::build(&edge, &certificates, None).unwrap();
        let resolver = Resolver::build(&terminal(&edge).shows);
        for (name, expected) in [
            (Some("a.b.example"), Some("a")),
            (Some("A.B.Example"), Some("a")),
            (Some("x.b.example"), Some("b")),
            (Some("x.deep.b.example"), Some("deep")),
            (Some("b.example"), Some("any")),
            (Some("none.b.example"), None),
            (None, Some("any")),
        ] {
            let expected = expected.map(|name| certificates[name].key());
            let found = resolver.find(name);
            let is_same = match (found, expected) {
                (Some(found), Some(expected)) => Arc::ptr_eq(found, expected),
                (found, expected) => found.is_none() && expected.is_none(),
            };
            assert!(is_same, "{name:?}");
        }
    }

    #[test]
    fn sessions_live_on_while_the_same_is_shown() {
        let mut certificates: Certificates = [("a".to_owned(), named("a"))].into();
        let edge = model::Edge::Tls(vec![shown(exact("a"), "a"), shown(exact("b"), "b")]);
        let first = Edge::build(&edge, &certificates, None).unwrap();
        let second = Edge::build(&edge, &certificates, Some(&first)).unwrap();
        assert!(Arc::ptr_eq(terminal(&first), terminal(&second)));
        certificates.insert("b".to_owned(), named("b"));
        let third = Edge::build(&edge, &certificates, Some(&second)).unwrap();
        assert!(!Arc::ptr_eq(terminal(&second), terminal(&third)));
    }
}

//! What the control plane tells, and what each stream has been told of it. Used by `serve`.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use xds::delta::WILDCARD;
use xds::kind::Kind;
use xds::proto::discovery::{DeltaDiscoveryRequest, DeltaDiscoveryResponse, Resource};
use xds::proto::google::Any;

/// All resources, with their versions.
#[derive(Default)]
pub(super) struct Book {
    pages: [BTreeMap<String, (String, Bytes)>; Kind::COUNT],
    /// Of which nothing is said, not even that there is none.
    withheld: BTreeSet<(Kind, String)>,
    /// Of all changes so far.
    count: u64,
}

/// What one stream wants, and what it was told.
#[derive(Default)]
pub(super) struct Listening {
    kinds: [Wanted; Kind::COUNT],
    nonce: u64,
    is_envoy: bool,
}

#[derive(Default)]
struct Wanted {
    is_open: bool,
    names: BTreeSet<String>,
    /// Name → version that was sent; `None` if it was said to be gone.
    told: BTreeMap<String, Option<String>>,
    /// A wildcard is answered, if only with nothing.
    owes: bool,
}

impl Book {
    pub(super) fn set(&mut self, kind: Kind, name: &str, bytes: Bytes) {
        self.count += 1;
        let page = &mut self.pages[kind.index()];
        page.insert(name.to_owned(), (self.count.to_string(), bytes));
    }

    pub(super) fn remove(&mut self, kind: Kind, name: &str) {
        self.pages[kind.index()].remove(name);
    }

    pub(super) fn withhold(&mut self, kind: Kind, name: &str) {
        self.withheld.insert((kind, name.to_owned()));
    }

    pub(super) fn release(&mut self) {
        self.withheld.clear();
    }

    pub(super) fn find(&self, kind: Kind, name: &str) -> Option<Bytes> {
        let (_, bytes) = self.pages[kind.index()].get(name)?;
        Some(bytes.clone())
    }
}

impl Listening {
    /// Whether it is the first of its kind.
    pub(super) fn on_request(&mut self, request: &DeltaDiscoveryRequest) -> bool {
        let Some(kind) = Kind::find(&request.type_url) else {
            return false;
        };
        let agent = request.node.as_ref().map(|node| &*node.user_agent_name);
        self.is_envoy |= agent == Some("envoy");
        let wanted = &mut self.kinds[kind.index()];
        // Who has never asked for a name wants all, of kinds that have all.
        let has_all = matches!(kind, Kind::Cluster | Kind::Listener);
        if !wanted.is_open && has_all && request.resource_names_subscribe.is_empty() {
            wanted.names.insert(WILDCARD.to_owned());
            wanted.owes = true;
        }
        for (name, version) in &request.initial_resource_versions {
            wanted.told.insert(name.clone(), Some(version.clone()));
        }
        for name in &request.resource_names_unsubscribe {
            wanted.names.remove(name);
            wanted.told.remove(name);
        }
        for name in &request.resource_names_subscribe {
            wanted.names.insert(name.clone());
            wanted.owes |= name == WILDCARD;
        }
        !std::mem::replace(&mut wanted.is_open, true)
    }

    /// Whether it said so in its first request.
    pub(super) const fn is_envoy(&self) -> bool {
        self.is_envoy
    }

    /// What it has not been told yet, but for the kinds in `muted`.
    pub(super) fn news(&mut self, book: &Book, muted: &[Kind]) -> Vec<DeltaDiscoveryResponse> {
        let mut all = Vec::new();
        for kind in Kind::ALL.into_iter().filter(|kind| !muted.contains(kind)) {
            let Some(mut response) = self.kinds[kind.index()].news(kind, book) else {
                continue;
            };
            self.nonce += 1;
            response.nonce = format!("n{}", self.nonce);
            all.push(response);
        }
        all
    }
}

impl Wanted {
    fn news(&mut self, kind: Kind, book: &Book) -> Option<DeltaDiscoveryResponse> {
        let page = &book.pages[kind.index()];
        let is_said = |name: &String| !book.withheld.contains(&(kind, name.clone()));
        let mut response = DeltaDiscoveryResponse {
            type_url: kind.type_url().to_owned(),
            ..DeltaDiscoveryResponse::default()
        };
        let all = self.names.contains(WILDCARD);
        for (name, (version, bytes)) in page.iter().filter(|(name, _)| is_said(name)) {
            let is_told = self.told.get(name) == Some(&Some(version.clone()));
            if !is_told && (all || self.names.contains(name)) {
                response
                    .resources
                    .push(resource(kind, name, version, bytes));
                self.told.insert(name.clone(), Some(version.clone()));
            }
        }
        let asked = self.names.iter().filter(|name| *name != WILDCARD);
        let known: BTreeSet<String> = asked.chain(self.told.keys()).cloned().collect();
        for name in known.into_iter().filter(is_said) {
            if !page.contains_key(&name) && self.told.insert(name.clone(), None) != Some(None) {
                response.removed_resources.push(name);
            }
        }
        let is_empty = response.resources.is_empty() && response.removed_resources.is_empty();
        let owes = std::mem::take(&mut self.owes);
        (owes || !is_empty).then_some(response)
    }
}

fn resource(kind: Kind, name: &str, version: &str, bytes: &Bytes) -> Resource {
    let type_url = kind.type_url().to_owned();
    let value = bytes.clone();
    Resource {
        name: name.to_owned(),
        version: version.to_owned(),
        resource: Some(Any { type_url, value }),
        ..Resource::default()
    }
}

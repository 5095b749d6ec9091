//! What operators want to know of the conversation with the control plane; the page `/control`.
//! Written by `control`, shown by `admin`. Holds no key and no token.

use super::leaf::Leaf;
use model::ControlAddress;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::SystemTime;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use xds::error::Ignored;
use xds::kind::Kind;

/// Paths of ignored fields that are told apart; further ones are counted together.
const IGNORED_MAX: usize = 256;

/// How the conversation goes.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    /// Who it is with now.
    connected: Option<String>,
    /// Since when that is, or is not (RFC 3339).
    since: String,
    /// Why the last connection ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    /// When the certificate ends (RFC 3339), if the control plane signs it.
    #[serde(skip_serializing_if = "String::is_empty")]
    certificate_until: String,
    kinds: BTreeMap<&'static str, Heard>,
    /// Paths of fields that were not understood and need not be, with how often they came.
    ignored_fields: BTreeMap<String, u64>,
}

/// What came of one kind of resource.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Heard {
    accepted: u64,
    refused: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_refusal: Option<String>,
}

impl Status {
    pub(super) fn connected(&mut self, address: &ControlAddress) {
        self.connected = Some(address.to_string());
        self.since = now();
    }

    pub(super) fn disconnected(&mut self, why: Option<&str>) {
        if self.connected.take().is_some() {
            self.since = now();
        }
        self.last_error = why.map(str::to_owned);
    }

    pub(super) fn certificate(&mut self, leaf: &Leaf) {
        self.certificate_until = leaf.not_after();
    }

    pub(crate) fn heard(&mut self, kind: Kind, accepted: usize, refused: usize, why: &str) {
        let heard = self.kinds.entry(kind.label()).or_default();
        heard.accepted += accepted as u64;
        heard.refused += refused as u64;
        if refused > 0 {
            heard.last_refusal = Some(why.to_owned());
        }
    }

    pub(super) fn ignored(&mut self, fields: &[Ignored]) {
        for Ignored { path, count } in fields {
            let is_known = self.ignored_fields.contains_key(path);
            let path = match is_known || self.ignored_fields.len() < IGNORED_MAX {
                true => path.as_str(),
                false => "(others)",
            };
            *self.ignored_fields.entry(path.to_owned()).or_default() += *count as u64;
        }
    }

    /// Whether there is a conversation.
    pub(crate) fn is_connected(&self) -> bool {
        self.connected.is_some()
    }

    /// Resources accepted and refused so far, by kind.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&'static str, u64, u64)> {
        let kinds = self.kinds.iter();
        kinds.map(|(kind, heard)| (*kind, heard.accepted, heard.refused))
    }
}

fn now() -> String {
    let now = OffsetDateTime::from(SystemTime::now()).truncate_to_second();
    now.format(&Rfc3339).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(path: String, count: usize) -> Ignored {
        Ignored { path, count }
    }

    #[test]
    fn ignored_fields_are_counted_and_not_remembered_without_end() {
        let mut status = Status::default();
        for number in 0..2 * IGNORED_MAX {
            status.ignored(&[field(format!("cluster.field-{number}"), 2)]);
        }
        status.ignored(&[field("cluster.field-0".to_owned(), 1)]);
        let shown = serde_json::to_value(&status).unwrap();
        let fields = shown["ignoredFields"].as_object().unwrap();
        assert_eq!(fields.len(), IGNORED_MAX + 1);
        assert_eq!(fields["cluster.field-0"], 3);
        assert_eq!(fields["(others)"], 2 * IGNORED_MAX);
    }

    #[test]
    fn last_refusal_stays_while_counts_go_on() {
        let mut status = Status::default();
        status.heard(Kind::Cluster, 1, 2, "why");
        status.heard(Kind::Cluster, 3, 0, "");
        assert_eq!(status.counts().collect::<Vec<_>>(), [("cluster", 4, 2)]);
        let shown = serde_json::to_value(&status).unwrap();
        assert_eq!(shown["kinds"]["cluster"]["lastRefusal"], "why");
    }

    #[test]
    fn why_it_ended_is_shown_until_it_ends_well() {
        let mut status = Status::default();
        status.connected(&ControlAddress::Ip("127.0.0.1:15128".parse().unwrap()));
        assert!(status.is_connected());
        status.disconnected(Some("gone"));
        assert!(!status.is_connected());
        assert_eq!(status.last_error.as_deref(), Some("gone"));
        status.disconnected(None);
        assert_eq!(status.last_error, None);
    }
}

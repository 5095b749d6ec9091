//! Metadata: what Envoy has no word for stands under `leno.dev`, as texts and lists of texts. What
//! stands under other names is somebody else's, and ignored.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::fields::Notes;
use crate::place::Place;
use crate::proto::core::Metadata;
use crate::proto::google::{Kind, ListValue, Struct, Value};

/// Our name among those of metadata.
const OURS: &str = "leno.dev";
/// Envoy's name for what chooses an endpoint's transport socket.
pub(crate) const SOCKET_MATCH: &str = "envoy.transport_socket_match";

/// Metadata in the making.
#[derive(Default)]
pub(crate) struct Builder(Metadata);

impl Builder {
    /// Goes on with what is there.
    pub(crate) fn of(metadata: Option<Metadata>) -> Self {
        Self(metadata.unwrap_or_default())
    }

    /// Adds a text under our name.
    pub(crate) fn text(self, key: &str, value: &str) -> Self {
        self.put(OURS, key, text(value))
    }

    /// Adds a list of texts under our name, if there are any.
    pub(crate) fn list(self, key: &str, values: &[String]) -> Self {
        if values.is_empty() {
            return self;
        }
        let values = values.iter().map(|value| text(value)).collect();
        let kind = Some(Kind::List(ListValue { values }));
        self.put(OURS, key, Value { kind })
    }

    /// Adds what chooses a transport socket.
    pub(crate) fn socket_match(self, key: &str, value: &str) -> Self {
        self.put(SOCKET_MATCH, key, text(value))
    }

    fn put(mut self, name: &str, key: &str, value: Value) -> Self {
        let fields = &mut self.0.filter_metadata;
        let fields = &mut fields.entry(name.to_owned()).or_default().fields;
        fields.insert(key.to_owned(), value);
        self
    }

    /// Nothing if nothing was added.
    pub(crate) fn build(self) -> Option<Metadata> {
        Some(self.0).filter(|metadata| !metadata.filter_metadata.is_empty())
    }
}

/// A struct with one text in it.
pub(crate) fn single(key: &str, value: &str) -> Struct {
    Struct {
        fields: BTreeMap::from([(key.to_owned(), text(value))]),
    }
}

/// The one text that the struct holds, under that key.
pub(crate) fn as_single<'a>(value: &'a Struct, key: &str) -> Option<&'a str> {
    let held = value.fields.get(key).filter(|_| value.fields.len() == 1)?;
    as_text(held)
}

fn text(value: &str) -> Value {
    Value {
        kind: Some(Kind::String(value.to_owned())),
    }
}

fn as_text(value: &Value) -> Option<&str> {
    match &value.kind {
        Some(Kind::String(text)) => Some(text),
        _ => None,
    }
}

/// What stands under the names that we read.
pub(crate) struct Reader<'a> {
    ours: Option<&'a Struct>,
    socket_match: Option<&'a Struct>,
}

impl<'a> Reader<'a> {
    /// Opens metadata in which only `keys` may stand under our name. Other names are noted.
    pub(crate) fn open(
        metadata: Option<&'a Metadata>,
        keys: &[&str],
        at: &Place<'_>,
        notes: &mut Notes,
    ) -> Result<Self, Error> {
        let mut reader = Self {
            ours: None,
            socket_match: None,
        };
        let at = at.field("metadata");
        let at = at.field("filter_metadata");
        for (name, value) in metadata.iter().flat_map(|it| &it.filter_metadata) {
            match name.as_str() {
                OURS => reader.ours = Some(value),
                SOCKET_MATCH => reader.socket_match = Some(value),
                _ => notes.add(&at),
            }
        }
        let mut used = reader.ours.iter().flat_map(|ours| ours.fields.keys());
        match used.find(|key| !keys.contains(&key.as_str())) {
            None => Ok(reader),
            Some(key) => Err(Error::unsupported(&at.field(OURS).field(key))),
        }
    }

    fn value(&self, key: &str) -> Option<&'a Value> {
        self.ours.and_then(|ours| ours.fields.get(key))
    }

    /// A text under our name.
    pub(crate) fn text(&self, key: &str, at: &Place<'_>) -> Result<Option<&'a str>, Error> {
        let value = self.value(key);
        value
            .map(|value| as_text(value).ok_or_else(|| wrong(key, at)))
            .transpose()
    }

    /// A list of texts under our name; empty if there is none.
    pub(crate) fn list(&self, key: &str, at: &Place<'_>) -> Result<Vec<String>, Error> {
        let texts = match self.value(key).map(|value| &value.kind) {
            None => return Ok(Vec::new()),
            Some(Some(Kind::List(list))) => list.values.iter().map(as_text),
            Some(_) => return Err(wrong(key, at)),
        };
        let texts = texts.map(|text| text.map(str::to_owned).ok_or_else(|| wrong(key, at)));
        texts.collect()
    }

    /// The one text that chooses a transport socket, under that key.
    pub(crate) fn socket_match(&self, key: &str) -> Option<&'a str> {
        self.socket_match.and_then(|value| as_single(value, key))
    }

    /// Whether anything chooses a transport socket.
    pub(crate) fn has_socket_match(&self) -> bool {
        self.socket_match
            .is_some_and(|value| !value.fields.is_empty())
    }
}

fn wrong(key: &str, at: &Place<'_>) -> Error {
    let at = at.field("metadata");
    let at = at.field("filter_metadata");
    Error::invalid(
        &at.field(OURS).field(key),
        "not a text, or a list of texts, as it should be",
    )
}

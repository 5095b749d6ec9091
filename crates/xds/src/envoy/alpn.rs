//! Which ALPN an upstream is offered. Our sidecar offers the one that a request needs; Envoy offers
//! what the cluster says, whatever it speaks then. So a filter chain notes what its connections
//! speak, and a cluster for all protocols has a socket for each, of which that note chooses one.

use std::collections::BTreeMap;

use model::Protocol;

use crate::any::{Typed, pack};
use crate::cluster::KEY;
use crate::metadata::SOCKET_MATCH;
use crate::proto::core::DataSource;
use crate::proto::envoy::{
    EndpointMetadataInput, FilterStateInput, FilterStateValue, MatchMap, Matcher, MatcherTree,
    OnMatch, PathSegment, SetFilterState, SubstitutionFormatString, TransportSocketName,
    TypedExtensionConfig,
};
use crate::proto::listener::Filter;

const FILTER: &str = "envoy.filters.network.set_filter_state";
/// Under which the note is kept, as a text by which connections are told apart.
const NOTE: &str = "leno.dev/protocol";
const TEXT: &str = "envoy.hashable_string";
/// Upstream connections see it.
const SHARED_ONCE: i32 = 1;

/// What a connection is found to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alpn {
    Http1,
    Http2,
    Tcp,
}

impl Alpn {
    pub(crate) const ALL: [Self; 3] = [Self::Http1, Self::Http2, Self::Tcp];

    /// What an upstream that takes all is offered for it.
    pub(crate) const fn protocol(self) -> Protocol {
        match self {
            Self::Http1 => Protocol::Http1,
            Self::Http2 => Protocol::Http2,
            Self::Tcp => Protocol::Tcp,
        }
    }

    /// The note, which is the name of the socket as well.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Http1 => "http1",
            Self::Http2 => "http2",
            Self::Tcp => "tcp",
        }
    }
}

/// The filter that notes it.
pub(crate) fn set(alpn: Alpn) -> Filter {
    let text = DataSource {
        inline_string: Some(alpn.word().to_owned()),
        inline_bytes: None,
    };
    let value = FilterStateValue {
        object_key: NOTE.to_owned(),
        factory_key: TEXT.to_owned(),
        format_string: Some(SubstitutionFormatString {
            text_format_source: Some(text),
        }),
        shared_with_upstream: SHARED_ONCE,
    };
    Filter {
        name: FILTER.to_owned(),
        typed_config: Some(pack(&SetFilterState {
            on_new_connection: vec![value],
        })),
    }
}

/// Chooses the socket of the connection's protocol, for endpoints of the transport `word`, or where
/// there is none for all.
pub(crate) fn socket_matcher(word: Option<&str>) -> Matcher {
    let note = FilterStateInput {
        key: NOTE.to_owned(),
    };
    let action = |alpn: Alpn| OnMatch {
        action: Some(extension(&TransportSocketName {
            name: alpn.word().to_owned(),
        })),
        matcher: None,
    };
    let by_note = Alpn::ALL.map(|alpn| (alpn.word().to_owned(), action(alpn)));
    let by_note = tree(&note, by_note.into());
    let Some(word) = word else {
        return by_note;
    };
    let transport = EndpointMetadataInput {
        filter: SOCKET_MATCH.to_owned(),
        path: vec![PathSegment {
            key: KEY.to_owned(),
        }],
    };
    let on_match = OnMatch {
        matcher: Some(by_note),
        action: None,
    };
    tree(&transport, BTreeMap::from([(word.to_owned(), on_match)]))
}

fn tree(input: &impl Typed, map: BTreeMap<String, OnMatch>) -> Matcher {
    Matcher {
        matcher_tree: Some(MatcherTree {
            input: Some(extension(input)),
            exact_match_map: Some(MatchMap { map }),
        }),
    }
}

/// Found by its type: the name is for people.
fn extension(config: &impl Typed) -> TypedExtensionConfig {
    TypedExtensionConfig {
        name: NOTE.to_owned(),
        typed_config: Some(pack(config)),
    }
}

//! Message charts: what a client says after what it was told.

use super::*;
use crate::proto::discovery::Resource;
use crate::proto::google::Any;
use crate::update::DETAIL_BYTES_MAX;
use bytes::Bytes;

fn client() -> Client {
    Client::new(Node {
        id: "web.default".to_owned(),
        ..Node::default()
    })
}

fn resource(kind: Kind, name: &str, version: &str) -> Resource {
    Resource {
        name: name.to_owned(),
        version: version.to_owned(),
        resource: Some(Any {
            type_url: kind.type_url().to_owned(),
            value: Bytes::from(format!("{name} {version}")),
        }),
        ..Resource::default()
    }
}

fn response(
    kind: Kind,
    nonce: &str,
    added: &[(&str, &str)],
    gone: &[&str],
) -> DeltaDiscoveryResponse {
    let added = added.iter();
    DeltaDiscoveryResponse {
        type_url: kind.type_url().to_owned(),
        nonce: nonce.to_owned(),
        resources: added
            .map(|(name, version)| resource(kind, name, version))
            .collect(),
        removed_resources: gone.iter().map(|name| (*name).to_owned()).collect(),
        ..DeltaDiscoveryResponse::default()
    }
}

/// Everything that the client has to say, one line a request.
fn said(client: &mut Client) -> Vec<String> {
    let requests = std::iter::from_fn(|| client.take_request());
    requests.map(|request| line(&request)).collect()
}

fn line(request: &DeltaDiscoveryRequest) -> String {
    let mut words = Vec::new();
    words.extend(request.node.iter().map(|node| format!("i am {}", node.id)));
    let kind = Kind::find(&request.type_url);
    words.push(kind.map_or("?", Kind::label).to_owned());
    let (more, less) = (
        &request.resource_names_subscribe,
        &request.resource_names_unsubscribe,
    );
    words.extend(more.iter().map(|name| format!("+{name}")));
    words.extend(less.iter().map(|name| format!("-{name}")));
    let known = request.initial_resource_versions.iter();
    words.extend(known.map(|(name, version)| format!("{name}={version}")));
    if !request.response_nonce.is_empty() {
        let verdict = if request.error_detail.is_some() {
            "nack"
        } else {
            "ack"
        };
        words.push(format!("{verdict} {}", request.response_nonce));
    }
    words.extend(
        request
            .error_detail
            .iter()
            .map(|error| error.message.clone()),
    );
    words.join(" ")
}

fn known(client: &Client, kind: Kind) -> Vec<String> {
    let known = client.known(kind);
    known
        .map(|(name, version)| format!("{name}={version}"))
        .collect()
}

/// Connected, and through its first words.
fn connected(wanted: &[(Kind, &str)]) -> Client {
    let mut client = client();
    for (kind, name) in wanted {
        client.subscribe(*kind, [*name]);
    }
    client.connected();
    said(&mut client);
    client
}

#[test]
fn the_first_words_are_in_the_order_of_kinds_and_introduce_once() {
    let mut client = client();
    client.subscribe(Kind::Listener, [WILDCARD]);
    client.subscribe(Kind::Endpoints, ["b", "a"]);
    client.subscribe(Kind::Secret, ["ROOTCA"]);
    assert_eq!(said(&mut client), [""; 0]);
    client.connected();
    assert_eq!(
        said(&mut client),
        [
            "i am web.default secret +ROOTCA",
            "endpoints +a +b",
            "listener +*"
        ]
    );
    assert_eq!(said(&mut client), [""; 0]);
}

#[test]
fn what_is_accepted_is_known_and_named_on_the_next_stream() {
    let mut client = connected(&[(Kind::Cluster, WILDCARD)]);
    let first = response(Kind::Cluster, "1", &[("a", "v1"), ("b", "v1")], &[]);
    let update = client.on_response(first).unwrap();
    client.accept(&update);
    assert_eq!(said(&mut client), ["cluster ack 1"]);
    let update = client
        .on_response(response(Kind::Cluster, "2", &[("a", "v2")], &["b"]))
        .unwrap();
    client.accept(&update);
    assert_eq!(known(&client, Kind::Cluster), ["a=v2"]);
    client.connected();
    assert_eq!(said(&mut client), ["i am web.default cluster +* a=v2"]);
}

#[test]
fn what_is_refused_stays_as_it_was() {
    let mut client = connected(&[(Kind::Cluster, WILDCARD)]);
    let update = client
        .on_response(response(Kind::Cluster, "1", &[("a", "v1")], &[]))
        .unwrap();
    client.accept(&update);
    let next = response(Kind::Cluster, "2", &[("a", "v2"), ("b", "v2")], &[]);
    let update = client.on_response(next).unwrap();
    client.refuse(&update, "no");
    assert_eq!(said(&mut client), ["cluster ack 1", "cluster nack 2 no"]);
    assert_eq!(known(&client, Kind::Cluster), ["a=v1"]);
    let next = response(Kind::Cluster, "3", &[("a", "v3"), ("b", "v3")], &[]);
    let update = client.on_response(next).unwrap();
    client.accept_but(&update, &BTreeSet::from(["a".to_owned()]), "not a");
    assert_eq!(said(&mut client), ["cluster nack 3 not a"]);
    assert_eq!(known(&client, Kind::Cluster), ["a=v1", "b=v3"]);
}

#[test]
fn names_come_and_go_in_steps() {
    let mut client = connected(&[(Kind::Endpoints, "a")]);
    client.subscribe(Kind::Endpoints, ["a", "b", "c"]);
    client.unsubscribe(Kind::Endpoints, ["c", "never"]);
    assert_eq!(said(&mut client), ["endpoints +b -c"]);
    client.unsubscribe(Kind::Endpoints, ["a", "b"]);
    client.subscribe(Kind::Endpoints, ["b"]);
    // The server has to send `b` again: this end has dropped it.
    assert_eq!(said(&mut client), ["endpoints +b -a"]);
    client.unsubscribe(Kind::Endpoints, ["b"]);
    assert_eq!(said(&mut client), ["endpoints -b"]);
    client.connected();
    assert_eq!(said(&mut client), [""; 0]);
}

#[test]
fn what_is_not_wanted_any_more_is_dropped_on_arrival() {
    let mut client = connected(&[(Kind::Endpoints, "a"), (Kind::Endpoints, "b")]);
    client.unsubscribe(Kind::Endpoints, ["a"]);
    let late = response(Kind::Endpoints, "1", &[("a", "v1"), ("b", "v1")], &["x"]);
    let update = client.on_response(late).unwrap();
    let names: Vec<_> = update.added.iter().map(|one| one.name.as_str()).collect();
    assert_eq!((names, &update.removed[..]), (vec!["b"], &[][..]));
    // Between the response and its acceptance, too.
    client.unsubscribe(Kind::Endpoints, ["b"]);
    client.accept(&update);
    assert_eq!(known(&client, Kind::Endpoints), [""; 0]);
    assert_eq!(said(&mut client), ["endpoints ack 1", "endpoints -a -b"]);
}

#[test]
fn a_name_is_missing_until_the_server_has_said_something_about_it() {
    let missing =
        |client: &Client, kind| client.missing(kind).map(str::to_owned).collect::<Vec<_>>();
    let mut client = connected(&[(Kind::Endpoints, "a"), (Kind::Endpoints, "b")]);
    assert_eq!(missing(&client, Kind::Endpoints), ["a", "b"]);
    let update = client
        .on_response(response(Kind::Endpoints, "1", &[], &["b"]))
        .unwrap();
    assert_eq!(update.removed, ["b"]);
    client.accept(&update);
    assert_eq!(missing(&client, Kind::Endpoints), ["a"]);
    client.subscribe(Kind::Cluster, [WILDCARD]);
    assert_eq!(missing(&client, Kind::Cluster), [WILDCARD]);
    said(&mut client);
    let update = client
        .on_response(response(Kind::Cluster, "2", &[], &[]))
        .unwrap();
    client.accept(&update);
    assert_eq!(missing(&client, Kind::Cluster), [""; 0]);
}

#[test]
fn an_update_of_an_old_stream_is_kept_but_not_answered() {
    let mut client = connected(&[(Kind::Cluster, WILDCARD)]);
    let update = client
        .on_response(response(Kind::Cluster, "1", &[("a", "v1")], &[]))
        .unwrap();
    client.connected();
    client.accept(&update);
    assert_eq!(said(&mut client), ["i am web.default cluster +* a=v1"]);
    client.disconnected();
    client.accept(&update);
    assert_eq!(said(&mut client), [""; 0]);
}

#[test]
fn what_was_kept_on_disk_is_named_if_it_is_wanted() {
    let mut client = client();
    client.subscribe(Kind::Endpoints, ["a"]);
    client.restore(Kind::Endpoints, "a", "v1");
    client.restore(Kind::Endpoints, "b", "v1");
    assert_eq!(client.missing(Kind::Endpoints).count(), 0);
    client.connected();
    assert_eq!(said(&mut client), ["i am web.default endpoints +a a=v1"]);
}

#[test]
fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let kind = Kind::Cluster;
    let bare = Resource {
        name: "a".to_owned(),
        ..Resource::default()
    };
    let other = resource(Kind::Listener, "a", "v1");
    let unnamed = resource(kind, "", "v1");
    let no_body = |resource| DeltaDiscoveryResponse {
        resources: vec![resource],
        ..response(kind, "1", &[], &[])
    };
    let unknown = DeltaDiscoveryResponse {
        type_url: "?".to_owned(),
        ..response(kind, "1", &[], &[])
    };
    let twice = |name: &str| Error::Twice {
        kind,
        name: name.to_owned(),
    };
    let empty = |name: &str| Error::NoBody {
        kind,
        name: name.to_owned(),
    };
    for (response, error, answer) in [
        (no_body(bare), empty("a"), Some("cluster nack 1")),
        (no_body(other), empty("a"), Some("cluster nack 1")),
        (no_body(unnamed), empty(""), Some("cluster nack 1")),
        (
            unknown,
            Error::UnknownType("?".to_owned()),
            Some("? nack 1"),
        ),
        (
            response(kind, "", &[("a", "v1")], &[]),
            Error::NoNonce(kind),
            None,
        ),
        (
            response(Kind::Routes, "1", &[("a", "v1")], &[]),
            Error::NotAsked(Kind::Routes),
            Some("routes nack 1"),
        ),
        (
            response(kind, "1", &[("a", "v1"), ("a", "v2")], &[]),
            twice("a"),
            Some("cluster nack 1"),
        ),
        (
            response(kind, "1", &[("a", "v1")], &["a"]),
            twice("a"),
            Some("cluster nack 1"),
        ),
        (
            response(kind, "1", &[], &["a", "a"]),
            twice("a"),
            Some("cluster nack 1"),
        ),
    ] {
        let mut client = connected(&[(kind, WILDCARD)]);
        let text = error.to_string();
        assert_eq!(client.on_response(response).unwrap_err(), error);
        let expected = answer.map(|answer| format!("{answer} {text}"));
        assert_eq!(said(&mut client), Vec::from_iter(expected));
        assert_eq!(known(&client, kind), [""; 0]);
    }
}

#[test]
fn a_reason_is_cut_between_characters() {
    let mut client = connected(&[(Kind::Cluster, WILDCARD)]);
    let update = client
        .on_response(response(Kind::Cluster, "1", &[("a", "v1")], &[]))
        .unwrap();
    client.refuse(&update, &"ä".repeat(DETAIL_BYTES_MAX));
    let detail = client.take_request().unwrap().error_detail.unwrap().message;
    assert_eq!(detail, "ä".repeat(DETAIL_BYTES_MAX / 2));
}

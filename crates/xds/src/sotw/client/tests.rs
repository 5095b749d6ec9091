//! Message charts: what a client says after what it was told.

use super::*;
use bytes::Bytes;

fn client() -> Client {
    Client::new(Node {
        id: "web.default".to_owned(),
        ..Node::default()
    })
}

fn resource(kind: Kind, name: &str, state: &str) -> Any {
    let named = Named {
        name: name.to_owned(),
    };
    let mut value = named.encode_to_vec();
    // Field 15, a text: what a table of fields has to say of it is not asked here.
    value.extend([0x7a, u8::try_from(state.len()).unwrap()]);
    value.extend(state.as_bytes());
    Any {
        type_url: kind.type_url().to_owned(),
        value: value.into(),
    }
}

/// The nonce is the version as well, behind an `n`.
fn response(kind: Kind, version: &str, told: &[(&str, &str)]) -> DiscoveryResponse {
    let told = told.iter();
    DiscoveryResponse {
        type_url: kind.type_url().to_owned(),
        version_info: version.to_owned(),
        nonce: format!("n{version}"),
        resources: told
            .map(|(name, state)| resource(kind, name, state))
            .collect(),
        ..DiscoveryResponse::default()
    }
}

/// Everything that the client has to say, one line a request.
fn said(client: &mut Client) -> Vec<String> {
    let requests = std::iter::from_fn(|| client.take_request());
    requests.map(|request| line(&request)).collect()
}

fn line(request: &DiscoveryRequest) -> String {
    let mut words = Vec::new();
    words.extend(request.node.iter().map(|node| format!("i am {}", node.id)));
    let kind = Kind::find(&request.type_url);
    words.push(kind.map_or("?", Kind::label).to_owned());
    words.push(format!("[{}]", request.resource_names.join(" ")));
    let (version, nonce) = (&request.version_info, &request.response_nonce);
    if !version.is_empty() || !nonce.is_empty() {
        words.push(format!("{version}/{nonce}"));
    }
    let refused = request.error_detail.iter();
    words.extend(refused.map(|error| format!("no: {}", error.message)));
    words.join(" ")
}

fn known(client: &Client, kind: Kind) -> Vec<&str> {
    client.known(kind).map(|(name, _)| name).collect()
}

fn names(update: &Update) -> (Vec<&str>, Vec<&str>) {
    let added = update.added.iter().map(|one| one.name.as_str());
    let removed = update.removed.iter().map(String::as_str);
    (added.collect(), removed.collect())
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

/// Hears a response and takes all of it.
#[track_caller]
fn take(client: &mut Client, response: DiscoveryResponse) -> Update {
    let update = client.on_response(response).unwrap();
    client.accept(&update);
    update
}

#[test]
fn the_first_words_have_no_version_name_all_and_introduce_once() {
    let mut client = client();
    client.subscribe(Kind::Listener, [WILDCARD]);
    client.subscribe(Kind::Endpoints, ["b", "a"]);
    client.subscribe(Kind::Secret, ["ROOTCA"]);
    assert_eq!(said(&mut client), [""; 0]);
    client.connected();
    assert_eq!(
        said(&mut client),
        [
            "i am web.default secret [ROOTCA]",
            "endpoints [a b]",
            "listener []"
        ]
    );
    assert_eq!(said(&mut client), [""; 0]);
}

#[test]
fn what_is_accepted_is_answered_by_its_version_and_told_again_on_the_next_stream() {
    let mut client = connected(&[(Kind::Cluster, WILDCARD)]);
    let first = response(Kind::Cluster, "1", &[("a", "x"), ("b", "x")]);
    take(&mut client, first.clone());
    assert_eq!(said(&mut client), ["cluster [] 1/n1"]);
    client.connected();
    assert_eq!(said(&mut client), ["i am web.default cluster []"]);
    let update = take(&mut client, first);
    assert_eq!(names(&update), (vec![], vec![]), "nothing of it is new");
    assert_eq!(known(&client, Kind::Cluster), ["a", "b"]);
}

#[test]
fn what_is_not_in_the_whole_is_gone_and_what_is_as_it_was_is_not_told() {
    for kind in [Kind::Cluster, Kind::Listener] {
        let mut client = connected(&[(kind, WILDCARD)]);
        let all = [("a", "x"), ("b", "x"), ("c", "x")];
        take(&mut client, response(kind, "1", &all));
        let next = response(kind, "2", &[("a", "x"), ("b", "y"), ("d", "x")]);
        let update = take(&mut client, next);
        assert_eq!(names(&update), (vec!["b", "d"], vec!["c"]));
        assert_eq!(known(&client, kind), ["a", "b", "d"]);
        let update = take(&mut client, response(kind, "3", &[]));
        assert_eq!(names(&update).1, ["a", "b", "d"]);
    }
}

#[test]
fn what_is_told_by_name_stays_until_it_is_told_otherwise() {
    for kind in [Kind::Secret, Kind::Endpoints, Kind::Routes] {
        let mut client = connected(&[(kind, "a"), (kind, "b")]);
        take(&mut client, response(kind, "1", &[("a", "x"), ("b", "x")]));
        let update = take(&mut client, response(kind, "2", &[("b", "y")]));
        assert_eq!(names(&update), (vec!["b"], vec![]));
        assert_eq!(known(&client, kind), ["a", "b"]);
    }
}

#[test]
fn what_was_asked_for_by_name_and_is_not_in_the_whole_does_not_exist() {
    let mut client = connected(&[(Kind::Listener, "a"), (Kind::Listener, "b")]);
    let update = take(&mut client, response(Kind::Listener, "1", &[("a", "x")]));
    assert_eq!(names(&update), (vec!["a"], vec!["b"]));
    assert_eq!(client.missing(Kind::Listener).count(), 0);
    let mut client = connected(&[(Kind::Routes, "a"), (Kind::Routes, "b")]);
    take(&mut client, response(Kind::Routes, "1", &[("a", "x")]));
    assert_eq!(client.missing(Kind::Routes).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn refusal_names_the_version_that_stays() {
    let mut client = connected(&[(Kind::Cluster, WILDCARD)]);
    let update = client
        .on_response(response(Kind::Cluster, "1", &[("a", "x")]))
        .unwrap();
    client.refuse(&update, "not that");
    assert_eq!(said(&mut client), ["cluster [] /n1 no: not that"]);
    take(&mut client, response(Kind::Cluster, "2", &[("a", "y")]));
    let next = response(Kind::Cluster, "3", &[("a", "z"), ("b", "x")]);
    let update = client.on_response(next.clone()).unwrap();
    client.accept_but(&update, &BTreeSet::from(["a".to_owned()]), "not a");
    assert_eq!(
        said(&mut client),
        ["cluster [] 2/n2", "cluster [] 2/n3 no: not a"]
    );
    assert_eq!(known(&client, Kind::Cluster), ["a", "b"]);
    let again = DiscoveryResponse {
        nonce: "n4".to_owned(),
        ..next
    };
    let update = client.on_response(again).unwrap();
    assert_eq!(names(&update).0, ["a"], "it is refused each time it comes");
}

#[test]
fn names_are_told_whole_with_the_last_version_and_nonce() {
    let mut client = connected(&[(Kind::Endpoints, "a")]);
    client.subscribe(Kind::Endpoints, ["b"]);
    assert_eq!(said(&mut client), ["endpoints [a b]"]);
    take(&mut client, response(Kind::Endpoints, "1", &[("a", "x")]));
    client.subscribe(Kind::Endpoints, ["c"]);
    client.unsubscribe(Kind::Endpoints, ["a"]);
    assert_eq!(said(&mut client), ["endpoints [b c] 1/n1"], "once");
    client.unsubscribe(Kind::Endpoints, ["b", "c"]);
    assert_eq!(said(&mut client), ["endpoints [] 1/n1"]);
    client.connected();
    assert_eq!(said(&mut client), [""; 0]);
}

#[test]
fn names_wait_for_the_answer_that_says_them() {
    let mut client = connected(&[(Kind::Endpoints, "a")]);
    let heard = response(Kind::Endpoints, "1", &[("a", "x")]);
    let update = client.on_response(heard).unwrap();
    client.subscribe(Kind::Endpoints, ["b"]);
    assert_eq!(said(&mut client), [""; 0]);
    client.accept(&update);
    assert_eq!(said(&mut client), ["endpoints [a b] 1/n1"]);
}

#[test]
fn answer_to_an_older_response_is_not_relied_on_for_names() {
    let mut client = connected(&[(Kind::Endpoints, "a")]);
    let [first, second] =
        ["1", "2"].map(|version| response(Kind::Endpoints, version, &[("a", version)]));
    let first = client.on_response(first).unwrap();
    let second = client.on_response(second).unwrap();
    client.accept(&first);
    client.subscribe(Kind::Endpoints, ["b"]);
    assert_eq!(said(&mut client), ["endpoints [a b] 1/n1"]);
    client.accept(&second);
    assert_eq!(said(&mut client), ["endpoints [a b] 2/n2"]);
    client.subscribe(Kind::Endpoints, ["c"]);
    assert_eq!(said(&mut client), ["endpoints [a b c] 2/n2"]);
}

#[test]
fn name_that_was_given_up_is_left_out_before_it_is_asked_for_again() {
    let mut client = connected(&[(Kind::Endpoints, "a"), (Kind::Endpoints, "b")]);
    let all = response(Kind::Endpoints, "1", &[("a", "x"), ("b", "x")]);
    take(&mut client, all);
    said(&mut client);
    client.unsubscribe(Kind::Endpoints, ["b"]);
    client.subscribe(Kind::Endpoints, ["b"]);
    let cycle = ["endpoints [a] 1/n1", "endpoints [a b] 1/n1"];
    assert_eq!(said(&mut client), cycle);
    assert_eq!(client.missing(Kind::Endpoints).collect::<Vec<_>>(), ["b"]);
    // This one was under way: the server has read neither.
    take(&mut client, response(Kind::Endpoints, "2", &[("a", "y")]));
    let cycle = ["endpoints [a] 2/n2", "endpoints [a b] 2/n2"];
    assert_eq!(said(&mut client), cycle);
    let all = response(Kind::Endpoints, "2", &[("a", "y"), ("b", "x")]);
    let update = take(&mut client, all);
    assert_eq!(names(&update).0, ["b"]);
    assert_eq!(said(&mut client), ["endpoints [a b] 2/n2"]);
}

#[test]
fn server_that_does_not_have_it_is_not_asked_for_ever() {
    let mut client = connected(&[(Kind::Endpoints, "a")]);
    client.unsubscribe(Kind::Endpoints, ["a"]);
    said(&mut client);
    client.subscribe(Kind::Endpoints, ["a"]);
    let rounds = (1..100).take_while(|round| {
        let is_asked = said(&mut client).len() > 1;
        take(
            &mut client,
            response(Kind::Endpoints, &round.to_string(), &[]),
        );
        is_asked
    });
    assert_eq!(rounds.count(), 9);
}

#[test]
fn what_is_not_wanted_any_more_is_dropped_on_arrival() {
    let mut client = connected(&[(Kind::Endpoints, "a"), (Kind::Endpoints, "b")]);
    client.unsubscribe(Kind::Endpoints, ["a"]);
    let late = response(Kind::Endpoints, "1", &[("a", "x"), ("b", "x"), ("c", "x")]);
    let update = client.on_response(late).unwrap();
    assert_eq!(names(&update).0, ["b"]);
    // Between the response and its acceptance, too.
    client.unsubscribe(Kind::Endpoints, ["b"]);
    client.accept(&update);
    assert_eq!(known(&client, Kind::Endpoints), [""; 0]);
    assert_eq!(said(&mut client), ["endpoints [] 1/n1"]);
}

#[test]
fn wildcard_beside_names_is_spelt_out() {
    let mut client = connected(&[(Kind::Cluster, "a")]);
    client.subscribe(Kind::Cluster, [WILDCARD]);
    assert_eq!(said(&mut client), ["cluster [* a]"]);
    client.unsubscribe(Kind::Cluster, ["a"]);
    assert_eq!(said(&mut client), ["cluster [*]"]);
}

#[test]
fn an_update_of_an_old_stream_is_kept_but_not_answered() {
    let mut client = connected(&[(Kind::Cluster, WILDCARD)]);
    let update = client
        .on_response(response(Kind::Cluster, "1", &[("a", "x")]))
        .unwrap();
    client.connected();
    client.accept(&update);
    assert_eq!(said(&mut client), ["i am web.default cluster []"]);
    assert_eq!(known(&client, Kind::Cluster), ["a"]);
    client.disconnected();
    client.accept(&update);
    assert_eq!(said(&mut client), [""; 0]);
}

#[test]
fn what_was_kept_on_disk_is_there_if_it_is_wanted_and_told_only_if_it_is_another() {
    let kind = Kind::Endpoints;
    let mut client = client();
    client.subscribe(kind, ["a", "b"]);
    let told = response(kind, "1", &[("a", "x"), ("b", "x")]);
    client.restore(kind, "a", &version(&told.resources[0].value));
    client.restore(kind, "c", "?");
    assert_eq!(client.missing(kind).collect::<Vec<_>>(), ["b"]);
    client.connected();
    said(&mut client);
    assert_eq!(names(&take(&mut client, told)).0, ["b"]);
    assert_eq!(known(&client, kind), ["a", "b"]);
}

#[test]
fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let kind = Kind::Cluster;
    let twice = Error::Twice {
        kind,
        name: "a".to_owned(),
    };
    let no_body = || Error::NoBody {
        kind,
        name: String::new(),
    };
    let of = |resource| DiscoveryResponse {
        resources: vec![resource],
        ..response(kind, "1", &[])
    };
    let malformed = Any {
        value: Bytes::from_static(&[0xff]),
        ..resource(kind, "a", "x")
    };
    let unknown = DiscoveryResponse {
        type_url: "?".to_owned(),
        ..response(kind, "1", &[])
    };
    let unanswerable = DiscoveryResponse {
        nonce: String::new(),
        ..response(kind, "1", &[("a", "x")])
    };
    let double = response(kind, "1", &[("a", "x"), ("a", "y")]);
    for (response, error, answer) in [
        (
            of(resource(Kind::Listener, "a", "x")),
            no_body(),
            "cluster []",
        ),
        (of(resource(kind, "", "x")), no_body(), "cluster []"),
        (of(malformed), no_body(), "cluster []"),
        (double, twice, "cluster []"),
        (unknown, Error::UnknownType("?".to_owned()), "? []"),
        (unanswerable, Error::NoNonce(kind), ""),
        (
            response(Kind::Routes, "1", &[("a", "x")]),
            Error::NotAsked(Kind::Routes),
            "routes []",
        ),
    ] {
        let mut client = connected(&[(kind, WILDCARD)]);
        let text = error.to_string();
        assert_eq!(client.on_response(response).unwrap_err(), error);
        let answer = Some(answer).filter(|answer| !answer.is_empty());
        let expected = answer.map(|answer| format!("{answer} /n1 no: {text}"));
        assert_eq!(said(&mut client), Vec::from_iter(expected));
        assert_eq!(known(&client, kind), [""; 0]);
    }
}

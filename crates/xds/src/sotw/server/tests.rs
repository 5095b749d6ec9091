//! Message charts: what a stream is told after what it asked for.

use super::*;
use crate::delta::WILDCARD;
use crate::delta::simulation::catalogue::{Catalogue, Sight};
use crate::proto::discovery::DiscoveryResponse;
use crate::proto::google::Status;
use bytes::Bytes;
use prost::Message;

/// A catalogue and a stream that looks at it.
struct Told {
    catalogue: Catalogue,
    sight: Sight,
    stream: Stream,
}

impl Told {
    fn new(resources: &[(Kind, &str)]) -> Self {
        let mut catalogue = Catalogue::default();
        for (kind, name) in resources {
            catalogue.set(*kind, name, body(name));
        }
        let sight = catalogue.sight(None);
        let stream = Stream::new(&sight);
        Self {
            catalogue,
            sight,
            stream,
        }
    }

    /// A resource whose body is `body`, which is what [`Self::hear`] calls it by.
    fn set(&mut self, kind: Kind, name: &str, value: &str) {
        self.catalogue.set(kind, name, body(value));
    }

    fn say(&mut self, request: &DiscoveryRequest) -> Result<Event, Error> {
        let sight = self.catalogue.sight(Some(&self.sight));
        let event = self.stream.on_request(request, &sight);
        self.sight = sight;
        event
    }

    /// Everything that is told until an answer is needed, a line each: `NONCE KIND bodies`.
    fn hear(&mut self) -> Vec<String> {
        let sight = self.catalogue.sight(Some(&self.sight));
        self.stream.advance(&sight).unwrap();
        let responses = std::iter::from_fn(|| self.stream.take_response(&sight));
        let lines = responses.map(|response| line(&response)).collect();
        self.sight = sight;
        lines
    }

    /// What is told after that was said.
    fn after(&mut self, requests: &[DiscoveryRequest]) -> Vec<String> {
        for request in requests {
            self.say(request).unwrap();
        }
        self.hear()
    }
}

fn body(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn line(response: &Response) -> String {
    let message = decode(response);
    let mut words = vec![message.nonce, response.kind.label().to_owned()];
    let mut bodies: Vec<_> = message
        .resources
        .iter()
        .map(|one| String::from_utf8(one.value.to_vec()).unwrap())
        .collect();
    bodies.sort();
    words.extend(bodies);
    words.join(" ")
}

fn decode(response: &Response) -> DiscoveryResponse {
    let message = DiscoveryResponse::decode(response.parts.concat().as_slice()).unwrap();
    assert_eq!(message.type_url, response.kind.type_url());
    message
}

/// Asks for `names`, having heard the response with that nonce.
fn ask(kind: Kind, nonce: u64, names: &[&str]) -> DiscoveryRequest {
    DiscoveryRequest {
        type_url: kind.type_url().to_owned(),
        resource_names: names.iter().map(|name| (*name).to_owned()).collect(),
        response_nonce: match nonce {
            0 => String::new(),
            nonce => nonce.to_string(),
        },
        ..DiscoveryRequest::default()
    }
}

fn refuse(kind: Kind, nonce: u64, names: &[&str], why: &str) -> DiscoveryRequest {
    let message = why.to_owned();
    DiscoveryRequest {
        error_detail: Some(Status {
            message,
            ..Status::default()
        }),
        ..ask(kind, nonce, names)
    }
}

const NOTHING: [&str; 0] = [];

#[test]
fn what_is_asked_for_without_names_is_told_whole_whenever_something_changes() {
    let mut told = Told::new(&[(Kind::Listener, "a"), (Kind::Listener, "b")]);
    let first = ask(Kind::Listener, 0, &[]);
    assert_eq!(told.after(&[first]), ["1 listener a b"]);
    told.set(Kind::Listener, "b", "b2");
    told.set(Kind::Listener, "c", "c");
    assert_eq!(told.hear(), NOTHING, "the first one is not answered yet");
    let acked = told.say(&ask(Kind::Listener, 1, &[])).unwrap();
    assert_eq!(acked, Event::Acked(Kind::Listener));
    assert_eq!(told.hear(), ["2 listener a b2 c"]);
    told.catalogue.remove(Kind::Listener, "a");
    assert_eq!(
        told.after(&[ask(Kind::Listener, 2, &[])]),
        ["3 listener b2 c"]
    );
    assert_eq!(told.after(&[ask(Kind::Listener, 3, &[])]), NOTHING);
    assert!(told.stream.is_settled(Kind::Listener) && told.stream.is_idle());
}

#[test]
fn nothing_is_an_answer_where_all_was_asked_for_and_else_not() {
    for names in [&[][..], &[WILDCARD], &["x"]] {
        let mut told = Told::new(&[]);
        assert_eq!(told.after(&[ask(Kind::Cluster, 0, names)]), ["1 cluster"]);
    }
    for names in [&[][..], &["x"]] {
        let mut told = Told::new(&[(Kind::Routes, "a")]);
        assert_eq!(told.after(&[ask(Kind::Routes, 0, names)]), NOTHING);
    }
}

#[test]
fn of_what_is_named_only_what_is_new_is_told() {
    let mut told = Told::new(&[(Kind::Endpoints, "a"), (Kind::Endpoints, "b")]);
    let first = ask(Kind::Endpoints, 0, &["a", "x"]);
    assert_eq!(told.after(&[first]), ["1 endpoints a"]);
    let names = ["a", "b", "x"];
    let more = ask(Kind::Endpoints, 1, &names);
    assert_eq!(told.after(&[more]), ["2 endpoints b"]);
    assert_eq!(told.after(&[ask(Kind::Endpoints, 2, &names)]), NOTHING);
    told.set(Kind::Endpoints, "x", "x");
    assert_eq!(told.hear(), ["3 endpoints x"]);
    told.catalogue.remove(Kind::Endpoints, "b");
    let names = ["x", "a"];
    assert_eq!(told.after(&[ask(Kind::Endpoints, 3, &names)]), NOTHING);
    told.set(Kind::Endpoints, "b", "b2");
    assert_eq!(told.hear(), NOTHING, "it is not wanted any more");
    assert!(told.stream.is_settled(Kind::Endpoints));
}

#[test]
fn what_answers_an_older_response_is_not_read() {
    let mut told = Told::new(&[(Kind::Endpoints, "a"), (Kind::Endpoints, "b")]);
    told.after(&[ask(Kind::Endpoints, 0, &["a"])]);
    told.after(&[ask(Kind::Endpoints, 1, &["a"])]);
    told.set(Kind::Endpoints, "a", "a2");
    assert_eq!(told.hear(), ["2 endpoints a2"]);
    for nonce in [0, 1, 3] {
        let stale = refuse(Kind::Endpoints, nonce, &["b"], "not this one");
        assert_eq!(told.say(&stale).unwrap(), Event::Noted);
        assert_eq!(told.hear(), NOTHING, "{nonce}");
    }
    let current = ask(Kind::Endpoints, 2, &["a", "b"]);
    assert_eq!(told.after(&[current]), ["3 endpoints b"]);
}

#[test]
fn who_says_the_same_again_is_told_again() {
    for (kind, names) in [(Kind::Routes, &["a"][..]), (Kind::Cluster, &[])] {
        let mut told = Told::new(&[(kind, "a")]);
        let label = kind.label();
        let first = ask(kind, 0, names);
        assert_eq!(
            told.after(&[first.clone(), first]),
            [format!("1 {label} a")]
        );
        let same = ask(kind, 1, names);
        assert_eq!(told.after(std::slice::from_ref(&same)), NOTHING);
        assert_eq!(told.after(&[same]), [format!("2 {label} a")]);
    }
}

#[test]
fn cluster_that_changes_brings_its_endpoints_once_more() {
    let both = |name| [(Kind::Cluster, name), (Kind::Endpoints, name)];
    let mut told = Told::new(&[both("a"), both("b")].concat());
    let names = ["a", "b"];
    told.after(&[ask(Kind::Cluster, 0, &[])]);
    told.after(&[ask(Kind::Cluster, 1, &[]), ask(Kind::Endpoints, 0, &names)]);
    told.after(&[ask(Kind::Endpoints, 2, &names)]);
    told.set(Kind::Cluster, "b", "b2");
    assert_eq!(told.hear(), ["3 cluster a b2", "4 endpoints b"]);
}

#[test]
fn who_refers_to_clusters_waits_for_them_and_for_nothing_else() {
    let mut told = Told::new(&Kind::ALL.map(|kind| (kind, "a")));
    let all = Kind::ALL.map(|kind| ask(kind, 0, &["a"]));
    let first = ["1 secret a", "2 cluster a", "3 endpoints a"];
    assert_eq!(told.after(&all), first);
    // A client that makes clusters anew answers when it has their endpoints.
    told.set(Kind::Endpoints, "a", "a2");
    told.set(Kind::Secret, "a", "a2");
    let answers = [
        ask(Kind::Endpoints, 3, &["a"]),
        ask(Kind::Secret, 1, &["a"]),
    ];
    assert_eq!(told.after(&answers), ["4 secret a2", "5 endpoints a2"]);
    let answer = ask(Kind::Cluster, 2, &["a"]);
    assert_eq!(told.after(&[answer]), ["6 listener a", "7 routes a"]);
}

#[test]
fn clusters_that_are_gone_go_when_nothing_refers_to_them() {
    let mut told = Told::new(&Kind::ALL.map(|kind| (kind, "a")));
    let names = ["a", "b"];
    let answer = |kind, nonce| ask(kind, nonce, &names);
    told.after(&Kind::ALL.map(|kind| answer(kind, 0)));
    let nonces = (1..).zip(Kind::ALL);
    let answers: Vec<_> = nonces.map(|(nonce, kind)| answer(kind, nonce)).collect();
    told.after(&answers[..3]);
    told.after(&answers[3..]);
    assert!(told.stream.is_idle());
    for kind in Kind::ALL {
        told.catalogue.remove(kind, "a");
        told.set(kind, "b", "b");
    }
    let first = ["6 secret b", "7 cluster a b", "8 endpoints a b"];
    assert_eq!(told.hear(), first);
    told.catalogue.purge(Some(told.stream.generation()));
    let second = ["9 listener b", "10 routes b"];
    assert_eq!(told.after(&[answer(Kind::Cluster, 7)]), second);
    assert_eq!(told.after(&[answer(Kind::Routes, 10)]), NOTHING);
    let last = [answer(Kind::Listener, 9)];
    assert_eq!(told.after(&last), ["11 cluster b"]);
    assert!(!told.stream.is_settled(Kind::Cluster));
    told.after(&[answer(Kind::Cluster, 11)]);
    assert!(told.stream.is_settled(Kind::Cluster));
}

#[test]
fn what_is_refused_whole_stays_so_until_something_changes() {
    let mut told = Told::new(&[(Kind::Cluster, "a"), (Kind::Cluster, "b")]);
    told.after(&[ask(Kind::Cluster, 0, &[])]);
    let refused = told
        .say(&refuse(Kind::Cluster, 1, &[], "b is bad"))
        .unwrap();
    assert_eq!(
        refused,
        Event::Refused(Kind::Cluster, "b is bad".to_owned())
    );
    assert_eq!(told.hear(), NOTHING);
    let progress = told.stream.progress(Kind::Cluster).unwrap();
    assert_eq!(
        (progress.refused, progress.detail.as_str()),
        (2, "b is bad")
    );
    assert!(told.stream.is_idle() && !told.stream.is_settled(Kind::Cluster));
    told.set(Kind::Cluster, "b", "b2");
    assert_eq!(told.hear(), ["2 cluster a b2"]);
    told.after(&[ask(Kind::Cluster, 2, &[])]);
    assert!(told.stream.is_settled(Kind::Cluster));
}

#[test]
fn what_is_refused_of_many_is_found() {
    let all = ["a", "b", "c", "d"];
    let mut told = Told::new(&all.map(|name| (Kind::Endpoints, name)));
    let mut lines = told.after(&[ask(Kind::Endpoints, 0, &all)]);
    assert_eq!(lines, ["1 endpoints a b c d"]);
    let mut accepted = Vec::new();
    while let Some(line) = lines.pop() {
        let words: Vec<_> = line.split(' ').collect();
        let nonce = words[0].parse().unwrap();
        let answer = match words.contains(&"c") {
            true => refuse(Kind::Endpoints, nonce, &all, "no c"),
            false => ask(Kind::Endpoints, nonce, &all),
        };
        if !words.contains(&"c") {
            accepted.extend(words[2..].iter().map(|word| (*word).to_owned()));
        }
        lines = told.after(&[answer]);
    }
    accepted.sort();
    assert_eq!(accepted, ["a", "b", "d"]);
    let progress = told.stream.progress(Kind::Endpoints).unwrap();
    assert_eq!((progress.refused, progress.detail.as_str()), (1, "no c"));
}

#[test]
fn who_comes_back_with_all_clusters_is_told_none() {
    let kinds = [Kind::Cluster, Kind::Endpoints];
    let mut told = Told::new(&kinds.map(|kind| (kind, "a")));
    let sight = told.catalogue.sight(None);
    let mut versions = Vec::new();
    for kind in kinds {
        told.say(&ask(kind, 0, &[WILDCARD])).unwrap();
        let response = told.stream.take_response(&sight).unwrap();
        versions.push(decode(&response).version_info);
    }
    let again = |kind: Kind, version: &str| DiscoveryRequest {
        version_info: version.to_owned(),
        // Some go on with the last stream's.
        response_nonce: "5".to_owned(),
        ..ask(kind, 0, &[WILDCARD])
    };
    let mut other = Told::new(&[]);
    other.catalogue = told.catalogue.restarted(3);
    other.sight = other.catalogue.sight(None);
    other.stream = Stream::new(&other.sight);
    let requests = [again(kinds[0], &versions[0]), again(kinds[1], &versions[1])];
    // Endpoints may be waited for by a cluster that was made anew meanwhile.
    assert_eq!(other.after(&requests), ["1 endpoints a"]);
    assert!(other.stream.is_settled(Kind::Cluster));
    other.set(Kind::Cluster, "b", "b");
    assert_eq!(other.hear(), ["2 cluster a b"]);
}

#[test]
fn no_names_mean_all_only_before_there_were_any() {
    let mut told = Told::new(&[(Kind::Cluster, "a"), (Kind::Cluster, "b")]);
    assert_eq!(told.after(&[ask(Kind::Cluster, 0, &[])]), ["1 cluster a b"]);
    assert_eq!(
        told.after(&[ask(Kind::Cluster, 1, &["b"])]),
        ["2 cluster b"]
    );
    assert_eq!(told.after(&[ask(Kind::Cluster, 2, &[])]), ["3 cluster"]);
    let all = ask(Kind::Cluster, 3, &[WILDCARD]);
    assert_eq!(told.after(&[all]), ["4 cluster a b"]);
}

#[test]
fn names_have_limits() {
    let mut told = Told::new(&[]);
    let long = "x".repeat(600);
    let error = told.say(&ask(Kind::Routes, 0, &[&long])).unwrap_err();
    assert_eq!(error, Error::NameTooLong);
    let many: Vec<_> = (0..20_000).map(|number| format!("{number:060}")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    let error = told.say(&ask(Kind::Routes, 0, &many)).unwrap_err();
    assert_eq!(error, Error::TooManyNames);
    // Each request says all names: those of an earlier one do not count.
    let mut told = Told::new(&[]);
    for round in 0..4 {
        let names = &many[round * 5000..][..5000];
        told.say(&ask(Kind::Routes, 0, names)).unwrap();
    }
    let unknown = DiscoveryRequest {
        type_url: "type.googleapis.com/x".to_owned(),
        ..DiscoveryRequest::default()
    };
    assert_eq!(told.say(&unknown).unwrap(), Event::UnknownType);
}

#[test]
fn cluster_that_goes_while_its_endpoints_are_waited_for_holds_up_nothing() {
    let both = |name| [(Kind::Cluster, name), (Kind::Endpoints, name)];
    let mut told = Told::new(&[both("a"), both("b")].concat());
    let names = ["a", "b"];
    told.after(&[ask(Kind::Cluster, 0, &[]), ask(Kind::Endpoints, 0, &["a"])]);
    // One that was told, and is gone before it is asked for.
    told.catalogue.remove(Kind::Cluster, "b");
    told.catalogue.remove(Kind::Endpoints, "b");
    told.hear();
    let lines = told.after(&[ask(Kind::Endpoints, 2, &names)]);
    assert_eq!(lines, ["3 endpoints \n\u{1}b"], "it has no endpoints");
    told.after(&[ask(Kind::Endpoints, 3, &names), ask(Kind::Cluster, 1, &[])]);
    // One that is made anew, and gone before its endpoints are sent once more.
    told.after(&[ask(Kind::Cluster, 4, &[])]);
    told.set(Kind::Endpoints, "a", "a2");
    assert_eq!(told.hear(), ["5 endpoints a2"]);
    told.set(Kind::Cluster, "a", "a2");
    assert_eq!(told.hear(), ["6 cluster a2"]);
    told.catalogue.remove(Kind::Cluster, "a");
    told.catalogue.remove(Kind::Endpoints, "a");
    assert_eq!(
        told.after(&[ask(Kind::Endpoints, 5, &names)]),
        ["7 endpoints a2"]
    );
    told.after(&[ask(Kind::Endpoints, 7, &names), ask(Kind::Cluster, 6, &[])]);
    assert_eq!(told.after(&[ask(Kind::Cluster, 8, &[])]), NOTHING);
    assert!(told.stream.is_idle());
}

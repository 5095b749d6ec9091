//! Message charts: what a stream is told after what it asked for.

use super::*;
use crate::delta::WILDCARD;
use crate::proto::discovery::DeltaDiscoveryResponse;
use crate::proto::google::Status;
use bytes::Bytes;
use prost::Message;

/// Resources that are there or not, each with the generation of its last change.
#[derive(Default)]
struct Fake {
    generation: u64,
    complete_since: u64,
    places: Vec<(Kind, Entry, u64, bool)>,
}

impl Fake {
    fn new(resources: &[(Kind, &str)]) -> Self {
        let mut fake = Self::default();
        for (kind, name) in resources {
            fake.set(*kind, name, "v1");
        }
        fake
    }

    fn set(&mut self, kind: Kind, name: &str, value: &str) {
        self.generation += 1;
        let entry = Entry::new(
            kind,
            name.to_owned(),
            Bytes::copy_from_slice(value.as_bytes()),
        );
        let place = (kind, entry, self.generation, true);
        let mut places = self.places.iter_mut();
        match places.find(|(of, entry, ..)| *of == kind && entry.name == name) {
            Some(old) => *old = place,
            None => self.places.push(place),
        }
    }

    fn remove(&mut self, kind: Kind, name: &str) {
        self.generation += 1;
        for (of, entry, changed, is_there) in &mut self.places {
            if *of == kind && entry.name == name {
                (*changed, *is_there) = (self.generation, false);
            }
        }
    }

    fn of(&self, kind: Kind) -> impl Iterator<Item = (Id, &Entry, u64, bool)> {
        let places = (0..)
            .zip(&self.places)
            .filter(move |(_, place)| place.0 == kind);
        places.map(|(at, (_, entry, changed, is_there))| (Id(at), entry, *changed, *is_there))
    }
}

impl View for Fake {
    fn generation(&self) -> u64 {
        self.generation
    }

    fn complete_since(&self) -> u64 {
        self.complete_since
    }

    fn find(&self, kind: Kind, name: &str) -> Option<Id> {
        let mut places = self.of(kind).filter(|(.., is_there)| *is_there);
        places
            .find(|(_, entry, ..)| entry.name == name)
            .map(|(id, ..)| id)
    }

    fn entry(&self, kind: Kind, at: Id) -> Option<&Entry> {
        let mut places = self.of(kind).filter(|(.., is_there)| *is_there);
        places
            .find(|(id, ..)| *id == at)
            .map(|(_, entry, ..)| entry)
    }

    fn former(&self, kind: Kind, at: Id) -> Option<&Entry> {
        let mut places = self.of(kind);
        places
            .find(|(id, ..)| *id == at)
            .map(|(_, entry, ..)| entry)
    }

    fn all(&self, kind: Kind) -> impl Iterator<Item = Id> + '_ {
        self.of(kind)
            .filter(|(.., is_there)| *is_there)
            .map(|(id, ..)| id)
    }

    fn changed(&self, kind: Kind, since: u64) -> impl Iterator<Item = Change<'_>> + '_ {
        let changed = self
            .of(kind)
            .filter(move |(_, _, changed, _)| *changed > since);
        changed.map(|(id, entry, _, is_there)| Change {
            id,
            name: &entry.name,
            is_there,
        })
    }
}

fn request(
    kind: Kind,
    more: &[&str],
    less: &[&str],
    known: &[(&str, &str)],
) -> DeltaDiscoveryRequest {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let known = known
        .iter()
        .map(|(name, version)| ((*name).to_owned(), (*version).to_owned()));
    DeltaDiscoveryRequest {
        type_url: kind.type_url().to_owned(),
        resource_names_subscribe: names(more),
        resource_names_unsubscribe: names(less),
        initial_resource_versions: known.collect(),
        ..DeltaDiscoveryRequest::default()
    }
}

fn answer(kind: Kind, nonce: u64, refusal: Option<&str>) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        response_nonce: nonce.to_string(),
        error_detail: refusal.map(|message| Status {
            message: message.to_owned(),
            ..Status::default()
        }),
        ..request(kind, &[], &[], &[])
    }
}

/// Everything that is told until an answer is needed, one line a response: `NONCE KIND names`.
fn told(stream: &mut Stream, fake: &Fake) -> Vec<String> {
    stream.advance(fake).unwrap();
    let responses = std::iter::from_fn(|| stream.take_response(fake));
    responses.map(|response| line(&response)).collect()
}

fn line(response: &Response) -> String {
    let bytes = response.parts.concat();
    let message = DeltaDiscoveryResponse::decode(bytes.as_slice()).unwrap();
    assert_eq!(message.type_url, response.kind.type_url());
    let mut words = vec![message.nonce, response.kind.label().to_owned()];
    words.extend(message.resources.into_iter().map(|one| one.name));
    let removed = message.removed_resources.into_iter();
    words.extend(removed.map(|name| format!("-{name}")));
    words.join(" ")
}

/// Says `requests`, and gives what is told then.
fn chart(stream: &mut Stream, fake: &Fake, requests: Vec<DeltaDiscoveryRequest>) -> Vec<String> {
    for request in requests {
        stream.on_request(&request, fake).unwrap();
    }
    told(stream, fake)
}

const NOTHING: [&str; 0] = [];

#[test]
fn a_wildcard_gets_everything_and_then_what_changes() {
    let mut fake = Fake::new(&[(Kind::Cluster, "a"), (Kind::Cluster, "b")]);
    let stream = &mut Stream::new(&fake);
    let first = request(Kind::Cluster, &[WILDCARD], &[], &[]);
    assert_eq!(chart(stream, &fake, vec![first]), ["1 cluster a b"]);
    fake.set(Kind::Cluster, "b", "v2");
    fake.set(Kind::Cluster, "c", "v1");
    fake.remove(Kind::Cluster, "a");
    assert_eq!(
        told(stream, &fake),
        NOTHING,
        "the first one is not answered yet"
    );
    let acked = stream
        .on_request(&answer(Kind::Cluster, 1, None), &fake)
        .unwrap();
    assert_eq!(acked, Event::Acked(Kind::Cluster));
    assert_eq!(told(stream, &fake), ["2 cluster b c"]);
    let next = vec![answer(Kind::Cluster, 2, None)];
    assert_eq!(chart(stream, &fake, next), ["3 cluster -a"]);
    let next = vec![answer(Kind::Cluster, 3, None)];
    assert_eq!(chart(stream, &fake, next), NOTHING);
    assert!(stream.is_settled(Kind::Cluster));
}

#[test]
fn the_first_wildcard_is_answered_even_with_nothing() {
    let fake = Fake::default();
    for names in [&[WILDCARD][..], &[]] {
        let stream = &mut Stream::new(&fake);
        let first = request(Kind::Listener, names, &[], &[]);
        assert_eq!(chart(stream, &fake, vec![first]), ["1 listener"]);
    }
    let stream = &mut Stream::new(&fake);
    let first = request(Kind::Routes, &[], &[], &[]);
    assert_eq!(
        chart(stream, &fake, vec![first]),
        NOTHING,
        "routes are always named"
    );
}

#[test]
fn kinds_are_made_before_they_are_broken() {
    let mut fake = Fake::new(&Kind::ALL.map(|kind| (kind, "old")));
    let stream = &mut Stream::new(&fake);
    let all = |kind| request(kind, &[WILDCARD], &[], &[]);
    let expected = [
        "1 secret old",
        "2 cluster old",
        "3 endpoints old",
        "4 listener old",
        "5 routes old",
    ];
    assert_eq!(chart(stream, &fake, Kind::ALL.map(all).into()), expected);
    for kind in Kind::ALL {
        fake.remove(kind, "old");
        fake.set(kind, "new", "v1");
    }
    // Clusters are still waited for: nothing that may refer to them is sent.
    let but_cluster = (1..)
        .zip(Kind::ALL)
        .filter(|(_, kind)| *kind != Kind::Cluster);
    let answers = but_cluster
        .map(|(nonce, kind)| answer(kind, nonce, None))
        .collect();
    assert_eq!(chart(stream, &fake, answers), ["6 secret new"]);
    let answers = vec![answer(Kind::Cluster, 2, None)];
    let expected = [
        "7 cluster new",
        "8 endpoints new",
        "9 listener new",
        "10 routes new",
    ];
    assert_eq!(chart(stream, &fake, answers), expected);
    let answers = (6..)
        .zip(Kind::ALL)
        .map(|(nonce, kind)| answer(kind, nonce, None))
        .collect();
    let expected = [
        "11 routes -old",
        "12 listener -old",
        "13 endpoints -old",
        "14 cluster -old",
        "15 secret -old",
    ];
    assert_eq!(chart(stream, &fake, answers), expected);
}

#[test]
fn names_are_answered_one_way_or_the_other_and_again_when_asked_again() {
    let mut fake = Fake::new(&[(Kind::Endpoints, "a"), (Kind::Endpoints, "b")]);
    let stream = &mut Stream::new(&fake);
    let first = request(Kind::Endpoints, &["a", "x"], &[], &[]);
    assert_eq!(chart(stream, &fake, vec![first]), ["1 endpoints a"]);
    let next = vec![answer(Kind::Endpoints, 1, None)];
    assert_eq!(chart(stream, &fake, next), ["2 endpoints -x"]);
    let again = request(Kind::Endpoints, &["a"], &[], &[]);
    assert_eq!(
        chart(stream, &fake, vec![answer(Kind::Endpoints, 2, None), again]),
        ["3 endpoints a"]
    );
    fake.set(Kind::Endpoints, "x", "v1");
    fake.set(Kind::Endpoints, "b", "v2");
    let next = vec![answer(Kind::Endpoints, 3, None)];
    assert_eq!(chart(stream, &fake, next), ["4 endpoints x"]);
    let less = request(Kind::Endpoints, &[], &["a", "x"], &[]);
    fake.set(Kind::Endpoints, "a", "v2");
    assert_eq!(
        chart(stream, &fake, vec![answer(Kind::Endpoints, 4, None), less]),
        NOTHING
    );
}

#[test]
fn a_name_that_is_still_one_of_all_is_confirmed() {
    let fake = Fake::new(&[(Kind::Cluster, "a")]);
    let stream = &mut Stream::new(&fake);
    let both = request(Kind::Cluster, &[WILDCARD, "a", "x"], &[], &[]);
    assert_eq!(chart(stream, &fake, vec![both]), ["1 cluster a"]);
    let next = vec![answer(Kind::Cluster, 1, None)];
    assert_eq!(chart(stream, &fake, next), ["2 cluster -x"]);
    let less = request(Kind::Cluster, &[], &["a", "x"], &[]);
    assert_eq!(
        chart(stream, &fake, vec![answer(Kind::Cluster, 2, None), less]),
        ["3 cluster a"]
    );
    let next = vec![answer(Kind::Cluster, 3, None)];
    assert_eq!(chart(stream, &fake, next), ["4 cluster -x"]);
}

#[test]
fn who_comes_back_is_told_only_the_difference() {
    let fake = Fake::new(&[
        (Kind::Cluster, "a"),
        (Kind::Cluster, "b"),
        (Kind::Endpoints, "a"),
    ]);
    let version = fake.places[0].1.version.clone();
    let stream = &mut Stream::new(&fake);
    let known = [("a", version.as_str()), ("b", "older"), ("gone", "v1")];
    let first = request(Kind::Cluster, &[WILDCARD], &[], &known);
    assert_eq!(chart(stream, &fake, vec![first]), ["1 cluster b"]);
    let next = vec![answer(Kind::Cluster, 1, None)];
    assert_eq!(chart(stream, &fake, next), ["2 cluster -gone"]);
    let known = [("a", version.as_str()), ("not asked for", "v1")];
    let named = request(Kind::Endpoints, &["a"], &[], &known);
    assert_eq!(chart(stream, &fake, vec![named]), NOTHING);
    assert!(stream.is_settled(Kind::Endpoints));
}

#[test]
fn what_is_refused_is_not_sent_again_until_it_changes() {
    let mut fake = Fake::new(&[(Kind::Cluster, "a")]);
    let stream = &mut Stream::new(&fake);
    chart(
        stream,
        &fake,
        vec![request(Kind::Cluster, &[WILDCARD], &[], &[])],
    );
    let refusal = answer(Kind::Cluster, 1, Some("no"));
    let event = stream.on_request(&refusal, &fake).unwrap();
    assert_eq!(event, Event::Refused(Kind::Cluster, "no".to_owned()));
    assert_eq!(told(stream, &fake), NOTHING);
    let progress = stream.progress(Kind::Cluster).unwrap();
    assert_eq!((progress.refused, progress.detail.as_str()), (1, "no"));
    assert!(!stream.is_settled(Kind::Cluster));
    fake.set(Kind::Cluster, "b", "v1");
    assert_eq!(told(stream, &fake), ["2 cluster b"]);
    stream
        .on_request(&answer(Kind::Cluster, 2, None), &fake)
        .unwrap();
    assert!(
        !stream.is_settled(Kind::Cluster),
        "another one was accepted"
    );
    fake.set(Kind::Cluster, "a", "v2");
    assert_eq!(told(stream, &fake), ["3 cluster a"]);
    stream
        .on_request(&answer(Kind::Cluster, 3, None), &fake)
        .unwrap();
    assert!(stream.is_settled(Kind::Cluster));
}

#[test]
fn what_is_refused_together_is_sent_again_until_the_culprit_is_alone() {
    let fake = Fake::new(&["a", "b", "c", "d", "e"].map(|name| (Kind::Cluster, name)));
    let stream = &mut Stream::new(&fake);
    let first = vec![request(Kind::Cluster, &[WILDCARD], &[], &[])];
    let mut sent = chart(stream, &fake, first);
    let mut all = Vec::new();
    for nonce in 1.. {
        let Some(last) = sent.pop() else {
            break;
        };
        let refusal = last.contains('d').then_some("not d");
        sent = chart(stream, &fake, vec![answer(Kind::Cluster, nonce, refusal)]);
        all.push(last);
    }
    let expected = [
        "1 cluster a b c d e",
        "2 cluster a b",
        "3 cluster c d e",
        "4 cluster c",
    ];
    assert_eq!(
        all,
        [
            &expected[..],
            &["5 cluster d e", "6 cluster d", "7 cluster e"]
        ]
        .concat()
    );
    let progress = stream.progress(Kind::Cluster).unwrap();
    assert_eq!((progress.refused, progress.queued), (1, 0));
    assert_eq!(progress.detail, "not d");
}

#[test]
fn nonces_of_something_else_answer_nothing() {
    let fake = Fake::new(&[(Kind::Cluster, "a"), (Kind::Listener, "a")]);
    let stream = &mut Stream::new(&fake);
    let all = |kind| request(kind, &[WILDCARD], &[], &[]);
    chart(stream, &fake, vec![all(Kind::Cluster), all(Kind::Listener)]);
    for nonce in ["0", "2", "3", "?", "-1", " 1", "99999999999999999999999"] {
        let mut stale = answer(Kind::Cluster, 0, None);
        stale.response_nonce = nonce.to_owned();
        assert_eq!(
            stream.on_request(&stale, &fake).unwrap(),
            Event::Noted,
            "{nonce}"
        );
    }
    let event = stream.on_request(&answer(Kind::Cluster, 1, None), &fake);
    assert_eq!(event.unwrap(), Event::Acked(Kind::Cluster));
    let event = stream.on_request(&answer(Kind::Cluster, 1, None), &fake);
    assert_eq!(event.unwrap(), Event::Noted, "once");
    let mut unknown = answer(Kind::Cluster, 1, None);
    unknown.type_url = "?".to_owned();
    assert_eq!(
        stream.on_request(&unknown, &fake).unwrap(),
        Event::UnknownType
    );
}

#[test]
fn much_is_sent_in_pieces() {
    let mut fake = Fake::default();
    let value = "v".repeat(200 << 10);
    for name in ["a", "b", "c", "d"] {
        fake.set(Kind::Cluster, name, &value);
    }
    let stream = &mut Stream::new(&fake);
    let first = vec![request(Kind::Cluster, &[WILDCARD], &[], &[])];
    assert_eq!(chart(stream, &fake, first), ["1 cluster a b c"]);
    assert!(!stream.has_response());
    fake.set(Kind::Cluster, "d", "v2");
    let next = vec![answer(Kind::Cluster, 1, None)];
    assert_eq!(chart(stream, &fake, next), ["2 cluster d"]);
}

#[test]
fn a_stream_that_fell_behind_or_asks_for_too_much_is_ended() {
    let mut fake = Fake::new(&[(Kind::Cluster, "a")]);
    let mut stream = Stream::new(&fake);
    fake.set(Kind::Cluster, "b", "v1");
    fake.complete_since = fake.generation;
    assert_eq!(stream.advance(&fake), Err(Error::Behind));
    let mut stream = Stream::new(&fake);
    let long = "n".repeat(NAME_BYTES_MAX + 1);
    let named = request(Kind::Endpoints, &[&long], &[], &[]);
    assert_eq!(stream.on_request(&named, &fake), Err(Error::NameTooLong));
    let known = request(Kind::Routes, &["a"], &[], &[(&long, "v1")]);
    assert_eq!(stream.on_request(&known, &fake), Err(Error::NameTooLong));
    let names: Vec<_> = (0..=ABSENT_BYTES_MAX / 512)
        .map(|number| format!("{number:0512}"))
        .collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let fill = request(Kind::Endpoints, &names[1..], &[], &[]);
    assert_eq!(stream.on_request(&fill, &fake), Ok(Event::Noted));
    assert_eq!(
        stream.on_request(&fill, &fake),
        Ok(Event::Noted),
        "the same ones again"
    );
    let drop = request(Kind::Endpoints, &[], &names[1..2], &[]);
    assert_eq!(stream.on_request(&drop, &fake), Ok(Event::Noted));
    let over = request(Kind::Endpoints, &names[..2], &[], &[]);
    assert_eq!(stream.on_request(&over, &fake), Err(Error::TooManyNames));
}

/// A generator whose numbers follow from where it began.
fn dice() -> impl FnMut(usize) -> usize {
    let mut state = 1_u64;
    move |bound| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(state >> 33).unwrap() % bound
    }
}

#[test]
fn whatever_a_client_says_a_stream_stays_sound() {
    const NAMES: [&str; 7] = ["a", "b", "c", "*", "", "\u{0}", "nothing"];
    let mut dice = dice();
    let mut fake = Fake::new(&Kind::ALL.map(|kind| (kind, "a")));
    let mut stream = Stream::new(&fake);
    for _ in 0..30_000 {
        let kind = Kind::ALL[dice(Kind::COUNT)];
        let mut some = || -> Vec<&str> { (0..dice(3)).map(|_| NAMES[dice(7)]).collect() };
        let (more, less, known) = (some(), some(), some());
        let known: Vec<_> = known.into_iter().map(|name| (name, "v1")).collect();
        let mut request = request(kind, &more, &less, &known);
        if dice(3) > 0 {
            let refusal = (dice(2) == 0).then_some("no");
            let answer = answer(
                kind,
                (stream.nonce + 1).saturating_sub(dice(7) as u64),
                refusal,
            );
            request.response_nonce = answer.response_nonce;
            request.error_detail = answer.error_detail;
        }
        stream.on_request(&request, &fake).unwrap();
        match dice(12) {
            0 => fake.set(kind, NAMES[dice(3)], ["v1", "v2", "v3"][dice(3)]),
            1 => fake.remove(kind, NAMES[dice(3)]),
            2 if dice(50) == 0 => stream = Stream::new(&fake),
            _ => {}
        }
        for line in told(&mut stream, &fake) {
            let names: Vec<_> = line.split(' ').skip(2).collect();
            let is_known = |name: &&str| fake.places.iter().any(|place| place.1.name == *name);
            let added = names.iter().filter(|name| !name.starts_with('-'));
            assert!(
                added
                    .copied()
                    .all(|name| name.is_empty() || is_known(&name)),
                "{line}"
            );
        }
    }
}

#[test]
fn cluster_that_changes_brings_its_endpoints_once_more() {
    let both = |name| [(Kind::Cluster, name), (Kind::Endpoints, name)];
    let mut fake = Fake::new(&[both("a"), both("b")].concat());
    let stream = &mut Stream::new(&fake);
    let first = vec![
        request(Kind::Cluster, &[WILDCARD], &[], &[]),
        request(Kind::Endpoints, &["a", "b"], &[], &[]),
    ];
    let all = ["1 cluster a b", "2 endpoints a b"];
    assert_eq!(chart(stream, &fake, first), all);
    let answers = [(Kind::Cluster, 1), (Kind::Endpoints, 2)];
    let answers = answers.map(|(kind, nonce)| answer(kind, nonce, None));
    chart(stream, &fake, answers.into());
    fake.set(Kind::Cluster, "b", "v2");
    assert_eq!(told(stream, &fake), ["3 cluster b", "4 endpoints b"]);
}

//! Authentication that is bound to a connection (NTLM, Negotiate), through both sidecars: the
//! application sees one connection per authenticated client, and nobody else's requests on it.

use crate::frames::Frames;
use crate::world::{PROXY, scripted};
use testkit::{Pair, RawClient, ScriptedUpstream, Sidecar, Step, until};

/// Every connection of the application answers with its own number.
fn numbered(count: usize) -> Pair<ScriptedUpstream> {
    scripted(numbers(count))
}

fn numbers(count: usize) -> Vec<Vec<Step>> {
    let answers = |number: usize| {
        let answer = Step::answer(number.to_string());
        (0..9)
            .flat_map(|_| [Step::ReadRequest, answer.clone()])
            .collect()
    };
    (1..=count).map(answers).collect()
}

fn authorized(client: &mut RawClient) -> String {
    let proof = "Authorization: Negotiate TlRMTVNT";
    let answer = client.ask(format!("GET / HTTP/1.1\r\nHost: a\r\n{proof}\r\n\r\n"));
    answer.text()
}

#[test]
fn authenticated_connection_is_one_clients_own_through_both_sidecars() {
    let pair = numbered(9);
    let (mut one, mut other, mut third) = (pair.client(), pair.client(), pair.client());
    let own = authorized(&mut one);
    let its = authorized(&mut other);
    assert_ne!(own, its);
    for _ in 0..3 {
        assert_eq!(authorized(&mut one), own);
        assert_eq!(one.get("/").text(), own);
        assert_eq!(other.get("/").text(), its);
        let shared = third.get("/").text();
        assert!(shared != own && shared != its, "{shared}, {own}, {its}");
    }
    assert_eq!(pair.app.connection_count(), 3);
}

#[test]
fn authenticated_connection_ends_with_its_client() {
    let pair = numbered(3);
    let mut one = pair.client();
    let own = authorized(&mut one);
    assert_eq!(one.get("/").text(), own);
    drop(one);
    let mut other = pair.client();
    for _ in 0..3 {
        assert_ne!(other.get("/").text(), own);
    }
    until("it has ended", || {
        let direction = [("direction", "inbound")];
        pair.inbound.metric("leno_upstream_connections_active", &[]) < 1.5
            && pair.inbound.metric("leno_connections_active", &direction) < 1.5
    });
}

#[test]
fn authenticated_connection_that_the_application_closed_is_made_anew() {
    let once = vec![Step::ReadRequest, Step::answer("1")];
    let then = vec![Step::ReadRequest, Step::answer("2"), Step::ReadEnd];
    let pair = scripted(vec![once, then]);
    let mut client = pair.client();
    assert_eq!(authorized(&mut client), "1");
    pair.app.finished(0);
    assert_eq!(authorized(&mut client), "2");
}

#[test]
fn body_may_come_with_the_proof() {
    let pair = numbered(2);
    let mut client = pair.client();
    let own = authorized(&mut client);
    let head = "POST / HTTP/1.1\r\nHost: a\r\nAuthorization: NTLM TlRMTVNT\r\n";
    let answer = client.ask(format!("{head}Content-Length: 5\r\n\r\nhello"));
    assert_eq!(answer.text(), own);
    let chunks = "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    assert_eq!(client.ask(format!("{head}{chunks}")).text(), own);
}

#[test]
fn authenticated_connection_of_a_client_of_http2_is_not_shared_afterwards() {
    let older = |sidecar: Sidecar| sidecar.cluster("protocol: http1");
    let app = ScriptedUpstream::start(numbers(9));
    let pair = Pair::start_with(PROXY, app, older, |outbound| outbound);
    let get = |authorized: bool| {
        let mut fields = vec![
            (":method", "GET"),
            (":scheme", "http"),
            (":path", "/"),
            (":authority", "a"),
        ];
        fields.extend(authorized.then_some(("authorization", "NTLM TlRMTVNT")));
        fields
    };
    let answer = |frames: &mut Frames<_>, stream, authorized| {
        frames.request(stream, &get(authorized));
        assert_eq!(frames.status(stream), 200);
        String::from_utf8(frames.data(stream, 1)).unwrap()
    };
    let mut one = Frames::new(pair.client());
    let own = [1, 3].map(|stream| answer(&mut one, stream, true));
    let mut other = Frames::new(pair.client());
    let mut strange = vec![answer(&mut other, 1, false), answer(&mut other, 3, true)];
    strange.push(pair.client().get("/").text());
    strange.push(authorized(&mut pair.client()));
    for number in strange {
        assert!(!own.contains(&number), "{number} of {own:?}");
    }
}

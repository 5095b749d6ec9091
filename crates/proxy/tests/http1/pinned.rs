//! Authentication that is bound to a connection (NTLM, Negotiate): one upstream connection for one
//! downstream, and for nobody else.

use crate::world::{World, scripted};
use testkit::{RawClient, ScriptedUpstream, Step};

/// Every connection answers with its own number.
fn numbered(count: usize) -> World<ScriptedUpstream> {
    let answers = |number: usize| {
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{number}");
        (0..4)
            .flat_map(|_| [Step::ReadRequest, Step::send(&answer)])
            .collect()
    };
    scripted((1..=count).map(answers).collect())
}

fn authorized(client: &mut RawClient, scheme: &str) -> String {
    let request = format!("GET / HTTP/1.1\r\nhost: a\r\nAuthorization: {scheme} TlRMTVNT\r\n\r\n");
    client.ask(request).text()
}

#[test]
fn authenticated_connection_is_one_clients_own() {
    for scheme in ["NTLM", "negotiate"] {
        let world = numbered(3);
        let (mut one, mut other) = (world.client(), world.client());
        let own = authorized(&mut one, scheme);
        assert_eq!(
            authorized(&mut one, scheme),
            own,
            "the answer to the challenge"
        );
        assert_eq!(one.get("/").text(), own, "authenticated from here on");
        assert_ne!(other.get("/").text(), own, "{scheme}");
        assert_eq!(one.get("/").text(), own);
    }
}

#[test]
fn authenticated_connection_goes_with_its_client() {
    let world = numbered(2);
    let mut one = world.client();
    let own = authorized(&mut one, "NTLM");
    drop(one);
    assert_ne!(world.client().get("/").text(), own);
}

#[test]
fn other_schemes_share_connections() {
    let world = numbered(2);
    let own = authorized(&mut world.client(), "Basic");
    assert_eq!(world.client().get("/").text(), own);
}

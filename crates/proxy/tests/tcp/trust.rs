//! Trust that changes while an opaque connection stands: it is worth more than its certificate, and
//! lasts as long as its peer would be let in anew.

use testkit::client::End;
use testkit::{ProxyProcess, ScriptedUpstream, Step, TestCa};

use super::{ANSWER, Pair, QUESTION, ask};

/// Answers twice.
fn patient() -> ScriptedUpstream {
    let turn = || [Step::ReadUntil(QUESTION.to_vec()), Step::send(ANSWER)];
    let mut steps = Vec::from_iter(turn().into_iter().chain(turn()));
    steps.push(Step::ReadEnd);
    ScriptedUpstream::always(steps)
}

/// Has both sides, which share the file, trust these authorities and no others.
#[track_caller]
fn trust(pair: &Pair, authorities: &[&TestCa], reloaded: &ProxyProcess, other: &ProxyProcess) {
    let texts = authorities
        .iter()
        .map(|ca| ca.authority().certificate_pem());
    let bundle: String = texts.collect();
    reloaded.reload(|| std::fs::write(pair.ca.bundle(), &bundle).unwrap());
    other.reload(|| {});
}

#[test]
fn bundle_that_grows_leaves_opaque_connections_alone() {
    let app = patient();
    let pair = Pair::new(&app, |sidecar, _| sidecar);
    let mut client = ask(&pair.client);
    trust(
        &pair,
        &[&TestCa::new(), &pair.ca],
        &pair.server,
        &pair.client,
    );
    client.send(QUESTION);
    client.expect(ANSWER);
    assert_eq!(app.connection_count(), 1);
}

#[test]
fn opaque_connection_of_a_peer_that_is_trusted_no_more_ends() {
    for end_at_the_server in [true, false] {
        let app = patient();
        let pair = Pair::new(&app, |sidecar, _| sidecar);
        let mut client = ask(&pair.client);
        let (first, second) = match end_at_the_server {
            true => (&pair.server, &pair.client),
            false => (&pair.client, &pair.server),
        };
        trust(&pair, &[&TestCa::new()], first, second);
        assert_eq!(
            client.read_to_end(),
            (vec![], End::Reset),
            "{end_at_the_server}"
        );
    }
}

//! A control plane that is broken, or means ill: the sidecar serves on, stays small, tries again,
//! and takes up the conversation when there is one.

use testkit::EchoServer;
use testkit::control::{Manner, Seen};

use crate::world::{MAIL, WEB, applied, ask, has, plane_with, says, serve, start};

/// More than the largest message that is taken and what is made of it, in an unoptimised program.
const GROWTH_KIB_MAX: u64 = 24 * 1024;

/// Has the control plane behave in that manner until `proof`, and then well again.
#[track_caller]
fn survives(manner: Manner, proof: impl Fn(&Seen, &Seen) -> bool, words: &str) {
    let app = EchoServer::start();
    let plane = plane_with(WEB, &[app.addr()]);
    let proxy = start(&plane);
    assert_eq!(ask(&proxy, WEB), 200);
    let (memory, before) = (proxy.anon_kib(), plane.seen());
    plane.behave(manner);
    plane.until("it shows", |seen| proof(&before, seen));
    says(&proxy, words);
    assert_eq!(ask(&proxy, WEB), 200);
    let grown = proxy.anon_kib().saturating_sub(memory);
    assert!(grown < GROWTH_KIB_MAX, "{grown} KiB more");
    plane.behave(Manner::Good);
    serve(&plane, "mail", MAIL, &[app.addr()]);
    applied(&proxy, "it is told again", |config| {
        has(config, "listeners", "mail")
    });
    assert!(!proxy.stderr().contains("panicked"));
}

fn connections(count: usize) -> impl Fn(&Seen, &Seen) -> bool {
    move |before, now| now.connections >= before.connections + count
}

fn streams(count: usize) -> impl Fn(&Seen, &Seen) -> bool {
    move |before, now| now.streams >= before.streams + count
}

#[test]
fn that_takes_connections_and_is_silent() {
    survives(Manner::Silent, connections(1), "does not answer");
}

#[test]
fn that_speaks_another_protocol() {
    survives(Manner::Rubbish, connections(3), "the control plane at");
}

#[test]
fn that_closes_every_connection() {
    survives(Manner::Curt, connections(3), "the control plane at");
}

#[test]
fn that_tells_nobody_anything() {
    survives(Manner::Refusing, streams(3), "nobody is told anything");
}

#[test]
fn that_hangs_up_in_the_middle_of_a_message() {
    survives(Manner::HangingUp, streams(3), "the control plane at");
}

#[test]
fn that_sends_more_than_anybody_takes() {
    survives(Manner::Oversized, streams(3), "is over the limit");
}

#[test]
fn that_sends_without_end_and_does_not_listen() {
    survives(Manner::Endless, streams(3), "the control plane at");
}

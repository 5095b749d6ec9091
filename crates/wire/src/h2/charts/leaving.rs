//! Charts of connections that end, and of streams that were not processed (RFC 9113, section 6.8).

use super::super::frame::settings::id;
use super::super::{Code, Role};
use super::{Chart, GET, OK, goaway, reset, settings};

#[test]
fn a_server_leaves_in_two_steps() {
    let mut chart = Chart::server();
    chart.request(1, false);
    chart.connection.go_away(Code::NoError);
    chart.request(3, true);
    chart.connection.go_away(Code::NoError);
    let bytes = chart.headers(5, GET, true);
    chart.check(&bytes, "");
    chart.sent("GOAWAY 2147483647 NoError; GOAWAY 3 NoError; RST_STREAM 5 RefusedStream");
    assert_eq!(chart.connection.streams(), 2);
}

#[test]
fn a_server_leaves_at_once() {
    let mut chart = Chart::server();
    chart.request(1, false);
    chart.connection.go_away(Code::EnhanceYourCalm);
    chart.sent("GOAWAY 1 EnhanceYourCalm");
}

#[test]
fn what_the_server_did_not_process_can_be_sent_again() {
    let (mut chart, keys) = Chart::asking(3);
    let unsent = chart.connection.open().unwrap();
    chart.check(&goaway((1 << 31) - 1, Code::NoError), "goaway NoError");
    assert!(chart.connection.is_going_away() && chart.connection.open().is_none());
    assert!(!chart.connection.is_open_for_sending(unsent));
    assert_eq!(chart.connection.next_reset(), Some(unsent));
    assert_eq!(chart.connection.next_reset(), None);
    chart.check(&goaway(1, Code::NoError), "goaway NoError");
    let resets: Vec<_> = std::iter::from_fn(|| chart.connection.next_reset()).collect();
    assert_eq!(resets, keys[1..]);
    chart.check(&goaway(5, Code::NoError), "goaway NoError");
    assert_eq!(chart.connection.next_reset(), None);
    let bytes = chart.headers(1, OK, true);
    chart.check(&bytes, "response 0 200 end");
    chart.connection.send_data(keys[0], b"", true);
    assert_eq!(chart.connection.streams(), 0);
}

#[test]
fn a_refused_request_can_be_sent_again() {
    let (mut chart, keys) = Chart::asking(2);
    chart.check(
        &reset(1, Code::RefusedStream),
        "reset 0 RefusedStream unprocessed",
    );
    chart.check(&reset(3, Code::Cancel), "reset 1 Cancel");
    for key in keys {
        chart.connection.send_data(key, b"late", true);
        chart.connection.release(key);
    }
    chart.sent("");
}

#[test]
fn a_client_opens_as_many_as_the_server_takes() {
    let mut chart = Chart::client();
    chart.check(&settings(&[(id::MAX_CONCURRENT_STREAMS, 2)]), "settings");
    let first = chart.connection.open().unwrap();
    assert!(chart.connection.open().is_some() && chart.connection.open().is_none());
    chart.connection.release(first);
    assert!(chart.connection.can_open());
    assert!(Chart::server().connection.open().is_none());
}

#[test]
fn workers_are_announced_on_the_hop_alone() {
    let seen = |dialect, settings_of: &[(u16, u32)]| {
        let mut chart = Chart::new(Role::Client, |config| config.dialect = dialect);
        chart.check(&settings(settings_of), "settings");
        chart.connection.peer_worker()
    };
    let (hop, public) = (super::Dialect::Hop, super::Dialect::Public);
    let both = |workers, worker| [(id::WORKERS, workers), (id::WORKER, worker)];
    assert_eq!(seen(hop, &both(4, 1)), Some((0, 4)));
    assert_eq!(seen(hop, &both(4, 4)), Some((3, 4)));
    assert_eq!(seen(public, &both(4, 1)), None);
    assert_eq!(seen(hop, &both(4, 5)), None);
    assert_eq!(seen(hop, &both(4, 0)), None);
    assert_eq!(seen(hop, &both(70_000, 1)), None);
    assert_eq!(seen(hop, &[(id::WORKERS, 4)]), None);
}

//! Charts of flow control (RFC 9113, sections 5.2 and 6.9): who may send how much, and when.

use super::super::frame::{flag, kind, settings::id};
use super::super::{Code, Role};
use super::{Chart, data, raw, settings, window};

const MOST: u32 = (1 << 31) - 1;

#[test]
fn sending_stops_at_the_window_and_goes_on() {
    let mut chart = Chart::server();
    let key = chart.request(1, true);
    chart.connection.send_status(key, 200, b"", false);
    let body = vec![0; 100_000];
    assert_eq!(chart.connection.send_data(key, &body, true), 65_535);
    chart.sent("HEADERS 1 :status=200; DATA 1 16384; DATA 1 16384; DATA 1 16384; DATA 1 16383");
    assert_eq!(chart.connection.send_data(key, &body, true), 0);
    chart.sent("");
    chart.check(&window(1, 10), "window 0");
    assert_eq!(
        chart.connection.sendable(key),
        0,
        "the connection's is shut"
    );
    chart.check(&window(0, 10), "window");
    chart.check(&window(0, 10), "");
    assert_eq!(chart.connection.send_data(key, &body[..10], true), 10);
    chart.sent("DATA 1 10 end");
}

#[test]
fn settings_change_the_windows_of_open_streams() {
    let mut chart = Chart::server();
    let key = chart.request(1, true);
    chart.connection.send_status(key, 200, b"", false);
    assert_eq!(chart.connection.send_data(key, &[0; 100], false), 100);
    let size = |bytes| settings(&[(id::INITIAL_WINDOW_SIZE, bytes)]);
    chart.check(&size(10), "settings");
    assert_eq!(chart.connection.sendable(key), 0);
    chart.check(&window(1, 90), "");
    chart.check(&window(1, 1), "window 0");
    assert_eq!(chart.connection.sendable(key), 1);
    let other = chart.request(3, true);
    chart.connection.send_status(other, 200, b"", false);
    assert_eq!(chart.connection.sendable(other), 10);
    chart.check(&size(20), "settings");
    assert_eq!(chart.connection.sendable(key), 11);
    chart.check(&window(3, 1), "");
    chart.check(&size(MOST), "FlowControlError");
}

#[test]
fn windows_do_not_overflow() {
    let mut chart = Chart::server();
    chart.request(1, true);
    chart.check(&window(1, MOST), "reset 0 FlowControlError");
    chart.check(&window(0, MOST), "FlowControlError");
    let mut chart = Chart::server();
    chart.request(1, true);
    chart.check(&window(1, 0), "reset 0 ProtocolError");
    chart.check(&window(0, 0), "ProtocolError");
}

#[test]
fn the_peer_keeps_to_our_windows() {
    let mut chart = Chart::new(Role::Server, |config| config.limits.stream_window = 100);
    chart.request(1, false);
    chart.check(&data(1, 101, false), "reset 0 FlowControlError");
    let mut chart = Chart::new(Role::Server, |config| {
        (config.limits.stream_window, config.limits.connection_window) = (MOST, 0);
    });
    chart.request(1, false);
    let mut bytes = Vec::new();
    (0..4).for_each(|_| bytes.extend(data(1, 16_384, false)));
    let taken = ["data 0 16384"; 3].join("; ");
    chart.check(&bytes, &format!("{taken}; FlowControlError"));
}

#[test]
fn what_is_consumed_is_given_back_in_halves() {
    let mut chart = Chart::new(Role::Server, |config| config.limits.stream_window = 100);
    let key = chart.request(1, false);
    chart.check(&data(1, 60, false), "data 0 60");
    chart.connection.consumed(key, 49);
    chart.sent("");
    chart.connection.consumed(key, 1);
    chart.sent("WINDOW_UPDATE 1 50");
    chart.check(&data(1, 40, true), "data 0 40 end");
    chart.connection.consumed(key, 50);
    chart.sent("");
}

#[test]
fn nobodys_data_is_given_back_to_the_connection() {
    let mut chart = Chart::new(Role::Server, |config| {
        config.limits.connection_window = 65_535
    });
    let key = chart.request(1, false);
    chart.connection.release(key);
    chart.connection.output().clear();
    (0..2).for_each(|_| chart.check(&data(1, 16_384, false), ""));
    chart.sent("WINDOW_UPDATE 0 32768");
}

#[test]
fn a_stream_that_is_dropped_within_a_frame_gives_the_rest_back() {
    let mut chart = Chart::server();
    let key = chart.request(1, false);
    let bytes = data(1, 1000, false);
    chart.check(&bytes[..109], "data 0 100");
    chart.connection.release(key);
    chart.sent("RST_STREAM 1 Cancel");
    chart.check(&bytes[109..], "");
    assert_eq!(chart.connection.connection_unconsumed(), 100);
    chart.connection.consumed_connection(100);
    assert_eq!(chart.connection.connection_unconsumed(), 0);
}

#[test]
fn padding_counts_and_is_given_back() {
    let mut chart = Chart::new(Role::Server, |config| config.limits.stream_window = 10);
    let key = chart.request(1, false);
    let padded = raw(kind::DATA, flag::PADDED, 1, b"\x06abc\0\0\0\0\0\0");
    chart.check(&padded, "data 0 3");
    assert_eq!(chart.connection.unconsumed(key), 3);
    chart.sent("WINDOW_UPDATE 1 7");
    chart.connection.reset(key, Code::Cancel);
}

#[test]
fn until_the_peer_took_our_settings_its_window_is_the_protocols() {
    let mut chart = Chart::server();
    let mut config = super::Config::new(Role::Server, super::Dialect::Public);
    config.limits.stream_window = 100;
    chart.connection = super::Connection::new(&config);
    chart.check(super::PREFACE, "");
    chart.check(&settings(&[]), "settings");
    let key = chart.request(1, false);
    chart.check(&data(1, 200, false), "data 0 200");
    chart.check(&super::settings_ack(), "");
    chart.connection.consumed(key, 200);
    chart.check(&data(1, 101, false), "reset 0 FlowControlError");
}

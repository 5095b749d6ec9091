//! What must hold of the messages of a stream for any bytes: the same however they arrive, bounded,
//! and what is understood of a request means the same when it is said again. Called by the target
//! `grpc` and, over the checked-in seeds, by xds's own tests.

use prost::Message;
use xds::grpc::Error;
use xds::grpc::frame::{Decoder, encode};
use xds::proto::discovery::{DeltaDiscoveryRequest, DiscoveryRequest};

/// Bytes of a message: more than inputs mostly have, and less than some say.
const MESSAGE_BYTES_MAX: usize = 4096;

/// Messages as a peer sends them, of whom it is a stranger whether they are requests.
pub fn grpc(data: &[u8]) {
    let whole = read(data, data.len().max(1));
    for size in [1, 3, 64] {
        assert_eq!(read(data, size), whole, "in pieces of {size}");
    }
    for message in &whole.0 {
        assert!(message.len() <= MESSAGE_BYTES_MAX);
        check::<DiscoveryRequest>(message);
        check::<DeltaDiscoveryRequest>(message);
    }
}

/// Messages, and what ended them.
fn read(data: &[u8], size: usize) -> (Vec<Vec<u8>>, Option<String>) {
    let (mut decoder, mut messages) = (Decoder::new(MESSAGE_BYTES_MAX), Vec::new());
    for piece in data.chunks(size) {
        decoder.push(piece);
        loop {
            match decoder.take() {
                Ok(Some(message)) => messages.push(message.to_vec()),
                Ok(None) => break,
                Err(error) => return (messages, Some(fault(&error))),
            }
        }
    }
    (messages, None)
}

fn fault(error: &Error) -> String {
    assert!(matches!(error, Error::TooLarge { .. } | Error::Compressed));
    error.to_string()
}

fn check<M: Message + Default + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    let Ok(request) = M::decode(bytes) else {
        return;
    };
    let mut decoder = Decoder::new(usize::MAX);
    decoder.push(&encode(&request));
    let again = decoder.take().expect("our own frame").expect("all of it");
    assert!(decoder.is_empty());
    assert_eq!(M::decode(again).expect("we wrote it"), request);
}

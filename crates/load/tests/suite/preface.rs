//! One port for HTTP/1 and HTTP/2: the first bytes tell, however they are cut.

use crate::world::echo;
use std::{
    io::{Read, Write},
    net::TcpStream,
};

/// The preface, an empty SETTINGS, and HEADERS of a GET for `/?size=3` that ends its stream.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\
    \x00\x00\x00\x04\x00\x00\x00\x00\x00\
    \x00\x00\x0d\x01\x05\x00\x00\x00\x01\x82\x86\x04\x08/?size=3\x41";

/// Sends `pieces` one by one; gives the first bytes that come back.
fn first_bytes(pieces: &[&[u8]], count: usize) -> Vec<u8> {
    let server = echo();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_nodelay(true).unwrap();
    for piece in pieces {
        stream.write_all(piece).unwrap();
    }
    let mut answer = vec![0; count];
    stream.read_exact(&mut answer).unwrap();
    answer
}

#[test]
fn the_preface_is_told_however_it_is_cut() {
    for size in [1, 3, 23, 24, 25, 100] {
        let pieces: Vec<&[u8]> = HTTP2.chunks(size).collect();
        let answer = first_bytes(&pieces, 9);
        // The type of the first frame: SETTINGS.
        assert_eq!(answer[3], 4, "by {size}: {answer:?}");
    }
}

#[test]
fn what_only_begins_like_it_is_http1() {
    for method in ["P", "PR", "PRI", "PRINT", "POST", "GET"] {
        let request = format!("{method} /?size=1 HTTP/1.1\r\nConnection: close\r\n\r\n");
        for size in [1, 2, 100] {
            let pieces: Vec<&[u8]> = request.as_bytes().chunks(size).collect();
            let answer = first_bytes(&pieces, 15);
            assert_eq!(answer, b"HTTP/1.1 200 OK", "{method} by {size}");
        }
    }
}

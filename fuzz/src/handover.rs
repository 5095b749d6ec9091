//! What must hold of what a proxy and its successor say to each other, for any bytes: it is
//! bounded, means the same however it arrives, and what is understood is said again in the same
//! way. Called by the target and, over the checked-in seeds, by proxy's own tests.

use super::message::{Fault, Line, Lines, NAME_BYTES_MAX, SOCKETS_MAX};

/// Bytes as they come from the other process.
pub fn handover(data: &[u8]) {
    let whole = read(data, data.len().max(1));
    for size in [1, 3, 64] {
        assert_eq!(read(data, size), whole, "in pieces of {size}");
    }
    for line in &whole.0 {
        if let Line::Give { sockets } = line {
            assert!(sockets.len() <= SOCKETS_MAX);
            let fits = |name: &str| name.len() <= NAME_BYTES_MAX;
            assert!(sockets.iter().all(|socket| fits(&socket.name)));
        }
        check_again(line);
    }
}

/// Lines, and what ended them.
fn read(data: &[u8], size: usize) -> (Vec<Line>, Option<Fault>) {
    let (mut lines, mut said) = (Lines::default(), Vec::new());
    for piece in data.chunks(size) {
        if let Err(fault) = lines.push(piece) {
            return (said, Some(fault));
        }
        loop {
            match lines.next_line() {
                Ok(Some(line)) => said.push(line),
                Ok(None) => break,
                Err(fault) => return (said, Some(fault)),
            }
        }
    }
    (said, None)
}

fn check_again(line: &Line) {
    // A role of a later version has no name here that could be said again.
    match line.encode() {
        Ok(bytes) => assert_eq!(read(&bytes, 7), (vec![line.clone()], None)),
        // Escapes may make it longer than it came.
        Err(fault) => assert_eq!(fault, Fault::TooLong),
    }
}
